"""The source line: Enter translates, Up and Down walk earlier sentences."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QKeyEvent, QKeySequence
from PySide6.QtWidgets import QLineEdit

from visformer.text import MAX_CHARACTERS, clean

HISTORY = 200


class SourceLine(QLineEdit):
    """A line of text with a memory."""

    submitted = Signal(str)

    def __init__(self, name: str, hint: str) -> None:
        super().__init__()
        self.history: list[str] = []
        self._at = 0  # place in the history; its length: the line being typed
        self._typed = ""
        self.setMaxLength(MAX_CHARACTERS)
        self.setAccessibleName(name)
        self.setPlaceholderText(hint)
        self.setClearButtonEnabled(True)
        self.returnPressed.connect(self.submit)

    def submit(self) -> None:
        """Emit the text and remember it."""
        text = self.text()
        self.remember(text)
        self.submitted.emit(text)

    def take(self, text: str) -> str:
        """Show a text from elsewhere, cleaned and remembered; return it."""
        text = clean(text)
        self.setText(text)
        self.remember(text)
        return text

    def remember(self, text: str) -> None:
        """Put a sentence at the end of the history, once."""
        if text.strip():
            self.history = [*(t for t in self.history if t != text), text][-HISTORY:]
        self._at = len(self.history)

    def event(self, event: QEvent) -> bool:
        """Leave Undo and Redo to the window where there is no typing to undo."""
        if event.type() == QEvent.Type.ShortcutOverride and isinstance(
            event, QKeyEvent
        ):
            keys = QKeySequence.StandardKey
            undo = event.matches(keys.Undo) and not self.isUndoAvailable()
            redo = event.matches(keys.Redo) and not self.isRedoAvailable()
            if undo or redo:
                event.ignore()
                return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Walk the history; everything else is typing."""
        if event.key() == Qt.Key.Key_Up:
            self._walk(-1)
        elif event.key() == Qt.Key.Key_Down:
            self._walk(1)
        else:
            super().keyPressEvent(event)

    def _walk(self, step: int) -> None:
        if self._at >= len(self.history):
            self._typed = self.text()
        self._at = max(0, min(len(self.history), self._at + step))
        end = self._at == len(self.history)
        self.setText(self._typed if end else self.history[self._at])
