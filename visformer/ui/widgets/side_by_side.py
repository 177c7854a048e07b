"""Widgets side by side."""

from __future__ import annotations

from PySide6.QtWidgets import QHBoxLayout, QWidget


def in_a_row(*parts: QWidget | None, stretch: QWidget | None = None) -> QHBoxLayout:
    """Lay widgets out side by side; None is a stretch."""
    row = QHBoxLayout()
    row.setSpacing(6)
    for part in parts:
        if part is None:
            row.addStretch(1)
        else:
            row.addWidget(part, 1 if part is stretch else 0)
    return row


def in_line(*parts: QWidget) -> QWidget:
    """Return a widget of widgets side by side, the first with the free width."""
    line = QWidget()
    row = in_a_row(*parts, stretch=parts[0])
    row.setContentsMargins(0, 0, 0, 0)
    line.setLayout(row)
    return line
