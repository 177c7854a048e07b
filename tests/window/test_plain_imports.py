from __future__ import annotations

import builtins
import importlib
import linecache
from pathlib import Path

import pytest

from visformer import app, cli
from visformer.program.plain_imports import import_plainly


def is_read(folder: Path, name: str) -> bool:
    """Import a new module in a statement; tell whether its source was read, too."""
    file = folder / f"{name}.py"
    file.write_text("")
    importlib.invalidate_caches()
    exec(f"import {name}")
    return str(file) in linecache.cache


def test_an_import_reads_no_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    hook = vars(builtins)["__feature_import__"]
    monkeypatch.setattr(builtins, "__import__", hook)  # and back
    assert is_read(tmp_path, "hooked"), "PySide reads no sources any more"
    import_plainly()
    assert not is_read(tmp_path, "plain")


def test_the_command_imports_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    monkeypatch.setattr(builtins, "__import__", builtins.__import__)
    monkeypatch.setattr(cli, "check_screen", lambda: None)

    def run(*_given: object) -> int:
        seen.append(builtins.__import__ is vars(builtins)["__orig_import__"])
        return 0

    monkeypatch.setattr(app, "run", run)
    assert cli.main([]) == 0
    assert seen == [True]
