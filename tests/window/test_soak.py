"""The soak, a short one: nothing is left of what was shown before."""

from __future__ import annotations

import collections
import gc
import string
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QSettings, QTimer
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from tests.soak.user import Model, Plan, User, soak
from tests.system.formats.folders import write_letters
from tests.tiny_models import tiny_model
from visformer.app import App
from visformer.values.facts import ModelFacts
from visformer.values.layer_weights import LayerParameters


@pytest.fixture
def app(qtbot: QtBot, tmp_path: Path) -> Iterator[App]:
    """Run the program."""
    ini = QSettings(str(tmp_path / "window.ini"), QSettings.Format.IniFormat)
    app = App([], settings=ini, keep=tmp_path / "kept")
    waking = QTimer(app.qt)
    waking.start(5)
    app.window.show()
    yield app
    waking.stop()
    app.close()
    gc.disable()  # again: see ``nothing_left``
    QApplication.sendPostedEvents(None, 52)  # DeferredDelete


@pytest.fixture
def user(app: App, tmp_path: Path) -> User:
    """Give the program to one who never rests."""
    models = [
        write_letters(tmp_path / name, tiny_model(seed=seed, max_positions=512))
        for seed, name in enumerate(("one", "two"))
    ]
    letters = string.ascii_lowercase
    return User(app, [Model(str(path), letters) for path in models], 1)


@pytest.mark.slow
def test_nothing_is_left_of_what_was_shown(app: App, user: User) -> None:
    """One program is asked both, as it takes seconds to start and to open models."""
    _start, first, last = soak(app, user, Plan(steps=6, sentences=6, switches=2), 2)
    assert last.widgets == first.widgets
    assert last.states <= first.states + 5  # each view keeps the last it drew
    assert last.threads <= first.threads + 1  # the keeper's, with the first work
    assert last.files <= first.files + 1  # one may just be written
    assert last.processes == first.processes
    runs_are_freed_when_nothing_shows_them(app, user)


def runs_are_freed_when_nothing_shows_them(app: App, user: User) -> None:
    """Without a collection: what is in a cycle stays until the next full one."""
    app._timer.timeout.disconnect(app._collect)
    gc.collect()
    user.work(Plan(steps=60, sentences=20, switches=1))
    for layer in (0, 1) * 8:
        app.window.session.set(tab="computation", layer=layer)
        user.wait(lambda: not app.window.session.state.awaiting.side_requests)
    held = collections.Counter(map(type, gc.get_objects()))
    assert held[LayerParameters] <= 6  # the state's, and what runs were drawn with
    assert held[ModelFacts] <= 12  # of models, not of each run
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        kinds = [type(thing) for thing in gc.garbage]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
    ours = (kind.__qualname__ for kind in kinds if "visformer" in kind.__module__)
    assert collections.Counter(ours) == {}
