"""Words on screen: labels that may hold tokens, so never rich text."""

from __future__ import annotations

from PySide6.QtCore import QRect, Qt
from PySide6.QtGui import QFontMetrics
from PySide6.QtWidgets import QLabel


def words(name: str, text: str = "") -> QLabel:
    """Build a wrapped label in plain text; ``name`` is read to the blind."""
    label = QLabel(text)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setWordWrap(True)
    label.setAccessibleName(name)
    return label


def wrapped_height(metrics: QFontMetrics, text: str, width: int) -> int:
    """Pixels that a text takes in lines of ``width``; none without text."""
    if not text:
        return 0
    room = QRect(0, 0, max(1, width), 1 << 16)
    return metrics.boundingRect(room, Qt.TextFlag.TextWordWrap, text).height()
