"""The Architecture tab: mouse, keys, the current step's path, and words that fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from PySide6.QtCore import QAbstractAnimation, Qt
from PySide6.QtGui import QFontMetricsF, QImage
from PySide6.QtWidgets import QApplication, QScrollArea
from pytestqt.qtbot import QtBot

from tests.states import ran
from tests.traces import make_trace
from tests.window.parts import settle, unwrap, view_of
from tests.window.windows import make_view, middle_of_block, show
from visformer.session.state import Session, State
from visformer.ui.views.architecture.architecture import ArchitectureView
from visformer.ui.views.architecture.diagram_canvas import Painting
from visformer.ui.window.window import MainWindow
from visformer.values.trace import Trace


@pytest.fixture
def trace() -> Trace:
    return make_trace(source=5, target=4, layers=3)


@pytest.fixture
def view(qtbot: QtBot, trace: Trace) -> ArchitectureView:
    view = make_view(qtbot, ArchitectureView, 1100, 620)
    qtbot.waitExposed(view)
    show(view, shown(trace, 2))
    return view


def shown(trace: Trace, step: int, **changes: Any) -> State:
    session = Session()
    session.set(**ran(trace), step=step, **changes)
    return session.state


def click(qtbot: QtBot, view: ArchitectureView, id: str) -> None:
    left = Qt.MouseButton.LeftButton
    qtbot.mouseClick(view.diagram, left, pos=middle_of_block(view, id))


def image(view: ArchitectureView) -> QImage:
    return view.grab().toImage()


def test_a_click_goes_to_the_blocks_numbers(
    qtbot: QtBot, view: ArchitectureView
) -> None:
    for block, tab, kind in (
        ("decoder.0.cross_attention", "attention", "cross"),
        ("encoder.0.self_attention", "attention", "encoder"),
        ("decoder.0.self_attention.mask", "masks", "decoder"),
        ("source_positions", "positions", "decoder"),
        ("output", "output", "decoder"),
    ):
        click(qtbot, view, block)
        state = view.session.state
        assert (state.tab, state.kind, state.layer) == (tab, kind, 0)
    assert unwrap(view.diagram.drawing).chosen == "output"


def test_the_window_follows_a_click(
    window: MainWindow, qtbot: QtBot, trace: Trace
) -> None:
    window.session.set(**ran(trace), step=2, tab="architecture")
    view = view_of(window, ArchitectureView)
    assert window.tabs.shown is view
    click(qtbot, view, "encoder.2")  # another layer is opened, in the same tab
    assert window.session.state.layer == 2
    assert unwrap(view.diagram.drawing).box("encoder.2.self_attention") is not None
    click(qtbot, view, "encoder.2.feed_forward")
    state = window.session.state
    assert (state.tab, state.stage) == ("computation", "activation")
    assert (state.kind, state.layer) == ("encoder", 2)
    window.session.set(tab="architecture")
    click(qtbot, view, "encoder.2.self_attention")
    state = window.session.state
    assert (state.tab, state.kind, state.layer) == ("attention", "encoder", 2)
    assert window.tabs.shown is window.tabs.view("attention")


def test_an_opened_layer_closes_and_opens_again(
    qtbot: QtBot, view: ArchitectureView
) -> None:
    for there in (False, True):
        click(qtbot, view, "decoder.0")
        opened = unwrap(view.diagram.drawing).box("decoder.0.feed_forward")
        assert (opened is not None) == there


def test_arrow_keys_walk_and_enter_goes(qtbot: QtBot, view: ArchitectureView) -> None:
    diagram = view.diagram
    assert diagram.focusPolicy() & Qt.FocusPolicy.TabFocus
    diagram.choose("decoder.0.self_attention")
    qtbot.keyClick(diagram, Qt.Key.Key_Up)  # to its +
    assert diagram.chosen == "decoder.0.self_attention.add"
    qtbot.keyClick(diagram, Qt.Key.Key_Down)
    qtbot.keyClick(diagram, Qt.Key.Key_Right)
    assert diagram.chosen == "decoder.0.self_attention.mask"
    qtbot.keyClick(diagram, Qt.Key.Key_Return)
    assert (view.session.state.tab, view.session.state.kind) == ("masks", "decoder")
    assert "mask" in diagram.accessibleDescription().lower()


def test_keys_in_the_diagram_are_not_the_windows(
    window: MainWindow, qtbot: QtBot, trace: Trace
) -> None:
    window.session.set(**ran(trace), step=2, tab="architecture")
    view = view_of(window, ArchitectureView)
    qtbot.waitUntil(window.isActiveWindow)
    view.diagram.setFocus()
    qtbot.keyClick(view.diagram, Qt.Key.Key_Left)
    assert window.session.state.step == 2
    qtbot.keyClick(view.diagram, Qt.Key.Key_PageDown)
    assert window.session.state.step == 3


def test_pointing_shows_the_inside(qtbot: QtBot, view: ArchitectureView) -> None:
    before = image(view)
    qtbot.mouseMove(view.diagram, middle_of_block(view, "encoder.0.feed_forward"))
    assert view.diagram.chosen == "encoder.0.feed_forward"
    assert image(view) != before


def test_a_step_moves_the_highlight_and_the_token_runs_once(
    view: ArchitectureView, trace: Trace
) -> None:
    running, stopped = (
        QAbstractAnimation.State.Running,
        QAbstractAnimation.State.Stopped,
    )
    assert view.diagram.flow.state() == stopped  # nothing moves on a first picture
    two = image(view)
    view.draw(shown(trace, 2))
    assert image(view) == two
    view.draw(shown(trace, 3))
    assert view.diagram.flow.state() == running
    view.diagram.flow.setCurrentTime(view.diagram.flow.duration())
    assert view.diagram.flow.state() == stopped
    assert image(view) != two
    view.draw(shown(trace, 2))  # back: a still picture, the same as before
    assert view.diagram.flow.state() == stopped
    assert image(view) == two


def test_it_stands_still_where_it_is_not_seen(
    view: ArchitectureView, trace: Trace
) -> None:
    view.draw(shown(trace, 3))
    view.hide()
    assert view.diagram.flow.state() == QAbstractAnimation.State.Stopped
    view.draw(shown(trace, 4))
    assert view.diagram.flow.state() == QAbstractAnimation.State.Stopped


@pytest.mark.parametrize("points", [9, 18])
def test_names_of_blocks_fit_in_their_boxes(
    view: ArchitectureView, points: int
) -> None:
    font = view.font()
    font.setPointSize(points)
    view.setFont(font)
    view.resize(1700, 800)
    drawing = unwrap(view.diagram.drawing)
    metrics = QFontMetricsF(view.diagram._font())
    wide, high = view.diagram._units()
    assert metrics.height() == high
    for box in drawing.boxes:
        if box.style in ("block", "norm", "layer", "mask"):
            assert box.height * high >= metrics.height(), box.title
            room = (box.width - 1) * wide
            assert metrics.horizontalAdvance(box.title) <= room, box.title
    assert view.diagram.width() >= drawing.width * wide - 1


def test_too_little_room_scrolls(view: ArchitectureView) -> None:
    view.resize(400, 200)
    assert view.diagram.width() > 400
    assert view.diagram.height() > 200
    view.diagram.choose("decoder.0.self_attention")
    assert not image(view).isNull()


def test_it_never_scrolls_sideways_and_can_be_seen_whole(
    view: ArchitectureView,
) -> None:
    view.resize(1000, 550)
    QApplication.sendPostedEvents()
    font = view.font()
    font.setPointSizeF(1.5 * font.pointSizeF())
    view.setFont(font)
    QApplication.sendPostedEvents()
    scroll = view.findChildren(QScrollArea)[0]
    assert scroll.horizontalScrollBar().maximum() == 0
    assert scroll.verticalScrollBar().maximum() > 0
    assert view.whole.isVisible()
    view.whole.click()
    QApplication.sendPostedEvents()
    assert scroll.verticalScrollBar().maximum() == 0
    assert scroll.horizontalScrollBar().maximum() == 0
    view.whole.click()
    QApplication.sendPostedEvents()
    assert scroll.verticalScrollBar().maximum() > 0
    view.resize(2600, 2000)
    QApplication.sendPostedEvents()
    assert view.whole.isHidden()  # all of it fits


def test_queries_keys_and_values_have_their_hues(view: ArchitectureView) -> None:
    view.diagram.choose("decoder.0.cross_attention")
    drawing = unwrap(view.diagram.drawing)
    named = {box.title: box.role for box in drawing.boxes}
    for letter, role in (("Q", "query"), ("K", "key"), ("V", "value")):
        assert named[f"Linear W_{letter}"] == role
        assert named["Concat"] == ""
        assert role in {arrow.role for arrow in drawing.arrows}


@pytest.mark.parametrize("changes", [{"step": 3}, {"layer": 1}, {"step": 0}])
def test_what_is_painted_anew_is_what_a_fresh_diagram_has(
    qtbot: QtBot, view: ArchitectureView, trace: Trace, changes: dict[str, Any]
) -> None:
    view.diagram.clearFocus()  # its frame would paint everything anew
    QApplication.sendPostedEvents()  # its scroll area arranges it then
    image(view)
    show(view, shown(trace, **{"step": 2, **changes}))
    view.diagram.flow.stop()
    fresh = make_view(qtbot, ArchitectureView, *view.size().toTuple())
    show(fresh, shown(trace, **{"step": 2, **changes}))
    view.diagram.choose("decoder.1.feed_forward")
    fresh.diagram.choose("decoder.1.feed_forward")
    fresh.diagram.clearFocus()
    assert not view.diagram.hasFocus()
    QApplication.sendPostedEvents()
    assert image(view) == image(fresh)


def test_a_step_paints_only_words_and_tokens(
    view: ArchitectureView, trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = image(view)
    drawn: list[object] = []
    monkeypatch.setattr(Painting, "draw", lambda _self, drawing: drawn.append(drawing))
    show(view, shown(trace, 3))
    assert image(view) != before
    assert not drawn


def test_the_note_on_a_mask_follows_the_head(
    view: ArchitectureView, trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    heads: list[int] = []

    def noted(trace: Trace, kind: str, part: str, layer: int, head: int) -> str:
        heads.append(head)
        return ""

    monkeypatch.setattr("visformer.pictures.diagram.zoom.note", noted)
    view.diagram.choose("decoder.0.self_attention.mask")
    show(view, replace(view.session.state, head=1))
    assert heads == [0, 1]


def test_the_chosen_block_is_in_sight(view: ArchitectureView, trace: Trace) -> None:
    """It is scrolled to in the layer that is looked at, and stays where it is seen."""

    def is_seen() -> bool:
        settle(3)
        drawing = unwrap(view.diagram.drawing)
        assert view.diagram.scrolls
        middle = middle_of_block(view, drawing.chosen)
        return view.diagram.visibleRegion().contains(middle)

    view.resize(1100, 200)
    bar = view.findChildren(QScrollArea)[0].verticalScrollBar()
    assert is_seen()
    for layer in (2, 0, 1):
        bar.setValue(bar.maximum())
        show(view, shown(trace, 2, layer=layer))
        assert is_seen()
    there = bar.value()
    show(view, shown(trace, 3, layer=1))
    assert is_seen()
    assert bar.value() == there
