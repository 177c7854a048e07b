"""The notice: one sentence on what went wrong or is to be known."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QLabel

from visformer.session.state import State


class Notice(QLabel):
    """Wraps its sentence; a long word in it never widens the window."""

    def __init__(self) -> None:
        super().__init__()
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setBackgroundRole(QPalette.ColorRole.AlternateBase)
        self.setAutoFillBackground(True)
        self.setMargin(4)
        self.setWordWrap(True)
        self.setMinimumWidth(1)  # otherwise that of the longest word

    def draw(self, state: State, damage: str = "") -> None:
        """Show the error, or else what the engine or the run has to say.

        ``damage`` says why something could not be drawn.
        """
        sentence = state.error or damage or state.silence or state.notice
        self.setText(sentence)
        self.setVisible(bool(sentence))
