"""Labels that may contain tokens, and so never are rich text."""

from __future__ import annotations

from PySide6.QtCore import QRect, Qt
from PySide6.QtGui import QFontMetrics, QPalette
from PySide6.QtWidgets import QLabel, QWidget


def plain_label(
    text: str = "", parent: QWidget | None = None, *, faint: bool = False
) -> QLabel:
    """Build a label that never reads its text as markup: ``<s>`` is a token."""
    label = QLabel(parent)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setText(text)
    if faint:
        label.setForegroundRole(QPalette.ColorRole.PlaceholderText)
    return label


def paragraph(name: str, text: str = "") -> QLabel:
    """Build a plain label of several lines; ``name`` is the accessible name."""
    label = plain_label(text)
    label.setWordWrap(True)
    label.setAccessibleName(name)
    return label


def wrapped_height(metrics: QFontMetrics, text: str, width: int) -> int:
    """Return the height of a text wrapped to ``width``, in pixels; 0 for no text."""
    if not text:
        return 0
    room = QRect(0, 0, max(1, width), 1 << 16)
    return metrics.boundingRect(room, Qt.TextFlag.TextWordWrap, text).height()
