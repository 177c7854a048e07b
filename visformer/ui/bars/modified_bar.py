"""What is changed in the run, shown while the change is active; undo and redo."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QToolButton, QWidget

from visformer.language import _
from visformer.pictures.modified_run import modified_words
from visformer.session.state import State
from visformer.ui.widgets.plain_label import plain_label


class ModifiedBar(QWidget):
    """One line, hidden during the original run."""

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
        self.words.setMinimumWidth(1)  # it is cut; a tooltip has all of it
        self.folder = QToolButton()
        self.folder.setCheckable(True)
        self.folder.setText(_("Modified run"))
        self.folder.setToolTip(_("Fold this line away from the pictures, or unfold it"))
        self.folder.setArrowType(Qt.ArrowType.DownArrow)
        self.folder.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonIconOnly)
        self.folder.toggled.connect(self._fold)
        row.addWidget(self.folder)
        row.addWidget(self.words, 1)
        self.buttons: list[QPushButton] = []
        for title, tip, signal in (
            (_("Undo"), _("Undo the last change (Ctrl+Z)"), self.undone),
            (_("Redo"), _("Redo the change (Ctrl+Shift+Z)"), self.redone),
            (_("Restore"), _("Go back to the original run"), self.restored),
        ):
            button = QPushButton(title)
            button.setToolTip(tip)
            button.clicked.connect(signal)
            row.addWidget(button)
            self.buttons.append(button)
        self.hide()

    @property
    def folded(self) -> bool:
        """Whether only its name is seen."""
        return self.folder.isChecked()

    def fold(self, *, folded: bool) -> None:
        """Fold it to its name, or show all of it."""
        self.folder.setChecked(folded)

    def _fold(self, folded: bool) -> None:
        styles, arrows = Qt.ToolButtonStyle, Qt.ArrowType
        self.folder.setArrowType(arrows.UpArrow if folded else arrows.DownArrow)
        self.folder.setToolButtonStyle(
            styles.ToolButtonTextBesideIcon if folded else styles.ToolButtonIconOnly
        )
        for part in (self.words, *self.buttons):
            part.setVisible(not folded)

    def draw(self, state: State) -> None:
        """Say what is changed, and how the text differs."""
        baseline = None if state.busy else state.baseline  # known when all is run
        words = modified_words(state.intervention, state.trace, baseline)
        if words != self.words.text():
            self.folder.setChecked(False)  # what is new is seen
        self.words.setText(words)
        self.setVisible(bool(words))
        undo, redo, _restore = self.buttons
        undo.setEnabled(bool(state.history.undo))
        redo.setEnabled(bool(state.history.redo))
