"""Words on screen: labels that may hold tokens, so never rich text."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel


def words(name: str, text: str = "") -> QLabel:
    """Build a wrapped label in plain text; ``name`` is read to the blind."""
    label = QLabel(text)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setWordWrap(True)
    label.setAccessibleName(name)
    return label
