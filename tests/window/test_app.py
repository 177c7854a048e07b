"""The whole program: a real window, a real engine process."""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest
import torch
from PySide6.QtCore import QCoreApplication, QEvent, Qt, QTimer
from PySide6.QtWidgets import QApplication, QLineEdit, QMessageBox
from pytestqt.qtbot import QtBot

import visformer
from tests.system.formats.folders import write_letters
from tests.system.formats.layout_models import d2l, state
from tests.tiny_models import tiny_model
from tests.traces import make_trace
from tests.window.parts import drop, unwrap, view_of
from visformer.app import FULL_EVERY, App
from visformer.core.decoding import Decoding
from visformer.engine.handle import Engine
from visformer.formats.loading import load
from visformer.pictures.words.scene import telling_head
from visformer.session.side_requests import batch
from visformer.ui.views.computation.computation import ComputationView
from visformer.ui.views.masks.mask_lab import MaskLab
from visformer.ui.views.masks.masks import MasksView
from visformer.ui.window import actions
from visformer.ui.window.window import MainWindow
from visformer.values.intervention import NO_CHANGES

WAIT = 60_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = tiny_model(seed=3, max_positions=512)
    return write_letters(tmp_path_factory.mktemp("letters"), model)


def test_it_has_a_face_in_the_window_the_dock_and_About(app: App) -> None:
    icon = app.window.windowIcon().pixmap(16).toImage()
    assert (
        icon.pixelColor(7, 11).lightness()
        > 180
        > 100
        > icon.pixelColor(7, 3).lightness()
    )
    actions._show_limits(app.window)
    (box,) = app.window.findChildren(QMessageBox)
    assert box.iconPixmap().width() == actions.ICON
    for words in (f"Visformer {visformer.__version__}", "MIT licence", "What is new"):
        assert words in box.text()
    box.close()


def process_id(app: App) -> int:
    assert isinstance(app.engine, Engine)
    return int(app.engine._current.process.pid)


def finished(app: App) -> bool:
    state = app.window.session.state
    return state.trace is not None and not state.busy and not state.recorded


def test_type_step_and_see_what_the_model_makes(
    app: App, qtbot: QtBot, folder: Path, tmp_path: Path
) -> None:
    """One program is asked it all, as it takes seconds to start and to open models."""
    app.start(str(folder))
    window = app.window
    # the model takes its time: its process has just been started
    qtbot.keyClicks(window.source, "hello")
    qtbot.keyClick(window.source, Qt.Key.Key_Return)
    assert window.session.state.busy == f"opening {folder.name}"
    qtbot.waitUntil(lambda: finished(app), timeout=WAIT)
    state = window.session.state
    assert state.about is not None
    assert state.positions is not None
    assert window.memory.texts("recent") == [str(folder)]
    expected = Decoding(load(folder), "hello").finish()
    trace = unwrap(window.session.state.trace)
    assert trace.target == expected.target
    state = window.session.state
    assert (state.kind, state.layer, state.head) == telling_head(trace)[:3]
    window.transport.last()
    chips = window.strips.target.row.chips
    assert [chip.token for chip in chips[:-1]] == list(expected.target)
    assert chips[-1].token == expected.steps[-1].token
    a_batch_shows_its_pads(app, qtbot)
    a_bad_folder_leaves_the_sentence(app, qtbot, tmp_path)


def a_batch_shows_its_pads(app: App, qtbot: QtBot) -> None:
    window = app.window
    window.session.set(tab="masks")
    window.session.do(batch, ("ab", "abcdef"))
    qtbot.waitUntil(lambda: len(window.session.state.batch) == 2, timeout=WAIT)
    short = window.session.state.batch[0]
    assert short.source.count("<pad>") == 4
    assert not short.attention("cross", 0)[:, :, 3:].any()


