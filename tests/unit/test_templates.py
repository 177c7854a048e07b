"""Every template of the catalogue is a literal and is given exactly its fields.

And every text that a person reads is such a template.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from string import Formatter

from tests.catalogue import ERRORS, PACKAGE, TAKEN

DOOR = PACKAGE / "language.py"  # defines the functions, and passes templates on
FILES = [path for path in sorted(PACKAGE.rglob("*.py")) if path != DOOR]
SHOWN = {  # function -> how many texts of its first arguments a person reads
    **dict.fromkeys(("setText", "setToolTip", "setWindowTitle", "setTitle"), 1),
    **dict.fromkeys(("setPlaceholderText", "setSpecialValueText"), 1),
    **dict.fromkeys(("setAccessibleName", "setAccessibleDescription"), 1),
    **dict.fromkeys(("addAction", "addMenu", "addSection", "addItem"), 1),
    **dict.fromkeys(("QLabel", "QPushButton", "QAction", "plain_label"), 1),
    **dict.fromkeys(ERRORS, 1),
    "paragraph": 2,
}
TEXTS = {  # arguments that a person reads, of whatever function
    *("help", "description", "epilog", "title", "done", "note", "row_axis"),
    *("column_axis", "reason", "error", "notice", "busy", "about"),
}
NAMES = {"Visformer"}  # in every language
WORD = re.compile(r"[^\W\d_]{2,}")


def parsed(source: str | ast.Module) -> ast.Module:
    return ast.parse(source) if isinstance(source, str) else source


def calls(tree: ast.Module) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(tree):
        name = node.func if isinstance(node, ast.Call) else None
        if isinstance(name, ast.Name) and name.id in TAKEN:
            assert isinstance(node, ast.Call)
            yield name.id, node


def fields(template: str) -> set[str]:
    return {
        name for _text, name, _spec, _conversion in Formatter().parse(template) if name
    }


def faults(source: str | ast.Module) -> list[str]:
    """Return what is wrong with the templates of a module, each with its line."""
    found = []
    for name, call in calls(parsed(source)):
        given = {keyword.arg for keyword in call.keywords}
        for template in call.args[: TAKEN[name]]:
            text = template.value if isinstance(template, ast.Constant) else None
            if not isinstance(text, str):
                table = name == "_" and is_of_a_table(template)
                if not table and name not in ERRORS:  # which take what is translated
                    found.append(f"{call.lineno}: {name} takes a literal")
                continue
            needed = fields(text) - ({"n"} if name == "ngettext" else set())
            if name == "N_" or None in given:  # given elsewhere, or by **
                continue
            if needed != given:
                found.append(f"{call.lineno}: {sorted(needed ^ {*map(str, given)})}")
    return found


def is_of_a_table(node: ast.expr) -> bool:
    """Tell whether a text is a name's or a table's, where ``N_`` has marked it."""
    match node:
        case ast.IfExp(body=one, orelse=other):
            return is_of_a_table(one) and is_of_a_table(other)
        case ast.Call(func=ast.Attribute(attr=name)):
            return name == "get"
    return isinstance(node, ast.Name | ast.Attribute | ast.Subscript)


def raw(node: ast.expr) -> Iterator[str]:
    """Yield the words of a text that stand in the code without a mark."""
    match node:
        case ast.Call(func=ast.Attribute(attr="format" | "join", value=text)):
            yield from raw(text)
        case ast.Constant(value=str(text)):
            if WORD.search(text) and text not in NAMES:
                yield text
        case ast.JoinedStr(values=values):
            for value in values:
                yield from raw(value)
        case ast.FormattedValue(value=value):
            yield from raw(value)
        case ast.BinOp(left=one, right=other) | ast.IfExp(body=one, orelse=other):
            yield from (*raw(one), *raw(other))
        case ast.BoolOp(values=values):
            for value in values:
                yield from raw(value)


def unmarked(source: str | ast.Module) -> list[str]:
    """Return the texts of a module that are English in every language."""
    found = []
    for call in ast.walk(parsed(source)):
        if isinstance(call, ast.Call):
            name = getattr(call.func, "attr", getattr(call.func, "id", ""))
            texts = [*call.args[: SHOWN.get(name, 0)]]
            if name in ERRORS and texts and isinstance(texts[0], ast.Constant):
                texts = []  # a template
            texts += [given.value for given in call.keywords if given.arg in TEXTS]
            found += [f"{call.lineno}: {word}" for text in texts for word in raw(text)]
    return found


def test_templates_are_literals_with_all_their_fields() -> None:
    found = {}
    for path in FILES:
        tree = ast.parse(path.read_text("utf-8"))
        found[path.relative_to(PACKAGE).as_posix()] = faults(tree) + unmarked(tree)
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def test_a_fault_is_found() -> None:
    assert faults('_("{a} of {b:,}", a=1, b=2)') == []
    assert faults('ngettext("{n} of {b}", "{n} of {b}", 3, b=2)') == []
    assert faults('_("{a}", b=1)') == ["1: ['a', 'b']"]
    assert faults('ngettext("one", "{n} of {b}", 3)') == ["1: ['b']"]
    assert faults('N_(f"{a}")') == ["1: N_ takes a literal"]
    assert faults('_(f"{a}")') == ["1: _ takes a literal"]
    assert faults('_("one " + two)') == ["1: _ takes a literal"]
    assert faults("_(TABLE[name] if name else NOTHING)") == []
    assert faults('InputError("{a}", b=1)') == ["1: ['a', 'b']"]
    assert faults("InputError(said)") == []


def test_a_text_without_a_mark_is_found() -> None:
    assert unmarked('x.setText(_("one") if y else f"{a} · {b}")') == []
    assert unmarked('x.setText(f"{n} rows")') == ["1:  rows"]
    assert unmarked('x.setToolTip(_("one") + " more")') == ["1:  more"]
    assert unmarked('raise InputError("{} is bad".format(x))') == ["1: {} is bad"]
    assert unmarked('f(title=x or "nothing")') == ["1: nothing"]
