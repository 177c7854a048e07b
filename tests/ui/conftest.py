"""Every window test leaves nothing behind."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Iterator

import pytest
from PySide6.QtWidgets import QApplication


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Fail a test after which a window, a thread or a process is still there."""
    before = threading.active_count()
    yield
    assert multiprocessing.active_children() == []
    assert threading.active_count() == before
    if QApplication.instance() is not None:
        left = [w for w in QApplication.topLevelWidgets() if w.isVisible()]
        assert left == []
