"""A window on a fake engine; every window test leaves nothing behind."""

from __future__ import annotations

import gc
import multiprocessing
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from tests.ui.windows import Pair, make_window


@pytest.fixture(scope="session", autouse=True)
def collected_in_between() -> None:
    """Leave what is there already out of collections, which makes them fast."""
    gc.freeze()


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Fail a test after which a window, a thread or a process is still there.

    Garbage is collected between tests only, as the program does it between events: in
    the middle of a destructor, where Qt holds a lock, a window in the garbage would
    wait for that lock for ever.
    """
    gc.collect()
    gc.disable()
    before = threading.active_count()
    yield
    assert multiprocessing.active_children() == []
    assert threading.active_count() == before
    if QApplication.instance() is not None:
        left = [w for w in QApplication.topLevelWidgets() if w.isVisible()]
        assert left == []


@pytest.fixture
def pair(qtbot: QtBot, tmp_path: Path) -> Pair:
    return make_window(qtbot, tmp_path)
