"""Every template of the catalogue is a literal and is given exactly its fields."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import pytest

PACKAGE = Path(__file__).parents[1] / "visformer"
DOOR = PACKAGE / "language.py"  # defines the functions, and passes templates on
TEMPLATES = {"_": 1, "N_": 1, "ngettext": 2}  # function -> how many templates it takes


def calls(tree: ast.Module) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(tree):
        name = node.func if isinstance(node, ast.Call) else None
        if isinstance(name, ast.Name) and name.id in TEMPLATES:
            assert isinstance(node, ast.Call)
            yield name.id, node


def fields(template: str) -> set[str]:
    return {
        name for _text, name, _spec, _conversion in Formatter().parse(template) if name
    }


def faults(source: str) -> list[str]:
    """Return what is wrong with the templates of a module, each with its line."""
    found = []
    for name, call in calls(ast.parse(source)):
        given = {keyword.arg for keyword in call.keywords}
        for template in call.args[: TEMPLATES[name]]:
            text = template.value if isinstance(template, ast.Constant) else None
            if not isinstance(text, str):
                if name != "_":  # a sentence marked with N_ may come from a table
                    found.append(f"{call.lineno}: {name} takes a literal")
                continue
            needed = fields(text) - ({"n"} if name == "ngettext" else set())
            if name == "N_" or None in given:  # given elsewhere, or by **
                continue
            if needed != given:
                found.append(f"{call.lineno}: {sorted(needed ^ {*map(str, given)})}")
    return found


@pytest.mark.parametrize(
    "path",
    [path for path in sorted(PACKAGE.rglob("*.py")) if path != DOOR],
    ids=lambda path: path.relative_to(PACKAGE).as_posix(),
)
def test_templates_are_literals_with_all_their_fields(path: Path) -> None:
    assert faults(path.read_text("utf-8")) == []


def test_a_fault_is_found() -> None:
    assert faults('_("{a} of {b:,}", a=1, b=2)') == []
    assert faults('ngettext("{n} of {b}", "{n} of {b}", 3, b=2)') == []
    assert faults('_("{a}", b=1)') == ["1: ['a', 'b']"]
    assert faults('ngettext("one", "{n} of {b}", 3)') == ["1: ['b']"]
    assert faults('N_(f"{a}")') == ["1: N_ takes a literal"]
