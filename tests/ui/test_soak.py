"""The soak, a short one: nothing is left of what was shown before."""

from __future__ import annotations

import gc
import string
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QSettings, QTimer
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from tests.formats.folders import write_letters
from tests.models import tiny_model
from tests.soak import Plan, User, soak
from visformer.app import App


@pytest.fixture
def user(qtbot: QtBot, tmp_path: Path) -> Iterator[User]:
    """Give a window with its engine to one who never rests."""
    models = [
        str(write_letters(tmp_path / name, tiny_model(seed=seed, max_positions=512)))
        for seed, name in enumerate(("one", "two"))
    ]
    ini = QSettings(str(tmp_path / "window.ini"), QSettings.Format.IniFormat)
    app = App([], settings=ini, keep=tmp_path / "kept")
    waking = QTimer(app.qt)
    waking.start(5)
    app.window.show()
    yield User(app, models, 1, string.ascii_lowercase)
    waking.stop()
    app.close()
    gc.disable()  # again: see ``nothing_left``
    QApplication.sendPostedEvents(None, 52)  # DeferredDelete


def test_nothing_is_left_of_what_was_shown(user: User) -> None:
    first, *_rounds, last = soak(user, Plan(steps=6, sentences=6, switches=0), 2)
    assert last.widgets == first.widgets
    assert last.states <= first.states + 5  # each view keeps the last it drew
    assert last.threads <= first.threads + 1  # the keeper's, with the first work
    assert last.files <= first.files + 1  # one may just be written
