"""Folders of families, written once for all tests of a process."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")


@pytest.fixture(scope="session")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return what gives the folder of a family by its name."""
    pytest.importorskip("transformers")
    from tests.system.formats.hugging_face.families import write_folder

    written: dict[str, Path] = {}

    def folder(name: str) -> Path:
        if name not in written:
            written[name] = write_folder(tmp_path_factory.mktemp("folder") / "f", name)
        return written[name]

    return folder


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make whatever would fetch something fail."""
    import socket

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("something was to be fetched")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
