"""The window's keys do what the list of keys says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QAbstractButton,
    QApplication,
    QGraphicsView,
    QSpinBox,
    QWidget,
)
from pytestqt.qtbot import QtBot

from tests.traces import make_trace
from tests.window.parts import pages, settle, unwrap
from tests.window.windows import Pair, translate
from visformer.pictures.attention.finder import best_head
from visformer.pictures.attention.strips import source_strip
from visformer.pictures.selection import AttentionCell, Look, Selection
from visformer.session.state import State
from visformer.ui.views import VIEWS
from visformer.ui.widgets.heatmap import HeatMap
from visformer.ui.window.window import MainWindow
from visformer.values.trace import Trace

Key = Qt.Key
CONTROL = Qt.KeyboardModifier.ControlModifier
SHIFT = Qt.KeyboardModifier.ShiftModifier


@pytest.fixture
def window(pair: Pair) -> MainWindow:
    """Return a window in the middle of 3 layers, 4 heads and 5 steps, a cell kept."""
    window, engine = pair
    translate(
        window, engine, "a b c d e f", make_trace(source=6, target=5, layers=3, heads=4)
    )
    window.session.set(kind="cross", layer=1, head=1, step=3)
    window.session.set(locked=AttentionCell("cross", 1, 1))
    window.tabs.setFocus()
    return window


@pytest.mark.parametrize(
    ("key", "place"),
    [
        (Key.Key_Left, (1, 0)),
        (Key.Key_Right, (1, 2)),
        (Key.Key_Up, (0, 1)),
        (Key.Key_Down, (2, 1)),
    ],
)
def test_control_walks_heads_and_layers_and_shift_the_cell(
    window: MainWindow, qtbot: QtBot, key: Qt.Key, place: tuple[int, int]
) -> None:
    qtbot.keyClick(window.tabs, key, CONTROL)
    state = window.session.state
    assert (state.layer, state.head) == place  # heads lie side by side
    assert (state.step, state.locked) == (3, AttentionCell("cross", 1, 1))
    qtbot.keyClick(window.tabs, key, SHIFT)
    state = window.session.state
    assert state.locked == AttentionCell(
        "cross", *place
    )  # queries downwards, keys across
    assert (state.step, (state.layer, state.head)) == (3, place)


@pytest.mark.parametrize(
    ("key", "step"),
    [
        (Key.Key_Left, 2),
        (Key.Key_Right, 4),
        (Key.Key_PageUp, 2),
        (Key.Key_PageDown, 4),
        (Key.Key_Home, 0),
        (Key.Key_End, 5),
    ],
)
def test_plain_keys_step(
    window: MainWindow, qtbot: QtBot, key: Qt.Key, step: int
) -> None:
    qtbot.keyClick(window.tabs, key)
    state = window.session.state
    assert (state.step, state.layer, state.head) == (step, 1, 1)


def test_numbers_choose_the_kind_and_escape_frees_the_cell(
    window: MainWindow, qtbot: QtBot
) -> None:
    kinds = []
    for key in (Key.Key_1, Key.Key_2, Key.Key_3):
        qtbot.keyClick(window.tabs, key)
        kinds.append(window.session.state.kind)
    assert kinds == ["encoder", "decoder", "cross"]
    qtbot.keyClick(window.tabs, Key.Key_Escape)
    assert window.session.state.locked is None


def test_keys_that_come_faster_than_paints_are_drawn_together(
    window: MainWindow, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[int] = []
    draw = window.held._draw

    def note(state: State) -> None:
        drawn.append(state.step)
        draw(state)

    monkeypatch.setattr(window.held, "_draw", note)
    window.session.set(step=0)
    settle(20)
    drawn.clear()
    for _ in range(4):  # all of them before a paint
        qtbot.keyClick(window.tabs, Key.Key_Right)
    assert window.session.state.step == 4
    assert drawn == [1]  # a single key is answered at once
    settle(20)
    assert drawn == [1, 4]
    assert window.transport.steps.value() == 4
    qtbot.keyClick(window.tabs, Key.Key_Left)
    assert drawn == [1, 4, 3]
    window.session.set(step=5)  # no key: drawn at once
    assert drawn == [1, 4, 3, 5]
    settle(20)
    assert drawn == [1, 4, 3, 5]


def test_control_and_a_number_turn_to_a_tab(window: MainWindow, qtbot: QtBot) -> None:
    keys = [getattr(Key, f"Key_{number}") for number in range(1, len(VIEWS) + 1)]
    tabs = []
    for key in keys:
        qtbot.keyClick(window.tabs, key, CONTROL)
        tabs.append(window.session.state.tab)
    assert tabs == [view.name for view in VIEWS]
    assert window.session.state.kind == "cross"  # a number alone chooses the kind


def test_a_head_is_asked_for_from_the_tokens_by_keyboard(
    window: MainWindow, qtbot: QtBot
) -> None:
    window.session.set(locked=None)
    strip = window.strips.source
    strip.setFocus(Qt.FocusReason.TabFocusReason)
    tokens = [chip.token for chip in source_strip(*looked(window), None)]
    assert strip.accessibleDescription().startswith(f"{tokens[0]}, piece ")
    for key in (Key.Key_Right, Key.Key_Right, Key.Key_Return):
        qtbot.keyClick(strip, key)
    state = window.session.state
    assert (state.kind, state.locked and state.locked.query) == ("encoder", 2)
    assert state.step == 3  # the arrows stepped nothing
    assert strip.accessibleDescription().startswith(f"{tokens[2]}, piece ")
    for key in (*[Key.Key_Right] * 9, Key.Key_Enter):  # no further than the last
        qtbot.keyClick(strip, key)
    state, last = window.session.state, len(tokens) - 1
    cell = AttentionCell("encoder", 2, last)
    trace = unwrap(state.visible)
    assert state.locked == cell
    assert (state.layer, state.head) == best_head(trace, cell)
    window.tabs.setFocus()
    assert strip.accessibleDescription() == " ".join(tokens)
    qtbot.keyClick(window.tabs, Key.Key_Left)
    assert window.session.state.step == 2


def looked(window: MainWindow) -> tuple[Trace | None, Selection, Look]:
    state = window.session.state
    return state.visible, state.selection, state.look


def test_a_target_token_is_gone_to_by_keyboard(
    window: MainWindow, qtbot: QtBot
) -> None:
    strip = window.strips.target
    row, box = strip.row, strip.row.boxes[2]
    parts = box.adjusted(4, 4, -4, -4), box  # its token, which stays, and its frame
    before = [row.grab(part).toImage() for part in parts]
    strip.setFocus(Qt.FocusReason.TabFocusReason)
    qtbot.keyClick(strip, Key.Key_Left)
    after = [row.grab(part).toImage() for part in parts]
    assert [a == b for a, b in zip(before, after, strict=True)] == [True, False]
    qtbot.keyClick(strip, Key.Key_Return)
    assert window.session.state.step == 2


@pytest.mark.parametrize("opened", [False, True])
def test_every_picture_and_field_has_a_name(opened: bool, pair: Pair) -> None:
    window, engine = pair
    if opened:
        translate(
            window,
            engine,
            "a b c d e f",
            make_trace(source=6, target=5, layers=3, heads=4),
        )
    for page in pages(window):
        QApplication.processEvents()
        assert not list(nameless(window)), page


def nameless(window: MainWindow) -> Iterator[str]:
    """Name the parts that a screen reader comes to and has nothing to say of."""
    for part in window.findChildren(QWidget):
        reached = bool(part.focusPolicy() & Qt.FocusPolicy.TabFocus)
        if part.isVisible() and (reached or isinstance(part, HeatMap)):
            parent = part.parentWidget()
            named = parent if isinstance(parent, (QSpinBox, QGraphicsView)) else part
            text = part.text() if isinstance(part, QAbstractButton) else ""
            if not (named.accessibleName() or text):
                yield f"{type(part).__name__} of {type(parent).__name__}"
