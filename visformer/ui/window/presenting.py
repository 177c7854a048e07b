"""Presenting: one picture alone, large, with both sentences and what is next.

On the second screen where there is one, else in the window.
"""

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtGui import QFont, QFontMetricsF, QGuiApplication, QPalette, QScreen
from PySide6.QtWidgets import QApplication, QWidget
from shiboken6 import isValid

from visformer.language import _
from visformer.pictures.attention.cell_words import cell_words
from visformer.pictures.candidates import candidate_table
from visformer.session.state import State
from visformer.ui.bars.candidates import CandidatesPanel
from visformer.ui.bars.first_steps import set_first_steps_aside
from visformer.ui.bars.strips import Strips
from visformer.ui.look import theme
from visformer.ui.views.view import View
from visformer.ui.widgets.plain_label import plain_label
from visformer.ui.window.window_parts import WindowParts
from visformer.words import probability

TEXT, CAPITALS = 1.6, 16  # least size of text: to the usual one; of capitals in pixels
BESIDE_LINES = 70  # of width, from which the next tokens have room beside the picture
NEXT_LINES = 15  # of their width
BEST = 3  # next tokens that are told in a line where there is less


class Presentation:
    """Begins and ends; what was there before is there again afterwards."""

    def __init__(self, window: WindowParts, zoom: Callable[[], int]) -> None:
        """``zoom`` returns the size of the window's text, in percent."""
        self._window, self._zoom = window, zoom
        self.on = False
        self._before: tuple[QWidget | None, Qt.WindowState] = (
            None,
            Qt.WindowState.WindowNoState,
        )
        self._focused: QWidget | None = None  # before
        self._view: View | None = None  # the one that an audience sees
        self._follows = True  # the view's choice, not a picture that was large before
        self._screen: QScreen | None = None  # another than the window's
        self._parts = 0  # of what is seen, as many as have its font
        self.turned: Callable[[], object] = lambda: None  # it has begun, or ended
        self.strips = Strips()
        self.aside = plain_label("")
        self.aside.setAccessibleName(_("the cell that is looked at, or what is next"))
        self.strips.put_beside_target(self.aside)
        self.candidates = CandidatesPanel(brief=True)
        window.large.surround(self.strips, self.candidates)
        window.large.resized.connect(self.dress)
        self.black = QWidget(window.large.alone)  # covers the picture
        self.black.setAutoFillBackground(True)
        self.black.setPalette(QPalette(Qt.GlobalColor.black))
        self.black.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.black.hide()

    def toggle(self) -> None:
        """Begin, or end."""
        self.end() if self.on else self.begin()

    def begin(self) -> None:
        """Show one picture alone: the large one, or else the view's own choice."""
        window, large = self._window, self._window.large
        self._before, wanted = (large.picture, window.windowState()), self._wanted()
        self._follows = large.picture in (None, wanted)
        self._focused = window.focusWidget()
        if large.picture is None:
            self._enlarge(wanted)
        if large.picture is None:
            nothing = _("There is no picture here that could be presented.")
            window.session.set(notice=nothing)
            return
        self.on = True
        self._present(on=True)
        self.dress()
        screen = other_screen(window.screen(), QGuiApplication.screens())
        self._screen = screen
        if screen is not None:
            large.lend(screen)
            _app().screenRemoved.connect(self._lose)
        else:
            window.body.chrome.hide()
            window.status.hide()
            set_first_steps_aside(window, True)
            window.showFullScreen()
        self.dress()  # for the width that there is now
        self.draw(window.session.state)
        self.turned()

    def end(self) -> None:
        """Put everything back."""
        if not self.on:
            return
        window, (picture, how) = self._window, self._before
        self.on = False
        self._present(on=False)
        for part in (self.strips, self.candidates, self.black):
            part.hide()
        if self._screen is not None:
            _app().screenRemoved.disconnect(self._lose)
            window.large.take_back()
        else:
            window.body.chrome.show()
            window.status.show()
            set_first_steps_aside(window, False)
            window.setWindowState(how)
        window.large.alone.setFont(window.font())
        window.messages.setFont(QFont())
        window.large.restore()
        if picture is not None:
            window.large.enlarge(picture)
        elif self._focused is not None and isValid(self._focused):
            self._focused.setFocus()
        self._screen = None
        self.turned()

    @property
    def elsewhere(self) -> bool:
        """Whether it is on another screen than the window."""
        return self._screen is not None

    def _lose(self, screen: QScreen) -> None:
        if screen is self._screen:
            self.end()

    def dress(self) -> None:
        """Follow the size of the window's text."""
        if self.on:
            font = QApplication.font()
            high = CAPITALS / QFontMetricsF(font).capHeight()
            larger = max(1, 100 * TEXT / self._zoom(), high)
            font = theme.sized(font, larger)
            self._window.large.alone.setFont(font)
            here = self._screen is None  # where all see what is said
            self._window.messages.setFont(font if here else QFont())
            self._place()

    def _place(self) -> None:
        """Put the next tokens beside the picture where it has room, the black above."""
        alone, view = self._window.large.alone, self._view
        line = alone.fontMetrics().height()
        beside = alone.width() >= BESIDE_LINES * line
        self.candidates.setFixedWidth(NEXT_LINES * line)
        self.candidates.fold(not beside or view is None or view.fills)
        self.strips.show()
        self.black.setGeometry(alone.rect())
        self.black.raise_()  # a picture that has come since lies above it

    def draw(self, state: State) -> None:
        """Follow the State: the view may want another picture now."""
        if not self.on:
            return
        wanted, large = self._wanted(), self._window.large
        if large.picture is None:  # another tab
            self._enlarge(wanted)
            self._present(on=True)
            self._follows = True
        elif self._follows and wanted not in (None, large.picture):
            large.enlarge(wanted or large)
        parts = len(large.alone.findChildren(QWidget))
        if parts != self._parts:  # a stage may have more matrices than the one before
            self._parts = parts
            large.spread_font()
        self._place()
        self.strips.draw(state)
        self.candidates.draw(state)
        self.aside.setText(self._aside(state))

    def _aside(self, state: State) -> str:
        """Return the cell in focus in words; without one, the best next tokens."""
        reads = state.tab == "attention"
        looked = state.visible, state.selection, state.look
        cell = cell_words(*looked) if reads else ""
        if cell or not self.candidates.folded:
            return cell
        rows = candidate_table(state.visible, choosable=False).rows[:BEST]
        return "   ".join(f"{r.token} {probability(r.probability)}" for r in rows)

    def cover(self) -> None:
        """Make the picture black, or show it again; only while presenting."""
        if self.on:
            self.black.setVisible(self.black.isHidden())
            self._place()

    def _enlarge(self, wanted: QWidget | None) -> None:
        large = self._window.large
        if wanted is not None:
            large.enlarge(wanted)
        if large.picture is None:
            large.toggle_focused()

    def _present(self, *, on: bool) -> None:
        view = self._window.tabs.shown if on else None
        if self._view is not None and self._view is not view:
            self._view.present(on=False)
        self._view = view
        if view is not None:
            view.present(on=True)

    def _wanted(self) -> QWidget | None:
        view = self._window.tabs.shown
        return view.main_picture() if view is not None else None


def other_screen(here: QScreen, screens: list[QScreen]) -> QScreen | None:
    """Return a screen that the window is not on."""
    return next((screen for screen in screens if screen is not here), None)


def _app() -> QGuiApplication:
    app = QGuiApplication.instance()
    assert isinstance(app, QGuiApplication)
    return app
