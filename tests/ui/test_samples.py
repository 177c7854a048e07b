"""The sample menu."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from tests.opened import opened_model
from tests.traces import make_trace
from tests.ui.windows import make_window
from visformer import paths
from visformer.engine.messages import Opened
from visformer.ui.bars.samples import SAMPLES, choose


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
    window.session.set(recorded=True)
    window.receive(
        Opened(
            number=1,
            path=engine.opened[0][0],
            model=make_trace().model,
            positions=np.zeros((8, 8), np.float32),
            devices=("cpu",),
            findings=(),
        )
    )
    assert [decode.source for decode in engine.decodes] == ["attention"]


def test_a_sample_runs_on_the_model_that_is_open(qtbot: QtBot, tmp_path: Path) -> None:
    window, engine = make_window(qtbot, tmp_path)
    reverse = str(paths.checkpoint("reverse"))
    model = make_trace().model
    window.session.set(opened=opened_model(model, path="/my/own.pt"))
    choose(window, "attention", reverse)
    window.session.set(opened=opened_model(model, path=reverse))
    choose(window, "again", reverse)
    assert [decode.source for decode in engine.decodes] == ["attention", "again"]
    assert not engine.opened
