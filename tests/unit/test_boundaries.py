"""The house's arrows: which room may import what.

Packages of others are checked in a fresh interpreter, our own rooms by reading the
import statements, those for types included.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "visformer"
QT = ("PySide6", "pyqtgraph")
TORCH = ("torch", "sentencepiece", "safetensors")
ROOMS = {  # room -> what it must not import
    "values": (*QT, *TORCH),
    "engine": (*QT, *TORCH),
    "tokenizers": QT,
    "core": QT,
    "formats": QT,
    "training": QT,
    "watching": QT,
    "analysis": (*QT, *TORCH),
    "pictures": (*QT, *TORCH),
    "session": (*QT, *TORCH),
    "trace_file": (*QT, *TORCH),
    "program": TORCH,
    "ui": TORCH,
    "cli.py": (*QT, *TORCH),
    "commands": (*QT, *TORCH),
    "app.py": TORCH,
    "offscreen.py": TORCH,
    "__init__.py": (*QT, *TORCH),
}
ENGINE = (
    "engine.handle",
    "engine.messages",
    "engine.mirror",
)  # its client's side
ARROWS = {  # room -> all of ours that it may import
    # Trace.save writes files
    "values": ("arguments", "errors", "files", "language", "text", "trace_file"),
    "trace_file": ("errors", "file_kinds", "files", "language", "text", "values"),
    "tokenizers": ("errors", "files", "language", "text", "values"),
    "analysis": ("arguments", "errors", "language", "values"),
    "core": (
        *("analysis", "arguments", "errors", "files", "language", "tokenizers"),
        *("text", "trace_file", "values"),  # a training's recorded runs
    ),
    "formats": (
        *("arguments", "core", "errors", "file_kinds", "files", "language"),
        "paths",  # of the bundled models, which load opens by name
        *("text", "tokenizers", "trace_file", "values", "watching"),
    ),
    "training": (
        *("core", "errors", "files", "formats", "language", "paths", "text"),
        *("tokenizers", "values"),
    ),
    "engine": (
        *("core", "errors", "files", "formats", "language", "own_process"),
        *("tokenizers", "values"),
    ),
    "watching": (
        *("analysis", "arguments", "core", "engine.messages", "errors", "language"),
        *("text", "values"),
    ),
    "pictures": (
        *("analysis", "engine.messages", "errors", "language", "paths", "text"),
        *("values", "words"),
    ),
    "session": (
        *(*ENGINE, "errors", "files", "language", "paths", "pictures", "text"),
        *("trace_file", "values", "words"),
    ),
    "program": (
        *("commands.shared", "errors", "files", "language", "paths", "session"),
        *("trace_file", "values"),
    ),
    "ui": (
        *(*ENGINE, "errors", "file_kinds", "files", "language", "paths", "pictures"),
        *("program", "session", "text", "trace_file", "values", "words"),
    ),
}
BLOCKER = """
import importlib, sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {forbidden!r}:
            raise ImportError("forbidden import: " + name)

sys.meta_path.insert(0, Blocker())
for module in {modules!r}:
    try:
        importlib.import_module(module)
    except ImportError as error:
        print(module, error, sep=": ", file=sys.stderr)
"""


def _name(path: Path) -> str:
    """Return the name of the module in a file."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def _modules(room: str) -> list[str]:
    path = PACKAGE / room
    files = [path] if path.is_file() else sorted(path.rglob("*.py"))
    return [_name(file) for file in files]


def _imports(forbidden: tuple[str, ...], modules: list[str]) -> str:
    code = BLOCKER.format(forbidden=forbidden, modules=modules)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=100
    )
    return done.stderr


@pytest.mark.parametrize("forbidden", dict.fromkeys(ROOMS.values()), ids=" ".join)
def test_rooms_import_nothing_forbidden(forbidden: tuple[str, ...]) -> None:
    """Rooms that must not import the same share an interpreter: starts are slow."""
    rooms = [room for room in ROOMS if ROOMS[room] == forbidden]
    assert _imports(forbidden, [one for room in rooms for one in _modules(room)]) == ""


