"""The first steps: three gestures on a card, shown once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QObject, QPoint, QRect, Qt
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QBoxLayout, QFrame, QPushButton

from visformer.language import N_, _
from visformer.ui import theme
from visformer.ui.widgets.plain_label import paragraph

if TYPE_CHECKING:
    from visformer.ui.window import MainWindow

LEAST = 12  # times the distances: the least width below the next tokens
SEEN = "first steps seen"  # in the settings
GESTURES = (
    N_("Type a sentence and press Enter: it is translated."),
    N_("Press ← and → to step through it, word by word."),
    N_("Click a cell: every tab then follows this one number."),
)


class FirstSteps(QFrame):
    """A card that pushes and hides nothing; its button, or Esc, closes it for good.

    It stands below the next tokens; without room there, along the lower edge. What
    there is to say stays in sight: the card stands above it, or beside it.
    """

    def __init__(self, window: MainWindow) -> None:
        super().__init__(window)
        self._window = window
        self.setFrameShape(QFrame.Shape.Box)
        self.setAutoFillBackground(True)
        self.setBackgroundRole(QPalette.ColorRole.ToolTipBase)
        self.setForegroundRole(QPalette.ColorRole.Accent)  # the frame's
        self.setAccessibleName(_("first steps"))
        self._lines = QBoxLayout(QBoxLayout.Direction.TopToBottom, self)
        self._labels = [
            paragraph(_("first steps"), f"{number}   {_(line)}")
            for number, line in enumerate(GESTURES, 1)
        ]
        for label in self._labels:
            label.setForegroundRole(QPalette.ColorRole.ToolTipText)
            self._lines.addWidget(label, 1)
        self.done = QPushButton(_("Got it"))
        self.done.clicked.connect(self.dismiss)
        self._lines.addWidget(self.done, 0, Qt.AlignmentFlag.AlignRight)
        self._watched = window, window.candidates, window.messages
        for part in self._watched:
            part.installEventFilter(self)
        self._settle()
        self.show()
        self.raise_()

    def dismiss(self) -> None:
        """Close it, also at every later start."""
        self._window.memory.keep(SEEN, 1)
        for part in self._watched:
            part.removeEventFilter(self)
        self.hide()
        self.deleteLater()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Stand where there is room now."""
        kinds = (
            *(QEvent.Type.Resize, QEvent.Type.Move),
            *(QEvent.Type.Show, QEvent.Type.Hide),
        )
        asked = event.type() == QEvent.Type.LayoutRequest
        if event.type() in kinds or (asked and watched is not self._window):
            self._settle()
        return False

    def changeEvent(self, event: QEvent) -> None:
        """Follow the font."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange and "_lines" in self.__dict__:
            self._settle()

    def _settle(self) -> None:
        panel, lines, space = self._window.candidates, self._lines, theme.gap(self, 2)
        lines.setContentsMargins(space, space, space, space)
        lines.setSpacing(space)
        room = panel.free_room() if panel.isVisible() else QRect()
        room = room.translated(panel.mapTo(self._window, QPoint()))
        room.adjust(space, space, -space, -space)
        said = self._said()
        if said.intersects(room):
            room.setBottom(said.top() - space)
        high, way = self._height(room.width()), QBoxLayout.Direction.TopToBottom
        if room.width() < LEAST * space or high > room.height():
            room = self._window.rect().adjusted(space, space, -space, -2 * space)
            room.translate(0, -self._window.status.height())
            if said.left() > self._window.width() // 2:
                room.setRight(said.left() - space)
            elif said.isValid():
                room.setBottom(said.top() - space)
            high, way = 0, QBoxLayout.Direction.LeftToRight
        if way != lines.direction():  # it asks for a new arrangement each time
            lines.setDirection(way)
        high = high or lines.totalHeightForWidth(room.width())
        self.setGeometry(room.x(), room.bottom() + 1 - high, room.width(), high)

    def _said(self) -> QRect:
        """Return where there is something to read, in the window; empty for nowhere."""
        messages = self._window.messages
        at = messages.mapTo(self._window, QPoint())
        return QRect(at, messages.size()) if messages.isVisible() else QRect()

    def _height(self, width: int) -> int:
        """Return the height of the lines below one another, in pixels."""
        space, edge = self._lines.spacing(), self.frameWidth()
        inside = width - 2 * (space + edge)
        lines = sum(label.heightForWidth(inside) for label in self._labels)
        gaps = (len(self._labels) + 2) * space + 2 * edge
        return lines + self.done.sizeHint().height() + gaps


def show_first_steps(window: MainWindow) -> FirstSteps | None:
    """Show the card, unless it was closed before."""
    return None if window.memory.number(SEEN, 0) else FirstSteps(window)


def set_first_steps_aside(window: MainWindow, aside: bool) -> None:
    """Hide the card while an audience looks on, or show it again."""
    for card in window.findChildren(FirstSteps):
        card.setHidden(aside)


def close_first_steps(window: MainWindow) -> bool:
    """Close the card; tell whether there was one."""
    cards = [card for card in window.findChildren(FirstSteps) if card.isVisible()]
    for card in cards:
        card.dismiss()
    return bool(cards)
