"""The translation so far as a sentence, to read, to copy and to compare."""

from __future__ import annotations

from PySide6.QtCore import QEvent
from PySide6.QtGui import QGuiApplication, QPalette
from PySide6.QtWidgets import QSizePolicy, QStatusBar, QToolButton, QWidget

from visformer.language import _
from visformer.pictures.translation_text import AGAINST
from visformer.session.comparison import compared
from visformer.session.state import State
from visformer.ui import icons
from visformer.ui.widgets.marked_label import MarkedLabel
from visformer.ui.widgets.side_by_side import in_a_row


class Sentence(QWidget):
    """One line; cut where there is no room, copied whole."""

    def __init__(self) -> None:
        super().__init__()
        self._text, self._compared = "", False
        self._at_home = True  # the words stand in this row
        policy = QSizePolicy.Policy
        self.words, self.other = MarkedLabel(), MarkedLabel()
        self.words.setAccessibleName(_("the translation so far"))
        self.other.setAccessibleName(_("what the translation is compared with"))
        self.other.setForegroundRole(QPalette.ColorRole.PlaceholderText)
        for label in (self.words, self.other):
            label.setMinimumWidth(1)
        self.words.setSizePolicy(policy.Preferred, policy.Preferred)
        self.other.setSizePolicy(policy.Ignored, policy.Preferred)  # what room is left
        self.copy = QToolButton()
        self.copy.setAutoRaise(True)
        self.copy.setToolTip(_("Copy the translation"))
        self.copy.setAccessibleName(_("Copy the translation"))
        self.copy.clicked.connect(
            lambda: QGuiApplication.clipboard().setText(self._text)
        )
        self._row = in_a_row(self.words, self.copy, self.other, stretch=self.other)
        self._row.addStretch(0)
        self._row.setContentsMargins(0, 0, 0, 0)
        self.setLayout(self._row)
        icons.dress(self.copy, "copy")

    def changeEvent(self, event: QEvent) -> None:
        """Follow palette and font."""
        super().changeEvent(event)
        kinds = QEvent.Type.PaletteChange, QEvent.Type.FontChange
        if event.type() in kinds and "copy" in self.__dict__:
            icons.dress(self.copy, "copy")

    def draw(self, state: State) -> None:
        """Show what is translated up to the current step, and how it differs."""
        self._text = state.shown.text if state.shown is not None else ""
        said = compared(state)
        self.words.set_parts(said.parts)
        if said.against:
            around = _(AGAINST[said.against], text="\0").split("\0")
            self.other.set_parts(said.other, *around)
        self._compared = bool(said.other)
        self.other.setVisible(self._compared and self._at_home)
        self.copy.setEnabled(bool(self._text))

    def stand_in(self, line: QStatusBar | None) -> None:
        """Write the sentence in another line, or beside its button again."""
        if line is None:
            self._row.insertWidget(0, self.words)
        else:
            line.insertWidget(0, self.words)  # as wide as it is, or cut
        self.words.show()
        self._at_home = line is None
        self.other.setVisible(self._compared and self._at_home)
