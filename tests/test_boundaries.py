"""The house's arrows: which room may import what.

Packages of others are checked in a fresh interpreter, our own rooms by reading the
import statements, those for types included.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "visformer"
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
    "bench/bench_command.py": (*QT, *TORCH),
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
    "trace_file": ("errors", "files", "language", "text", "values"),
    "tokenizers": ("errors", "files", "language", "text", "values"),
    "analysis": ("arguments", "language", "values"),
    "core": ("arguments", "errors", "files", "language", "tokenizers", "values"),
    "formats": (
        *("arguments", "core", "errors", "files", "language", "text", "tokenizers"),
        *("trace_file", "values", "watching"),
    ),
    "training": (
        *("core", "errors", "files", "formats", "language", "paths", "text"),
        *("tokenizers", "values"),
    ),
    "engine": (
        *("core", "errors", "formats", "language", "own_process", "tokenizers"),
        "values",
    ),
    "watching": (
        *("analysis", "arguments", "core", "engine.messages", "errors", "language"),
        "values",
    ),
    "pictures": (
        *("analysis", "engine.messages", "errors", "language", "text", "values"),
        "words",
    ),
    "session": (
        *(*ENGINE, "errors", "files", "language", "pictures", "text", "trace_file"),
        *("values", "words"),
    ),
    "program": (*("errors", "language", "paths", "session", "values"),),
    "ui": (
        *(*ENGINE, "errors", "files", "language", "paths", "pictures", "program"),
        *("session", "text", "trace_file", "values", "words"),
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


def _modules(room: str) -> list[str]:
    path = PACKAGE / room
    files = [path] if path.is_file() else sorted(path.rglob("*.py"))
    names = [file.relative_to(PACKAGE.parent).with_suffix("") for file in files]
    return [".".join(name.parts).removesuffix(".__init__") for name in names]


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
