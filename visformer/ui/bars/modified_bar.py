"""What is changed in the run, said while the change is active; undo and redo."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Signal
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QHBoxLayout, QToolButton, QWidget

from visformer.language import _
from visformer.pictures.modified_run import modified_words
from visformer.session.state import State
from visformer.ui.widgets.plain_label import plain_label

LEAST_SAID = 27  # characters that stay in sight where there is little width


class ModifiedBar(QWidget):
    """One line of the status bar, hidden during the original run."""

    undone = Signal()
    redone = Signal()
    restored = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setAutoFillBackground(True)
        self.setBackgroundRole(QPalette.ColorRole.ToolTipBase)
        self.setForegroundRole(QPalette.ColorRole.ToolTipText)
        row = QHBoxLayout(self)
        row.setContentsMargins(6, 0, 0, 0)
        row.setSpacing(2)
        self.words = plain_label("")
        self.words.setForegroundRole(QPalette.ColorRole.ToolTipText)
        row.addWidget(self.words, 1)
        self.buttons: list[QToolButton] = []
        for title, tip, signal in (
            (_("Undo"), _("Undo the last change (Ctrl+Z)"), self.undone),
            (_("Redo"), _("Redo the change (Ctrl+Shift+Z)"), self.redone),
            (_("Restore"), _("Go back to the original run"), self.restored),
        ):
            button = QToolButton()
            button.setText(title)
            button.setToolTip(tip)
            button.clicked.connect(signal)
            row.addWidget(button)
            self.buttons.append(button)
        self.hide()

    def draw(self, state: State) -> None:
        """Say what is changed, and how the text differs."""
        baseline = None if state.busy else state.baseline  # known when all is run
        words = modified_words(state.intervention, state.trace, baseline)
        self.words.setText(words)
        self._keep_room()
        self.setVisible(bool(words))
        undo, redo, _restore = self.buttons
        undo.setEnabled(bool(state.history.undo))
        redo.setEnabled(bool(state.history.redo))

    def changeEvent(self, event: QEvent) -> None:
        """Follow the font."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange and "buttons" in self.__dict__:
            self._keep_room()

    def _keep_room(self) -> None:
        """Keep what is changed in sight; the rest is cut, a tooltip has all of it."""
        begins = self.words.text()[:LEAST_SAID]
        self.words.setMinimumWidth(self.fontMetrics().horizontalAdvance(begins + "…"))
