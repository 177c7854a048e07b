"""What if: by the mouse alone, on the bundled model, three clicks for each question.

Every click is one of a mouse on the screen: none calls what it would lead to.
"""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QContextMenuEvent
from PySide6.QtWidgets import QApplication, QMenu, QTabBar, QWidget
from pytestqt.qtbot import QtBot

from tests.window.parts import unwrap, view_of
from visformer import paths
from visformer.app import App
from visformer.session.both import beside
from visformer.session.state import State
from visformer.ui.views import VIEWS
from visformer.ui.views.attention.attention import AttentionView
from visformer.ui.views.output.output import OutputView
from visformer.ui.views.output.search_page import SearchPage
from visformer.ui.window.window import MainWindow

SENTENCE = "The animal didn't cross the street because it was too tired."
WAIT = 60_000
MOST = 3  # clicks

pytestmark = pytest.mark.slow


class Mouse:
    """Clicks, and counts the clicks."""

    def __init__(self, qtbot: QtBot, window: MainWindow) -> None:
        self.qtbot, self.window, self.clicks = qtbot, window, 0

    def left(self, part: QWidget, place: QPoint | None = None) -> None:
        self._see(part)
        left = Qt.MouseButton.LeftButton
        self.qtbot.mouseClick(part, left, pos=place or part.rect().center())
        self.clicks += 1
        self.wait()

    def right(self, part: QWidget, place: QPoint) -> None:
        """Click as a computer does: the menu comes with the button."""
        self._see(part)
        self.qtbot.mouseClick(part, Qt.MouseButton.RightButton, pos=place)
        reason = QContextMenuEvent.Reason.Mouse
        event = QContextMenuEvent(reason, place, part.mapToGlobal(place))
        QApplication.sendEvent(part, event)
        self.clicks += 1

    def choose(self, title: str) -> None:
        """Click an entry of the menu that is open."""
        menu = QApplication.activePopupWidget()
        assert isinstance(menu, QMenu)
        entry = next(a for a in menu.actions() if a.text().replace("&", "") == title)
        self.left(menu, menu.actionGeometry(entry).center())

    def tab(self, bar: QTabBar, at: int) -> None:
        self.left(bar, bar.tabRect(at).center())

    def _see(self, part: QWidget) -> None:
        assert part.isVisible()
        assert not part.visibleRegion().isEmpty()

    def wait(self) -> None:
        """Wait for the engine, and for what is drawn."""
        session, tabs = self.window.session, self.window.tabs

        def done() -> bool:
            state = session.state
            quiet = not state.busy and not state.awaiting.side_requests
            return quiet and not tabs.view(state.tab).drawing

        self.qtbot.waitUntil(done, timeout=WAIT)

    def count(self) -> int:
        """Return how many clicks there were since the last time."""
        made, self.clicks = self.clicks, 0
        return made


@pytest.fixture
def mouse(qtbot: QtBot, app: App) -> Mouse:
    """The window on the sentence, at the step that writes “il”."""
    app.window.resize(1280, 800)
    qtbot.waitExposed(app.window)
    app.start(str(paths.checkpoint("tatoeba-en-fr")), SENTENCE, ())
    hand = Mouse(qtbot, app.window)
    qtbot.waitUntil(lambda: app.window.session.state.trace is not None, timeout=WAIT)
    hand.wait()
    return hand


def test_four_questions_by_the_mouse_alone(mouse: Mouse) -> None:
    window, session = mouse.window, mouse.window.session
    view = view_of(window, AttentionView)
    trace = unwrap(session.state.trace)
    plain = trace.text
    step = trace.target.index("▁il")
    it, street = trace.source.index("▁it"), trace.source.index("▁street")
    chips = window.strips.sides["target"].row
    mouse.left(chips, chips.boxes[step].center())
    mouse.count()
    state = session.state
    assert state.step == step

    # the head that aligns “il”, off: the overview frames the one that reads “it” here
    head = aligning(state, it)
    overview = view.overview
    mouse.right(overview, overview._box(overview._grid(), *head).center().toPoint())
    mouse.choose("Switch this head off")
    mouse.left(view.beside)
    assert mouse.count() <= MOST
    state = session.state
    assert str(state.intervention) == f"head cross off @ L{head[0] + 1}H{head[1] + 1}"
    assert beside(state) is not None
    assert [one.isVisible() for one in view.both.maps.values()] == [True] * 3
    said = window.tabs.explanation.text()
    assert "“run 1” and “run 2” write the same" in said
    assert "“il”: p " in said

    pin(mouse, it, street, str(state.intervention))
    look_at_the_beam(mouse)

    # all undone
    mouse.left(window.modified.buttons[2])
    assert mouse.count() <= MOST
    state = session.state
    assert not state.intervention
    assert unwrap(state.trace).text == plain


def pin(mouse: Mouse, it: int, street: int, off: str) -> None:
    """Let “it” read “street” alone."""
    window, session = mouse.window, mouse.window.session
    view = view_of(window, AttentionView)
    mouse.left(view.panels["encoder"].heat_map.canvas)
    canvas = view.both.maps["b"].canvas
    mouse.right(canvas, canvas.box(it, street).center())
    mouse.choose("Let this row read this cell alone, in every head")
    assert mouse.count() <= MOST
    state = session.state
    pinned = f"cell encoder {it + 1} {street + 1} = 1"
    assert {*str(state.intervention).split("; ")} == {off, pinned}
    assert "c'était" in unwrap(state.trace).text
    assert "They part at step" in window.tabs.explanation.text()
    matrix = unwrap(view.both.maps["b"].matrix)
    np.testing.assert_allclose(matrix.values[it, street], 1, atol=1e-6)


def look_at_the_beam(mouse: Mouse) -> None:
    """Turn to the search of the changed run."""
    window = mouse.window
    mouse.tab(window.tabs.bar, [one.name for one in VIEWS].index("output"))
    output = view_of(window, OutputView)
    mouse.tab(output._pages._bar, 1)
    assert mouse.count() <= MOST
    page = output.page(SearchPage)
    assert page.found_search() is not None
    assert page.canvas.isVisible()


def aligning(state: State, source: int) -> tuple[int, int]:
    """Return the layer and head of cross-attention that reads a token most here."""
    weights = unwrap(state.trace).attention("cross")[:, :, state.step - 1, source]
    layer, head = np.unravel_index(int(weights.argmax()), weights.shape)
    return int(layer), int(head)
