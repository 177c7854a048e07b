"""Keys that a focused picture keeps from the window's own."""

from __future__ import annotations

from collections.abc import Collection

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QKeyEvent


def keeps(event: QEvent, keys: Collection[Qt.Key]) -> bool:
    """Take one of these keys, pressed alone, before a shortcut of the window does."""
    override = QEvent.Type.ShortcutOverride
    if not isinstance(event, QKeyEvent) or event.type() != override:
        return False
    plain = (Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.KeypadModifier)
    if event.modifiers() not in plain or Qt.Key(event.key()) not in keys:
        return False
    event.accept()
    return True
