"""What is painted bit by bit is what is painted from nothing."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from PySide6.QtCore import QEvent
from PySide6.QtGui import QImage, QPalette
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from tests.bench.windows import attention_of
from tests.states import ran
from tests.traces import fed, grown, make_trace
from tests.window.parts import settle, unwrap
from tests.window.windows import Pair, dress_hidden
from visformer.engine.messages import Finished
from visformer.engine.mirror import Decoded
from visformer.pictures.selection import AttentionCell
from visformer.session.runs import show_trace
from visformer.ui.look.theme import set_motion
from visformer.ui.widgets.canvas import Canvas
from visformer.ui.widgets.colour_bar import colour_table
from visformer.ui.window.window import MainWindow
from visformer.values.arrays import read_only
from visformer.values.facts import Kind
from visformer.values.trace import Trace


@pytest.fixture
def window(pair: Pair) -> MainWindow:
    """Return a window whose pictures stand still."""
    set_motion(False)
    return pair[0]


def on_screen(window: MainWindow) -> QImage:
    """Return the pixels that were painted one after the other."""
    settle(10)
    shown = window.screen().grabWindow(window.winId()).toImage()
    return shown.convertToFormat(QImage.Format.Format_RGB32)


def is_right(window: MainWindow) -> bool:
    """Tell whether all that is on screen is as if it were painted now."""
    shown = on_screen(window)
    for canvas in window.findChildren(Canvas):  # they keep what they have painted
        QApplication.sendEvent(canvas, QEvent(QEvent.Type.FontChange))
    return shown == window.grab().toImage().convertToFormat(QImage.Format.Format_RGB32)


def uneven(trace: Trace) -> Trace:
    """Return a Trace with a hidden source token, and a row that is not a number."""
    masks = {kind: np.array(mask) for kind, mask in trace.masks.items()}
    masks["cross"][:, 2] = masks["encoder"][:, 2] = False
    rows = np.array(trace.decoder_rows)
    rows[4] = np.nan
    masked = {kind: read_only(mask) for kind, mask in masks.items()}
    return replace(trace, masks=masked, decoder_rows=read_only(rows))


@pytest.mark.parametrize(
    ("kind", "zoom"),
    [("cross", 0), ("decoder", 0), ("encoder", 0), ("cross", -40), ("decoder", 50)],
)
def test_a_growing_run_is_painted_as_a_whole_one(
    window: MainWindow, kind: str, zoom: int
) -> None:
    made = make_trace(12, 30, heads=4, sharpness=3.0)
    traces = grown(fed(made, {3: "forced", 9: "forced"}, wrong=(9,)))
    if zoom:
        window.appearance.zoom_by(zoom)
        dress_hidden()
    window.session.do(show_trace, traces[0])
    window.session.set(kind=kind)  # type: ignore[arg-type]
    for trace in traces:
        window.session.set(**ran(trace, recorded=True), step=len(trace))
        assert is_right(window)
    pixels = on_screen(window)
    window.session.set(**ran(None))
    window.session.do(show_trace, replace(traces[-1]))
    window.session.set(kind=kind, step=len(made))  # type: ignore[arg-type]
    assert on_screen(window) == pixels


@pytest.mark.parametrize("kind", ["cross", "decoder"])
def test_a_run_that_is_decoded_is_painted_right_and_stands_still(
    pair: Pair, window: MainWindow, kind: Kind
) -> None:
    traces = grown(uneven(make_trace(12, 30, heads=4, sharpness=3.0)))
    window.session.set(kind=kind)
    window.translate("one two")
    window.session.set(cursor=30)
    number, places = len(pair[1].decodes), []
    for trace in traces:
        window.receive(Decoded(number=number, trace=trace, limit=30))
        assert is_right(window), len(trace)
        assert window.session.state.step == len(trace)
        cells = attention_of(window).maps[kind].canvas
        places.append((cells.geometry(), cells.view))
    assert len(traces) >= 30
    moves = sum(one != other for one, other in pairwise(places[5:]))
    assert 0 < moves <= 6  # room for 8, 16 and 32 tokens; and the labels' widths
    window.receive(Finished(number=number, step_ms=1.0))
    assert cells.view.height() == 30
    assert is_right(window)


def test_what_stands_around_the_pictures_follows_a_step(
    qtbot: QtBot, pair: Pair, window: MainWindow
) -> None:
    traces = grown(make_trace(6, 3))
    window.translate("one two")
    window.receive(Decoded(number=len(pair[1].decodes), trace=traces[-1], limit=9))
    map_of_it = unwrap(attention_of(window).maps["cross"].matrix)
    assert len(map_of_it.rows) == len(window.session.state.visible or ())
    qtbot.waitUntil(lambda: len(window.strips.source.row.chips) == 6)


def test_wherever_one_goes_all_is_painted_that_changed(window: MainWindow) -> None:
    window.session.do(show_trace, uneven(make_trace(12, 30, heads=4, sharpness=3.0)))
    for change in (
        *({"step": step} for step in (30, 29, 5, 4, 6, 30)),
        {"kind": "decoder"},
        *({"step": step} for step in (12, 13, 3)),
        {"head": 2, "layer": 1},
        {"locked": AttentionCell("decoder", 2, 1)},
        *({"step": step} for step in (20, 21)),
        {"hovered": AttentionCell("cross", 12, 7)},
        {"kind": "cross", "locked": AttentionCell("cross", 3, 9)},
        *({"scale": scale} for scale in ("row", "log", "head", "fixed")),
        {"hovered": None, "locked": None},
        {"kind": "encoder"},
        *({"step": step} for step in (9, 10)),
    ):
        window.session.set(**change)  # type: ignore[arg-type]
        assert is_right(window), change


def test_another_theme_is_painted_everywhere(qtbot: QtBot, window: MainWindow) -> None:
    window.session.do(show_trace, make_trace(12, 30, heads=4, sharpness=3.0))
    for theme in ("dark", "contrast", "light"):
        window.appearance.set_theme(theme)
        qtbot.waitUntil(window.body.updatesEnabled)
        dress_hidden()
        for step in (9, 10, 20):
            window.session.set(step=step)
            assert is_right(window), theme


def test_hatching_hangs_on_no_clip(qtbot: QtBot) -> None:
    """Edges of cells lie between pixels in most sizes."""
    canvas, table, most = Canvas(), colour_table(QPalette()), 30
    qtbot.addWidget(canvas)
    canvas.show()
    later = ~np.tri(most, dtype=bool)
    for side in range(470, 486):
        canvas.resize(side, side)
        canvas.set_whole(most, most)
        for count in range(10, 26, 5):
            shades = np.full((count, count), np.nan, np.float32)
            shades[: count - 2] = np.where(later, 0, 1)[: count - 2, :count]
            canvas.draw(shades, later[:count, :count], table)
            shown = canvas.grab().toImage()
            QApplication.sendEvent(canvas, QEvent(QEvent.Type.FontChange))
            assert shown == canvas.grab().toImage(), (side, count)
