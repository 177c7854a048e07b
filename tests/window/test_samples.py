"""The sample menu."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from tests.opened import opened_model
from tests.states import ran
from tests.traces import make_trace
from tests.window.windows import answer, make_window
from visformer import paths
from visformer.ui.bars.samples import HEADINGS, SAMPLES, choose, open_with_sample
from visformer.ui.window.actions import open_together


def test_samples_of_installed_models_are_offered(qtbot: QtBot, tmp_path: Path) -> None:
    window, engine = make_window(qtbot, tmp_path)
    buttons = window.findChildren(QPushButton)
    menu = next(b.menu() for b in buttons if b.text() == "Samples")
    titles = [action.text() for action in menu.actions() if not action.isSeparator()]
    names = {path.name for path in paths.bundled_checkpoints()}
    assert len(titles) == sum(sample.model in names for sample in SAMPLES)
    action = next(a for a in menu.actions() if a.text().startswith("attention\t"))
    action.trigger()
    assert engine.opened == [(str(paths.checkpoint("reverse")), "")]
    assert window.source.text() == "attention"
    assert not engine.decodes
    window.session.set(**ran(recorded=True))
    window.receive(
        opened_model(make_trace().model, path=engine.opened[0][0], number=-1)
    )
    assert [decode.source for decode in engine.decodes] == ["attention"]


def test_a_sample_runs_on_its_own_model(qtbot: QtBot, tmp_path: Path) -> None:
    window, engine = make_window(qtbot, tmp_path)
    reverse = str(paths.checkpoint("reverse"))
    model = make_trace().model
    window.session.set(opened=opened_model(model, path="/my/own.pt"))
    choose(window, "attention", reverse)
    assert engine.opened == [(reverse, "")]  # not on the user's own
    assert not engine.decodes
    window.session.set(opened=opened_model(model, path=reverse), opening=None)
    choose(window, "again", reverse)
    assert [decode.source for decode in engine.decodes] == ["again"]
    assert len(engine.opened) == 1


def test_a_bundled_model_brings_its_sample_along(qtbot: QtBot, tmp_path: Path) -> None:
    window, engine = make_window(qtbot, tmp_path)
    model = make_trace().model
    window.session.set(opened=opened_model(model, path="/my/own.pt"))
    window.translate("The animal")
    answer(window, engine)
    reverse = str(paths.checkpoint("reverse"))
    entries = window.findChildren(QAction)
    next(entry for entry in entries if entry.text() == "reverse").trigger()
    assert engine.opened == [(reverse, "")]
    assert window.source.text() == "attention"
    window.receive(opened_model(model, path=reverse, number=-1))
    assert engine.decodes[-1].source == "attention"
    window.translate("my own")
    answer(window, engine)
    open_with_sample(window, reverse)  # it is open already: its sentence stays
    assert window.source.text() == "my own"


@pytest.mark.parametrize("bundled", [True, False])
def test_a_folder_that_is_dropped_brings_the_sample_of_its_own_model(
    qtbot: QtBot, tmp_path: Path, bundled: bool
) -> None:
    window, engine = make_window(qtbot, tmp_path)
    window.session.set(opened=opened_model(make_trace().model, path="/my/own.pt"))
    window.translate("The animal")
    answer(window, engine)
    path = str(paths.checkpoint("reverse") if bundled else tmp_path / "reverse")
    open_together(window, [path])
    assert engine.opened == [(path, "")]
    assert window.source.text() == ("attention" if bundled else "The animal")


def test_samples_say_what_they_show() -> None:
    sources = ("d2l", "modular", "handout", "labml", "scratch", "tutorial")
    for sample in SAMPLES:
        assert sample.model in HEADINGS
        assert not any(name in sample.note for name in sources)
    assert len({sample.note for sample in SAMPLES}) == len(SAMPLES)
