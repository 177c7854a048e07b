"""The house's arrows: which room may import what, checked in a fresh interpreter."""

from __future__ import annotations

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
    "analysis": (*QT, *TORCH),
    "pictures": (*QT, *TORCH),
    "session": (*QT, *TORCH),
    "ui": TORCH,
    "cli.py": (*QT, *TORCH),
    "commands": (*QT, *TORCH),
    "app.py": TORCH,
    "offscreen.py": TORCH,
    "bench/bench_command.py": (*QT, *TORCH),
    "__init__.py": (*QT, *TORCH),
}
BLOCKER = """
import importlib, sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {forbidden!r}:
            raise ImportError("forbidden import: " + name)

sys.meta_path.insert(0, Blocker())
for module in {modules!r}:
    importlib.import_module(module)
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


@pytest.mark.parametrize("room", ROOMS)
def test_room_imports_nothing_forbidden(room: str) -> None:
    assert _imports(ROOMS[room], _modules(room)) == ""


def test_blocker_bites() -> None:
    assert "forbidden import: torch" in _imports(TORCH, ["visformer.core.model"])
