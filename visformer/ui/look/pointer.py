"""Where the mouse is."""

from __future__ import annotations

from PySide6.QtGui import QCursor
from PySide6.QtWidgets import QWidget


def is_over(widget: QWidget) -> bool:
    """Tell whether the mouse is over a widget.

    A widget that came to where the mouse rested, with another tab, is sent no Leave
    event and goes on saying so itself (Qt 6.11).
    """
    at = widget.mapFromGlobal(QCursor.pos())
    return widget.underMouse() and widget.rect().contains(at)
