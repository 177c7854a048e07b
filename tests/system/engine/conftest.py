"""A real engine, and a checkpoint for it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.engine.listener import Listener
from tests.system.formats.folders import write_letters
from visformer.engine.handle import Engine

OURS = ("engine-reader", "engine-writer", "engine-starter_0")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_letters(tmp_path_factory.mktemp("letters"))


@pytest.fixture
def engine() -> Iterator[tuple[Engine, Listener]]:
    listener = Listener()
    engine = Engine(listener)
    yield engine, listener
    engine.close()
    names = [thread.name for thread in threading.enumerate()]
    assert not [name for name in names if name in OURS]
