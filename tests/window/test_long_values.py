"""Long values of strangers: sentences are cut, and nothing widens the window."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import QEvent, QPoint
from PySide6.QtGui import QHelpEvent
from PySide6.QtWidgets import QApplication, QToolTip
from pytestqt.qtbot import QtBot

from tests.opened import opened_model
from tests.traces import make_trace
from visformer.session import runs
from visformer.ui.views import VIEWS
from visformer.ui.widgets.plain_label import plain_label
from visformer.ui.window.window import MainWindow
from visformer.values.trace import Trace

LONG = "x" * 5000
TRACE = make_trace(source=6, target=5)
TRACES = {
    "name": replace(TRACE, model=replace(TRACE.model, name=LONG)),
    "device": replace(TRACE, model=replace(TRACE.model, device=LONG)),
    "tokens": replace(TRACE, source=(LONG,) * 6, target=(LONG,) * 5),
    "choices": replace(
        TRACE, steps=tuple(replace(s, token=LONG, text=LONG) for s in TRACE.steps)
    ),
    "text": replace(TRACE, source_text=LONG),
}


@pytest.mark.parametrize("trace", TRACES.values(), ids=TRACES)
def test_no_value_of_a_trace_widens_the_window(
    window: MainWindow, trace: Trace
) -> None:
    window.session.do(runs.show_trace, trace)
    for view in VIEWS:
        window.session.set(tab=view.name)
        QApplication.processEvents()
        assert window.width() == 1280, view.name


def test_no_sentence_widens_the_window(window: MainWindow) -> None:
    for told in ({"error": LONG}, {"error": "", "notice": LONG}, {"busy": LONG}):
        window.session.set(**told)  # type: ignore[arg-type]
        QApplication.processEvents()
        assert window.width() == 1280
    window.receive(opened_model(TRACE.model, path=f"/{LONG}", assumed=(LONG,)))
    QApplication.processEvents()
    assert window.width() == 1280
    (entry,) = window.recent_menu.actions()
    assert len(entry.text()) <= 200
    assert not entry.isEnabled()


def test_a_label_without_room_is_cut_and_its_tooltip_whole(qtbot: QtBot) -> None:
    text = "<b>" + "word " * 40
    label = plain_label(text)
    qtbot.addWidget(label)
    label.resize(120, 20)
    assert label.cut.startswith("<b>word")  # type: ignore[attr-defined]
    assert label.cut.endswith("…")  # type: ignore[attr-defined]
    narrow = label.grab().toImage()
    QApplication.sendEvent(
        label, QHelpEvent(QEvent.Type.ToolTip, QPoint(5, 5), QPoint(5, 5))
    )
    assert QToolTip.text() == f"<qt>&lt;b&gt;{'word ' * 40}</qt>"
    QToolTip.hideText()
    label.resize(2000, 20)
    assert label.cut == ""  # type: ignore[attr-defined]
    assert label.grab().toImage().copy(0, 0, 120, 20) != narrow
