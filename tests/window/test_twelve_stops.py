"""A lecture's twelve stops, from the first picture: at most two clicks each.

A click is a press of the mouse where the window shows something to press, a choice in
an open list, or a key; typing a sentence counts as the Enter at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

import pytest
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QApplication,
    QComboBox,
    QScrollArea,
    QTabBar,
    QWidget,
)
from pytestqt.exceptions import TimeoutError as NotSeen
from pytestqt.qtbot import QtBot

from tests.window.painted import painted
from tests.window.parts import unwrap
from tests.window.windows import middle_of_block
from visformer.app import App
from visformer.session.state import State
from visformer.ui.bars.strips import TokenStrip
from visformer.ui.views.architecture.architecture import ArchitectureView
from visformer.ui.views.view import PagedView

W = TypeVar("W", bound=QWidget)
SCREEN = 1280, 800
WAIT = 60_000
MOST = 2  # clicks
REFERENCE = "L'animal n'a pas franchi la route car il dormait."
LEFT = Qt.MouseButton.LeftButton


class Lecturer:
    """Clicks on what is in sight, and counts."""

    def __init__(self, app: App, qtbot: QtBot) -> None:
        self.window, self._qtbot, self.clicks = app.window, qtbot, 0

    def press(self, widget: QWidget, at: QPoint | None = None) -> None:
        """Press what lies at a place of a widget; fail where something covers it."""
        at = widget.rect().center() if at is None else at
        assert widget.isVisible()
        assert widget.isEnabled()
        top = widget.window()
        hit = top.childAt(widget.mapTo(top, at))
        assert hit is widget or (hit is not None and widget.isAncestorOf(hit)), hit
        self.clicks += 1
        self._qtbot.mouseClick(widget, LEFT, pos=at)
        QApplication.processEvents()

    def tab(self, title: str) -> None:
        """Press a title of a row of titles."""
        for bar in self._shown(QTabBar):
            for index in range(bar.count()):
                if bar.tabText(index).strip() == title:
                    self.press(bar, bar.tabRect(index).center())
                    return
        pytest.fail(f"no {title!r} in sight")

    def button(self, text: str) -> None:
        """Press a button by its words, or by its tool tip."""
        for button in self._shown(QAbstractButton):
            if text in (button.text().replace("&", ""), button.toolTip()):
                self.press(button)
                return
        pytest.fail(f"no {text!r} in sight")

    def token(self, strip: TokenStrip, token: str) -> None:
        """Press a token of a strip."""
        tokens = [chip.token for chip in strip.row.chips]
        self.press(strip.row, strip.row.boxes[tokens.index(token)].center())

    def block(self, id: str) -> None:
        """Press a block of the diagram."""
        view = self.window.tabs.shown
        assert isinstance(view, ArchitectureView)
        self.press(view.diagram, middle_of_block(view, id))

    def choose(self, box: QComboBox, title: str) -> None:
        """Open a list and press one of its entries."""
        self.press(box)
        entries = box.view()
        assert isinstance(entries, QAbstractItemView)
        self._qtbot.waitUntil(entries.isVisible)
        entry = entries.model().index(box.findText(title), 0)
        self.clicks += 1
        place = entries.visualRect(entry).center()
        self._qtbot.mouseMove(entries.viewport(), place)
        entries.setCurrentIndex(entry)  # as the mouse does where there is a screen
        self._qtbot.mouseClick(entries.viewport(), LEFT, pos=place)
        QApplication.processEvents()

    def key(self, key: Qt.Key) -> None:
        """Press a key."""
        self.clicks += 1
        self._qtbot.keyClick(self.window, key)
        QApplication.processEvents()

    def write(self, text: str) -> None:
        """Type into what has the focus, and press Enter."""
        focused = unwrap(QApplication.focusWidget())
        self.clicks += 1
        self._qtbot.keyClicks(focused, text)
        self._qtbot.keyClick(focused, Qt.Key.Key_Return)

    def sees(self, *texts: str) -> bool:
        """Tell whether each text is painted in the window's visible part."""
        room = QRect(QPoint(), self.window.size())
        words = [
            word.text
            for word in painted(self.window).words
            if room.contains(round(word.x), round(word.y))
        ]
        return all(any(text in word for word in words) for text in texts)

    def _shown(self, kind: type[W]) -> Iterator[W]:
        for widget in self.window.findChildren(kind):
            if widget.isVisible() and not widget.visibleRegion().isEmpty():
                yield widget


