"""Presenting: one picture alone, large, with the word that is written and what is next.

On the second screen where there is one, else in the window.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QPoint, QRectF, Qt, QTimer
from PySide6.QtGui import (
    QColor,
    QCursor,
    QGuiApplication,
    QPainter,
    QPainterPath,
    QPaintEvent,
    QScreen,
)
from PySide6.QtWidgets import QApplication, QBoxLayout, QFrame, QWidget
from shiboken6 import isValid

from visformer.language import _
from visformer.pictures.attention.cell_words import cell_words
from visformer.pictures.selection import AttentionCell, Selection
from visformer.session.state import State
from visformer.text import visible
from visformer.ui import theme
from visformer.ui.bars.candidates import CandidatesPanel
from visformer.ui.views.view import View
from visformer.ui.widgets.plain_label import paragraph, plain_label

if TYPE_CHECKING:
    from visformer.ui.window import MainWindow

TEXT = 1.6  # least size of all text, relative to the usual one
SPOT = 0.16  # radius of the spotlight, relative to the height
DIM = 0.72  # opacity of what is around it
FOLLOW_MS = 20  # between two looks at where the mouse is
ANY_WIDTH = (1 << 24) - 1  # Qt's largest
GROUP_LINES = 45  # of width, below which several pictures need all of it


class Rail(QFrame):
    """Beside the picture: the word, the row that is looked at, the best tokens.

    As a band above it the rail leaves the best tokens out.
    """

    def __init__(self) -> None:
        super().__init__()
        self.word = plain_label("")
        self.word.setAccessibleName(_("the word being written"))
        self.cell = paragraph(_("the cell that is looked at"))
        self.candidates = CandidatesPanel(brief=True)
        self.candidates.setSizePolicy(self.sizePolicy())
        self._parts = QBoxLayout(QBoxLayout.Direction.TopToBottom, self)
        for part in (self.word, self.cell, self.candidates):
            self._parts.addWidget(part)
        self._parts.addStretch(0)  # takes the room where there are no candidates
        self.hide()

    def dress(self, *, band: bool) -> None:
        """Follow the font: the word is the largest."""
        self.word.setFont(theme.sized(self.font(), theme.WORD))
        self.cell.setFont(theme.sized(self.font(), 1, bold=True))
        way = QBoxLayout.Direction
        self._parts.setDirection(way.LeftToRight if band else way.TopToBottom)
        self._parts.setStretchFactor(self.cell, int(band))
        self._parts.setStretchFactor(self.candidates, int(not band))
        self._parts.setSpacing(theme.gap(self, 2 if band else 1))
        self.candidates.fold(band)
        room = self.window().width() // 3
        wide = min(room, 15 * self.fontMetrics().height())
        self.setMinimumWidth(0 if band else wide)
        self.setMaximumWidth(ANY_WIDTH if band else wide)

    def draw(self, state: State, *, cell: bool) -> None:
        """Show the current step's word and distribution; ``cell``: its row, too."""
        shown = state.shown
        last = shown.steps[-1] if shown is not None and shown.steps else None
        self.word.setText(visible(last.token) if last is not None else "")
        words = cell_words(shown, _looked_at(state), state.look) if cell else ""
        self.cell.setText(words)
        self.cell.setVisible(bool(words))
        self.candidates.draw(state)


def _looked_at(state: State) -> Selection:
    """Return what is selected; without a cell, what the current row reads most."""
    selection, shown = state.selection, state.shown
    kind = selection.kind
    if selection.cell is not None or shown is None or kind == "encoder":
        return selection
    if kind not in shown.kinds or not len(shown):
        return selection
    rows = shown.attention(kind, selection.layer, selection.head)
    if not rows.size or not np.isfinite(rows[-1]).any():
        return selection
    key = int(np.nanargmax(rows[-1]))
    return replace(selection, cell=AttentionCell(kind, len(rows) - 1, key))


class Curtain(QWidget):
    """Lies over the picture: all black, or dark but for a spot at the mouse."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.mode = ""  # "black", "spotlight" or "" for none
        self._spot = QPoint()
        self._timer = QTimer(self)
        self._timer.timeout.connect(self._follow)
        self.hide()

    def switch(self, mode: str) -> None:
        """Draw the curtain in this way, or take it away if it is so already."""
        self.mode = "" if mode == self.mode else mode
        parent = self.parentWidget()
        self.setGeometry(parent.rect() if parent is not None else self.rect())
        self.setVisible(bool(self.mode))
        self.raise_()
        self._timer.stop()
        if self.mode == "spotlight":
            self._timer.start(FOLLOW_MS)
        self._follow()
        self.update()

    def _follow(self) -> None:
        spot = self.mapFromGlobal(QCursor.pos())
        if spot != self._spot:
            self._spot = spot
            self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if self.mode == "black":
            painter.fillRect(self.rect(), QColor("black"))
            return
        dark = QColor("black")
        dark.setAlphaF(DIM)
        around, radius = QPainterPath(), SPOT * self.height()
        around.addRect(QRectF(self.rect()))
        around.addEllipse(self._spot.toPointF(), radius, radius)
        painter.fillPath(around, dark)


class Presentation:
    """Begins and ends; what was there before is there again afterwards."""

    def __init__(self, window: MainWindow) -> None:
        self._window = window
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
        self.rail = Rail()
        window.large.add_beside(self.rail)
        window.large.resized.connect(self.dress)
        self.curtain = Curtain(window.large.alone)

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
            window.showFullScreen()
        self.dress()  # for the width that there is now
        self.draw(window.session.state)

    def end(self) -> None:
        """Put everything back."""
        if not self.on:
            return
        window, (picture, how) = self._window, self._before
        self.on = False
        self._present(on=False)
        if self.curtain.mode:
            self.curtain.switch(self.curtain.mode)
        self.rail.hide()
        if self._screen is not None:
            _app().screenRemoved.disconnect(self._lose)
            window.large.take_back()
        else:
            window.body.chrome.show()
            window.status.show()
            window.setWindowState(how)
        window.large.alone.setFont(window.font())
        window.large.restore()
        if picture is not None:
            window.large.enlarge(picture)
        elif self._focused is not None and isValid(self._focused):
            self._focused.setFocus()

    def _lose(self, screen: QScreen) -> None:
        """Put everything back where the audience's screen is gone."""
        if screen is self._screen:
            self.end()

    def dress(self) -> None:
        """Follow the size of the window's text."""
        if self.on:
            larger = max(1, 100 * TEXT / self._window.appearance.zoom)
            font = theme.sized(QApplication.font(), larger)
            self._window.large.alone.setFont(font)
            self._place_rail()

    def _place_rail(self) -> None:
        """Leave pictures side by side the width that they need."""
        large = self._window.large
        room = GROUP_LINES * large.alone.fontMetrics().height()
        band = large.is_group and large.alone.width() < room
        large.put_above(above=band)
        self.rail.dress(band=band)

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
        self._place_rail()
        view = self._view
        self.rail.draw(state, cell=view is not None and view.shows_cell)

    def cover(self, mode: str) -> None:
        """Switch the black or the spotlight on and off; only while presenting."""
        if self.on:
            self.curtain.switch(mode)

    def _enlarge(self, wanted: QWidget | None) -> None:
        """Make the view's choice large; else what has the focus, or the largest."""
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
            self.rail.setVisible(not view.fills)

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
