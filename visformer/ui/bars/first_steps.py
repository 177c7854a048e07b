"""The first steps: three gestures on a card, shown once."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QPalette, QResizeEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton

from visformer.language import N_, _
from visformer.ui.widgets.plain_label import paragraph
from visformer.ui.window.window_parts import WindowParts

SEEN = "first steps seen"  # in the settings
WIDE = 40  # line heights
GESTURES = (
    N_("Type a sentence and press Enter: it is translated."),
    N_("Press ← and → to step through it, word by word."),
    N_("Click a cell: every tab then follows this one number."),
)


class FirstSteps(QFrame):
    """A card among the messages; its button, or Esc, closes it for good."""

    def __init__(self, window: WindowParts) -> None:
        super().__init__()
        self._memory = window.memory
        self.setFrameShape(QFrame.Shape.Box)
        self.setAutoFillBackground(True)
        self.setBackgroundRole(QPalette.ColorRole.ToolTipBase)
        self.setForegroundRole(QPalette.ColorRole.Accent)  # the frame's
        self.setAccessibleName(_("first steps"))
        row = QHBoxLayout(self)
        self._gestures = paragraph(_("first steps"))
        self._gestures.setForegroundRole(QPalette.ColorRole.ToolTipText)
        self.done = QPushButton(_("Got it"))
        self.done.clicked.connect(self.dismiss)
        row.addWidget(self._gestures, 1)
        row.addWidget(self.done, 0, Qt.AlignmentFlag.AlignBottom)
        window.messages.add(self)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Go on in the same line where there is room: the pictures need the height."""
        super().resizeEvent(event)
        wide = self.width() > WIDE * self.fontMetrics().height()
        steps = [f"{number}\N{EM SPACE}{_(g)}" for number, g in enumerate(GESTURES, 1)]
        self._gestures.setText(("\N{EM SPACE} " if wide else "\n").join(steps))

    def dismiss(self) -> None:
        """Close it, also at every later start."""
        self._memory.keep(SEEN, 1)
        self.remove()

    def remove(self) -> None:
        """Close it until the next start."""
        self.hide()
        self.deleteLater()


def show_first_steps(window: WindowParts) -> FirstSteps | None:
    """Show the card, unless it was closed before."""
    return None if window.memory.number(SEEN, 0) else FirstSteps(window)


def set_first_steps_aside(window: WindowParts, aside: bool) -> None:
    """Hide the card while an audience looks on, or show it again."""
    for card in window.findChildren(FirstSteps):
        card.setHidden(aside)


def remove_first_steps(window: WindowParts) -> None:
    """Close the card until the next start, where something else leads the user."""
    for card in window.findChildren(FirstSteps):
        card.remove()


def close_first_steps(window: WindowParts) -> bool:
    """Close the card; tell whether there was one."""
    cards = [card for card in window.findChildren(FirstSteps) if card.isVisible()]
    for card in cards:
        card.dismiss()
    return bool(cards)
