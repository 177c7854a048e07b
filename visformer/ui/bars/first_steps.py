"""The first steps: three gestures on a card, over the pictures, shown once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QFrame, QLabel, QPushButton, QVBoxLayout

from visformer.language import N_, _
from visformer.ui import theme

if TYPE_CHECKING:
    from visformer.ui.window import MainWindow

SEEN = "first steps seen"  # in the settings
GESTURES = (
    N_("Type a sentence and press Enter: it is translated."),
    N_("Press → to write the next word, ← to go back."),
    N_("Click a cell: every tab then follows this one number."),
)


class FirstSteps(QFrame):
    """A card that pushes nothing; its button, or Esc, closes it for good."""

    def __init__(self, window: MainWindow) -> None:
        super().__init__(window)
        self._window = window
        self.setFrameShape(QFrame.Shape.Box)
        self.setAutoFillBackground(True)
        self.setBackgroundRole(QPalette.ColorRole.ToolTipBase)
        self.setForegroundRole(QPalette.ColorRole.Accent)  # the frame's
        self.setAccessibleName(_("first steps"))
        column = QVBoxLayout(self)
        self._labels = [QLabel(_(line)) for line in GESTURES]
        for number, label in enumerate(self._labels, 1):
            label.setTextFormat(Qt.TextFormat.PlainText)
            label.setForegroundRole(QPalette.ColorRole.ToolTipText)
            label.setText(f"{number}   {label.text()}")
            column.addWidget(label)
        self.done = QPushButton(_("Got it"))
        self.done.clicked.connect(self.dismiss)
        column.addWidget(self.done, 0, Qt.AlignmentFlag.AlignRight)
        window.installEventFilter(self)
        self._settle()
        self.show()
        self.raise_()

    def dismiss(self) -> None:
        """Close it, also at every later start."""
        self._window.memory.keep(SEEN, 1)
        self._window.removeEventFilter(self)
        self.hide()
        self.deleteLater()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Stay at the lower edge."""
        if event.type() == QEvent.Type.Resize:
            self._settle()
        return False

    def changeEvent(self, event: QEvent) -> None:
        """Follow the font."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange and "_labels" in self.__dict__:
            self._settle()

    def _settle(self) -> None:
        for label in self._labels:
            label.setFont(theme.sized(self.font(), theme.TITLE))
        space = theme.gap(self, 3)
        layout = self.layout()
        if layout is not None:
            layout.setContentsMargins(space, space, space, space)
            layout.setSpacing(theme.gap(self))
        size = self.sizeHint().boundedTo(self._window.size())
        left = (self._window.width() - size.width()) // 2
        bottom = self._window.height() - 4 * self.fontMetrics().height()
        self.setGeometry(left, max(0, bottom - size.height()), *size.toTuple())


def show_first_steps(window: MainWindow) -> FirstSteps | None:
    """Show the card, unless it was closed before."""
    return None if window.memory.number(SEEN, 0) else FirstSteps(window)


def close_first_steps(window: MainWindow) -> bool:
    """Close the card; tell whether there was one."""
    cards = [card for card in window.findChildren(FirstSteps) if card.isVisible()]
    for card in cards:
        card.dismiss()
    return bool(cards)
