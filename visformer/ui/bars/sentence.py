"""The translation so far as a sentence, to read and to copy."""

from __future__ import annotations

from PySide6.QtCore import QEvent
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QSizePolicy, QToolButton, QWidget

from visformer.language import _
from visformer.session.state import State
from visformer.text import visible
from visformer.ui import icons
from visformer.ui.widgets.plain_label import plain_label
from visformer.ui.widgets.side_by_side import in_a_row


class Sentence(QWidget):
    """One line; cut where there is no room, copied whole."""

    def __init__(self) -> None:
        super().__init__()
        self._text = ""
        self.words = plain_label("")
        self.words.setAccessibleName(_("the translation so far"))
        self.words.setMinimumWidth(1)
        policy = QSizePolicy.Policy
        self.words.setSizePolicy(policy.Preferred, policy.Preferred)
        self.copy = QToolButton()
        self.copy.setAutoRaise(True)
        self.copy.setToolTip(_("Copy the translation"))
        self.copy.setAccessibleName(_("Copy the translation"))
        self.copy.clicked.connect(
            lambda: QGuiApplication.clipboard().setText(self._text)
        )
        row = in_a_row(self.words, self.copy, None)
        row.setContentsMargins(0, 0, 0, 0)
        self.setLayout(row)
        icons.dress(self.copy, "copy")

    def changeEvent(self, event: QEvent) -> None:
        """Follow palette and font."""
        super().changeEvent(event)
        kinds = QEvent.Type.PaletteChange, QEvent.Type.FontChange
        if event.type() in kinds and "copy" in self.__dict__:
            icons.dress(self.copy, "copy")

    def draw(self, state: State) -> None:
        """Show what is translated up to the current step."""
        self._text = state.shown.text if state.shown is not None else ""
        shown = visible(self._text)
        if shown != self.words.text():
            self.words.setText(shown)
        self.copy.setEnabled(bool(self._text))