def tabs(*titles: str) -> Callable[[Lecturer], None]:
    """Return a walk that presses one title after the other."""

    def walk(one: Lecturer) -> None:
        for title in titles:
            one.tab(title)

    return walk


def ran(tab: str, button: str) -> Callable[[Lecturer], None]:
    """Return a walk to a tab and a button of it."""

    def walk(one: Lecturer) -> None:
        one.tab(tab)
        one.button(button)

    return walk


def _head_of(one: Lecturer) -> None:
    strip = one.window.strips.source
    one.token(strip, "it")
    one.token(strip, "animal")


def _units(one: Lecturer) -> None:
    one.tab("Architecture")
    one.block("encoder.1.feed_forward")


def _teaching(one: Lecturer) -> None:
    one.button("Reference, sampling, limit, speed (Ctrl+D)")
    one.write(REFERENCE)


def _sampling(one: Lecturer) -> None:
    one.choose(one.window.strategy.name, "sampling")


class Stop(NamedTuple):
    """What is wanted, the way there, and the words of the picture."""

    wanted: str
    walk: Callable[[Lecturer], None]
    words: tuple[str, ...]
    presented: str  # words of what F5 shows of it
    is_there: Callable[[State], bool] = lambda _: True


STOPS = (
    Stop(
        "1 tokens, ids, embedding, position",
        tabs("Positions", "Input"),
        ("tokens → ids", "= input"),
        "= input",
    ),
    Stop(
        "2 Q, K, V",
        tabs("Computation", "Q, K, V"),
        ("W_Q [256, 32]", "W_K [256, 32]", "W_V"),
        "V [17, 32]",
    ),
    Stop("3 scores", tabs("Computation", "QKᵀ"), ("QKᵀ [15, 17]",), "QKᵀ [15, 17]"),
    Stop(
        "3 why √d",
        tabs("Computation", "÷ √d"),
        ("weights without scale", "weights with scale", "entropy"),
        "weights with scale",
    ),
    Stop(
        "4 softmax",
        tabs("Computation"),
        ("masked scores", "weights [15, 17]"),
        "weights",
    ),
    Stop("4 weighted sum", tabs("Computation", "× V"), ("V [17, 32]",), "Z [15, 32]"),
    Stop("5 heads differ", tabs(), ("all heads", "L4", "H7"), "cross · layer 2"),
    Stop("5 concat", tabs("Computation", "concat"), ("concat",), "concat"),
    Stop("5 W_O", tabs("Computation", "× Wₒ"), ("W_O",), "[15, 256]"),
    Stop(
        "6 it reads animal",
        _head_of,
        ("encoder self · layer 3, head 5", "reads “animal” from “it”"),
        "“it” reads “animal”",
    ),
    Stop(
        "7 where il is from", tabs(), ("cross · layer 2, head 1", "il"), "most (0.9549)"
    ),
    Stop(
        "8 causal mask",
        tabs("Masks"),
        ("decoder self, layer 2: combined mask",),
        "combined mask",
    ),
    Stop(
        "8 padding",
        ran("Masks", "Run as a batch"),
        ("<pad>",),
        "<pad>",
        lambda state: bool(state.batch),
    ),
    Stop(
        "8 leak",
        ran("Masks", "Run without the causal mask"),
        ("leaks", "decoder self mask, layer 2"),
        "leaks",
    ),
    Stop(
        "9 encodings",
        tabs("Positions"),
        ("positional encodings", "similarity of positions"),
        "positional encodings",
    ),
    Stop(
        "9 bag of words",
        ran("Positions", "Run without positions"),
        ("Without positions",),
        "Without positions",
    ),
    Stop(
        "10 network",
        tabs("Computation", "Feed-forward, residual, norm"),
        ("pre-activation",),
        "pre-activation",
    ),
    Stop("10 inactive units", _units, ("activation", "ReLU"), "activation"),
    Stop(
        "11 training",
        _teaching,
        ("teacher forcing", "Cross-entropy"),
        "cross · layer 2",
    ),
    Stop(
        "12 sampling",
        _sampling,
        ("next token",),
        "était 0.14",
        lambda state: state.wish.strategy.name == "sample",
    ),
)