def a_bad_folder_leaves_the_sentence(app: App, qtbot: QtBot, bad: Path) -> None:
    window = app.window
    window.open(str(bad))
    qtbot.waitUntil(lambda: bool(window.session.state.error), timeout=WAIT)
    assert "no config.json" in window.notice.text()
    window.translate("again")
    qtbot.waitUntil(lambda: finished(app), timeout=WAIT)
    assert unwrap(window.session.state.trace).source_text == "again"


def test_what_is_garbage_when_it_is_old_is_collected(app: App) -> None:
    ring = [Ring()]
    ring[0].itself = ring[0]
    gone = weakref.ref(ring[0])
    gc.collect(1)  # now it is old
    ring.clear()
    for _second in range(2 * FULL_EVERY):
        app._timer.timeout.emit()
    assert gone() is None


def test_garbage_is_collected_only_after_something_has_happened(
    app: App, qtbot: QtBot
) -> None:
    running = list[bool]()  # after a collection
    app._timer.timeout.connect(lambda: running.append(app._timer.isActive()))
    qtbot.waitUntil(lambda: bool(running), timeout=WAIT)
    assert running == [False]  # nothing wakes a window in which nothing happens
    QCoreApplication.sendEvent(app.window, QEvent(QEvent.Type.User))
    assert app._timer.isActive()


class Ring:
    """Something that holds itself."""

    itself: Ring | None = None


def test_the_weights_of_the_layer_looked_at_come(
    app: App, qtbot: QtBot, folder: Path
) -> None:
    """Asked for of one layer after another; after a crash.

    What they make of the Trace is what the model made.
    """
    window = app.window
    window.session.set(tab="computation", stage="feed_residual")
    app.start(str(folder), "hello")
    qtbot.waitUntil(lambda: finished(app), timeout=WAIT)
    for layer in (0, 1):
        window.session.set(layer=layer)
        qtbot.waitUntil(
            lambda: finished(app) and not window.session.state.awaiting.side_requests,
            timeout=WAIT,
        )
        known = window.session.state.parameters
        assert ("decoder", layer) in {(one.stack, one.layer) for one in known}
        view = view_of(window, ComputationView)
        trace, made = (
            unwrap(window.session.state.visible),
            unwrap(view.maps.matrices[3]),
        )  # post-norm: the fourth matrix leaves the layer
        own = trace.hidden("decoder", layer + 1)
        assert np.abs(made.values - own).max() <= 2e-5 * np.abs(own).max()
    engine = process_id(app)
    os.kill(engine, signal.SIGKILL)
    qtbot.waitUntil(lambda: process_id(app) != engine, timeout=WAIT)
    window.session.set(layer=0)
    qtbot.waitUntil(lambda: window.session.state.notice != "", timeout=WAIT)
    qtbot.waitUntil(
        lambda: not window.session.state.awaiting.side_requests, timeout=WAIT
    )
    assert 0 in {known.layer for known in window.session.state.parameters}
    the_engine_is_killed_while_it_decodes(app, qtbot, folder)


def the_engine_is_killed_while_it_decodes(app: App, qtbot: QtBot, folder: Path) -> None:
    window = app.window
    window.session.set(notice="", error="")
    window.strategy.limit.setValue(400)
    qtbot.waitUntil(lambda: bool(window.session.state.busy), timeout=WAIT)
    os.kill(process_id(app), signal.SIGKILL)
    qtbot.waitUntil(lambda: finished(app), timeout=WAIT)
    assert "signal 9" in window.notice.text()
    trace = unwrap(window.session.state.trace)
    assert trace.target == Decoding(load(folder), "hello", limit=400).finish().target


@pytest.mark.parametrize("text", ["", "hello"])
def test_closing_while_it_works(app: App, folder: Path, text: str) -> None:
    app.start(str(folder), text)
    app.window.close()