def test_blocker_bites_and_goes_on() -> None:
    modules = ["visformer.errors", "visformer.core.model", "visformer.core.search"]
    lines = _imports(TORCH, modules).splitlines()
    assert len(lines) == 2
    for line, module in zip(lines, modules[1:], strict=True):
        assert line == f"{module}: forbidden import: torch"


def _arrows(source: str) -> set[str]:
    """Return what a module imports of ours, without ``visformer.``."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are absolute"
            module = node.module or ""
            names |= {f"{module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    ours = {name for name in names if name.startswith("visformer.")}
    return {name.removeprefix("visformer.") for name in ours}


def _strays(room: str, source: str) -> list[str]:
    """Return the imports that a room may not have."""
    allowed = [f"{name}." for name in (room, *ARROWS[room])]
    return sorted(
        name for name in _arrows(source) if not f"{name}.".startswith(tuple(allowed))
    )


@pytest.mark.parametrize("room", ARROWS)
def test_room_imports_only_the_rooms_below_it(room: str) -> None:
    strays = {
        file.name: found
        for file in sorted((PACKAGE / room).rglob("*.py"))
        if (found := _strays(room, file.read_text("utf-8")))
    }
    assert strays == {}


@pytest.mark.parametrize(
    ("room", "line"),
    [
        ("core", "from visformer.formats.loading import load"),
        ("core", "import visformer.engine.messages"),
        ("values", "from visformer.analysis.leaks import leaks"),
        ("values", "from visformer import words"),
        ("session", "def f():\n    from visformer.engine.process import serve"),
        ("ui", "if TYPE_CHECKING:\n    from visformer.core.decoding import Decoding"),
    ],
)
def test_a_planted_import_is_seen(room: str, line: str) -> None:
    assert len(_strays(room, line)) == 1
    assert _strays(room, f"from visformer.{room}.x import y") == []


def _outside_functions(node: ast.AST) -> Iterator[ast.AST]:
    """Go through a module's code, those imports for types included."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child
            yield from _outside_functions(child)


def _imported(source: str, modules: Collection[str]) -> set[str]:
    """Return the modules that one imports outside its functions."""
    names = set()
    for node in _outside_functions(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            whole = (f"{node.module}.{alias.name}" for alias in node.names)
            names |= {w if w in modules else node.module or "" for w in whole}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names.intersection(modules)


def _circles(imports: Mapping[str, set[str]]) -> list[set[str]]:
    """Return the sets of modules that import each other, directly or by others."""
    reached = {name: set(found) for name, found in imports.items()}
    while True:
        more = {
            name: found.union(*(reached[other] for other in found))
            for name, found in reached.items()
        }
        if more == reached:
            break
        reached = more
    circles: list[set[str]] = []
    for name in reached:
        circle = {other for other in reached[name] if name in reached[other]}
        if circle - {name} and circle not in circles:
            circles.append(circle)
    return circles


def test_no_modules_import_each_other() -> None:
    """Imports for types count; those in a function's body do not."""
    paths = {name: path for path in PACKAGE.rglob("*.py") for name in [_name(path)]}
    imports = {
        name: _imported(path.read_text("utf-8"), paths) - {name}
        for name, path in paths.items()
    }
    found = [{name.removeprefix("visformer.") for name in c} for c in _circles(imports)]
    assert found == []


def test_a_planted_circle_is_seen() -> None:
    types = "if TYPE_CHECKING:\n    from visformer.a import A"
    inside = "def f():\n    from visformer.a import A"
    modules = {"visformer.a", "visformer.b", "visformer.c"}
    assert _imported(types, modules) == {"visformer.a"}
    assert _imported(inside, modules) == set()
    imports = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}
    assert _circles(imports) == [{"a", "b", "c"}]
    assert _circles({"a": {"b"}, "b": set()}) == []