@pytest.fixture
def begun(app: App, qtbot: QtBot) -> Iterator[App]:
    """Start the program as for the first time."""
    interval = QApplication.doubleClickInterval()
    QApplication.setDoubleClickInterval(1)  # a list takes no click before
    app.window.resize(*SCREEN)
    app.start()
    window = app.window
    qtbot.waitUntil(lambda: window.session.state.opened is not None, timeout=WAIT)
    qtbot.waitUntil(lambda: not window.session.state.busy, timeout=WAIT)
    yield app
    window.appearance.zoom_by(0)
    QApplication.setDoubleClickInterval(interval)


def presented(one: Lecturer, stop: Stop) -> Iterator[str]:
    """Present what is seen, and go back; name what an audience could not read."""
    window = one.window
    usual = 100 * window.fontMetrics().height() / window.appearance.zoom
    one.key(Qt.Key.Key_F5)
    window.resize(*SCREEN)  # full screen without a screen is another size
    QApplication.processEvents()
    picture = window.large.picture
    if picture is None or not picture.isVisible():
        yield f"{stop.wanted}: nothing is presented"
    elif picture.fontMetrics().height() < 1.5 * usual:
        yield f"{stop.wanted}: small text is presented"
    if window.header.isVisible() or not one.sees(stop.presented):
        yield f"{stop.wanted}: {stop.presented!r} is not presented"
    if window.large.alone.minimumSizeHint().width() > window.width():
        yield f"{stop.wanted}: wider than the screen"
    one.key(Qt.Key.Key_Escape)
    if window.presentation.on or not window.header.isVisible():
        yield f"{stop.wanted}: the presentation does not end"


@pytest.mark.parametrize("zoom", [pytest.param(100, marks=pytest.mark.slow), 150])
def test_each_stop_is_two_clicks_away(begun: App, qtbot: QtBot, zoom: int) -> None:
    window = begun.window
    if zoom != 100:
        window.appearance.zoom_by(zoom - 100)
    cold, missed = window.session.state, []
    for stop in STOPS:
        window.resize(*SCREEN)
        window.session.state = cold  # as it was when the program had started
        window.session.set()
        for view in window.findChildren(PagedView):
            view.turn(view.pages[0].name)
        for area in window.findChildren(QScrollArea):  # what had the focus is in sight
            area.verticalScrollBar().setValue(0)
        QApplication.processEvents()
        one = Lecturer(begun, qtbot)
        stop.walk(one)

        def arrived(one: Lecturer = one, stop: Stop = stop) -> bool:
            state = window.session.state
            settled = not state.busy and not state.awaiting.side_requests
            return settled and stop.is_there(state) and one.sees(*stop.words)

        try:
            qtbot.waitUntil(arrived, timeout=10_000)
        except NotSeen:
            missed.append(f"{stop.wanted}: not in sight")
        clicks = one.clicks
        missed += presented(one, stop)
        if clicks > MOST:
            missed.append(f"{stop.wanted}: {clicks} clicks")
    assert not missed, "\n".join(missed)
