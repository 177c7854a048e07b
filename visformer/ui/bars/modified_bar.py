"""What has been changed in the run, in sight while it is active, with undo and redo."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QWidget

from visformer.pictures.modified_run import modified_words
from visformer.session.state import State
from visformer.ui.widgets.plain_label import plain_label


class ModifiedBar(QWidget):
    """One line, hidden while the run is the model's own."""

    undone = Signal()
    redone = Signal()
    restored = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setAutoFillBackground(True)
        self.setBackgroundRole(QPalette.ColorRole.ToolTipBase)
        self.setForegroundRole(QPalette.ColorRole.ToolTipText)
        row = QHBoxLayout(self)
        row.setContentsMargins(6, 2, 6, 2)
        self.words = plain_label("")
        self.words.setForegroundRole(QPalette.ColorRole.ToolTipText)
        self.words.setWordWrap(True)
        row.addWidget(self.words, 1)
        for title, tip, signal in (
            ("Undo", "Take the last change back (Ctrl+Z)", self.undone),
            ("Redo", "Make it again (Ctrl+Shift+Z)", self.redone),
            ("Restore", "Go back to the model's own run", self.restored),
        ):
            button = QPushButton(title)
            button.setToolTip(tip)
            button.clicked.connect(signal)
            row.addWidget(button)
        self.hide()

    def draw(self, state: State) -> None:
        """Say what is changed, and what that did to the text."""
        baseline = None if state.busy else state.baseline  # known when all is run
        words = modified_words(state.intervention, state.trace, baseline)
        self.words.setText(words)
        self.setVisible(bool(words))