def test_a_trace_is_shown_from_a_script(tmp_path: Path) -> None:
    """``visformer.show``: a window on a file alone, until it is closed."""
    make_trace().save(tmp_path / "a.vis")
    seen: list[str] = []

    def look() -> None:
        window = next(w for w in QApplication.topLevelWidgets() if w.isVisible())
        assert isinstance(window, MainWindow)
        seen.append(window.status.engine.text())
        window.translate("more")  # there is no engine: one sentence
        QApplication.processEvents()
        seen.append(window.notice.text())
        window.close()

    QTimer.singleShot(50, look)
    hook = sys.excepthook
    visformer.show(tmp_path / "a.vis")
    sys.excepthook = hook
    assert "recorded" in seen[0]
    assert "only shows a trace" in seen[1]


@pytest.mark.slow
def test_a_students_file_is_dropped_asked_about_and_run(
    app: App, qtbot: QtBot, folder: Path, tmp_path: Path
) -> None:
    """Two files of d2l, dropped; the form, a wrong tokenizer, then ids typed."""
    app.start(str(folder), "hello")
    window = app.window
    qtbot.waitUntil(lambda: finished(app), timeout=WAIT)
    paths = []
    for half in ("encoder.", "decoder."):
        tensors = state(d2l).items()
        paths.append(tmp_path / f"{half}pt")
        inside = {k.removeprefix(half): t for k, t in tensors if k.startswith(half)}
        torch.save(inside, paths[-1])
    (tmp_path / "vocab.json").write_text(json.dumps({f"t{id}": id for id in range(99)}))
    drop(window, *paths)
    qtbot.waitUntil(window.form.isVisible, timeout=WAIT)
    line = window.form.rows["tokenizer"].editor
    assert isinstance(line, QLineEdit)
    line.setText(str(tmp_path / "vocab.json"))
    qtbot.keyClick(line, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: bool(window.session.state.error), timeout=WAIT)
    assert "they belong to different models" in window.session.state.error
    assert window.form._error.text() == window.session.state.error
    assert window.session.state.model.name == "letters a>z"  # type: ignore[union-attr]
    line.clear()
    qtbot.keyClick(line, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: not window.form.isVisible(), timeout=WAIT)
    checkpoint = load((paths[0], paths[1]), heads=4, device="cpu")
    assert window.about.text() == f"{len(checkpoint.findings)} findings"
    qtbot.keyClicks(window.source, "5 7 3")
    qtbot.keyClick(window.source, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: finished(app), timeout=WAIT)
    trace = unwrap(window.session.state.trace)
    assert trace.source == ("5", "7", "3")
    assert trace.target == Decoding(checkpoint, "5 7 3").finish().target


@pytest.mark.slow
def test_a_mask_is_altered_named_as_a_leak_and_restored(
    app: App, qtbot: QtBot, folder: Path
) -> None:
    app.start(str(folder))
    window = app.window
    qtbot.waitUntil(lambda: window.session.state.model is not None, timeout=WAIT)
    window.translate("abc")
    qtbot.waitUntil(lambda: finished(app), timeout=WAIT)
    view = view_of(window, MasksView)
    lab = view.page(MaskLab)
    view.turn("lab")
    window.session.set(tab="masks", kind="decoder", step=3)
    assert lab.leaks.text().startswith("No leak")

    def altered(change: str) -> bool:
        trace = window.session.state.trace
        return finished(app) and trace is not None and str(trace.intervention) == change

    lab.fields.causal.setCurrentIndex(lab.fields.causal.findData("off"))
    lab.fields.causal.activated.emit(lab.fields.causal.currentIndex())
    qtbot.waitUntil(lambda: altered("causal off"), timeout=WAIT)
    window.session.set(step=3)
    assert "reads the later token" in lab.leaks.text()
    window.change_run(NO_CHANGES)
    qtbot.waitUntil(lambda: altered(""), timeout=WAIT)
    assert lab.leaks.text().startswith("No leak")
    # a cell painted and painted back is the unchanged run again
    lab.mask_map.clicked.emit((0, 2))
    qtbot.waitUntil(lambda: altered("cell decoder 1 3 on"), timeout=WAIT)
    lab.mask_map.clicked.emit((0, 2))
    qtbot.waitUntil(lambda: altered(""), timeout=WAIT)
