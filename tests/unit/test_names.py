"""A name has one meaning: classes, type aliases and modules are defined once each."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "visformer"


def types(tree: ast.Module) -> Iterator[str]:
    """Name the classes of a module, and its aliases of types, without underscores."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield node.name.lstrip("_")
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            names = [one.id for one in statement.targets if isinstance(one, ast.Name)]
        elif isinstance(statement, ast.AnnAssign):
            target = statement.target
            names = [target.id] if isinstance(target, ast.Name) else []
        else:
            continue
        for name in names:
            bare = name.lstrip("_")
            if bare[:1].isupper() and not bare.isupper():
                yield bare


def homes_of_types(package: Path) -> dict[str, list[str]]:
    """Return where each name of a type is defined."""
    homes = defaultdict(list)
    for path in sorted(package.rglob("*.py")):
        for name in types(ast.parse(path.read_text("utf-8"))):
            homes[name].append(path.relative_to(package).as_posix())
    return homes


def homes_of_modules(package: Path) -> dict[str, list[str]]:
    """Return the modules of each name; what is shown and its view count as one."""
    homes = defaultdict(list)
    for path in sorted(package.rglob("*.py")):
        if not path.stem.startswith("__"):
            homes[path.stem].append(path.relative_to(package).as_posix())
    return {name: paths for name, paths in homes.items() if not _are_twins(paths)}


def _are_twins(paths: list[str]) -> bool:
    """Whether these are one module of the window, and one that it is about.

    That is a picture, or what is done to a part of the State.
    """
    rooms = [path.partition("/")[0] for path in paths]
    return rooms in (["pictures", "ui"], ["session", "ui"])


@pytest.mark.parametrize("homes", [homes_of_types, homes_of_modules])
def test_a_name_has_one_home(homes: Callable[[Path], dict[str, list[str]]]) -> None:
    doubled = {name: paths for name, paths in homes(PACKAGE).items() if len(paths) > 1}
    assert not doubled


def test_a_second_home_is_found(tmp_path: Path) -> None:
    for room in ("pictures", "ui", "values"):
        (tmp_path / room).mkdir()
    (tmp_path / "pictures" / "masks.py").write_text("class Cell: ...\nMOST = 1\n")
    (tmp_path / "ui" / "masks.py").write_text("_Cell = tuple[int, int]\nMOST = 2\n")
    assert homes_of_types(tmp_path) == {"Cell": ["pictures/masks.py", "ui/masks.py"]}
    assert homes_of_modules(tmp_path) == {}
    (tmp_path / "values" / "masks.py").write_text("")
    assert len(homes_of_modules(tmp_path)["masks"]) == 3
