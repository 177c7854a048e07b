"""Files and functions stay short enough to be read at once."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILE, FUNCTION = 700, 60  # lines at most


def _long(name: str, source: str) -> list[str]:
    """Name the file, and its functions, that have too many lines."""
    too_long = [name] if len(source.splitlines()) > FILE else []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            if node.end_lineno - node.lineno >= FUNCTION:
                too_long.append(f"{name}: {node.name}")
    return too_long


def test_files_and_functions_are_short() -> None:
    paths = sorted([*ROOT.glob("visformer/**/*.py"), *ROOT.glob("tests/**/*.py")])
    assert len(paths) > 300
    too_long = [
        name
        for path in paths
        for name in _long(path.relative_to(ROOT).as_posix(), path.read_text("utf-8"))
    ]
    assert too_long == []


def test_what_is_too_long_is_named() -> None:
    inner = "class A:\n    def f():\n" + "        x = 1\n" * (FUNCTION - 1)
    assert _long("a.py", inner) == []
    assert _long("a.py", inner + "        x = 2\n") == ["a.py: f"]
    assert _long("a.py", "x = 1\n" * FILE) == []
    assert _long("a.py", "x = 1\n" * (FILE + 1)) == ["a.py"]
