"""Widgets belong to the window's thread: whoever touches one elsewhere is noted."""

from __future__ import annotations

import functools
import threading
import traceback
from typing import Any

from PySide6.QtWidgets import (
    QAbstractButton,
    QComboBox,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QWidget,
)

TOUCHES: dict[type[QWidget], tuple[str, ...]] = {
    QWidget: (
        *("update", "repaint", "grab", "show", "hide", "setVisible", "setEnabled"),
        *("resize", "setToolTip", "setFont", "setPalette", "setAccessibleName"),
        *("setWindowTitle", "setWindowModified", "setFocus", "updateGeometry"),
    ),
    QLabel: ("setText", "setPixmap"),
    QAbstractButton: ("setText", "setIcon", "setChecked"),
    QLineEdit: ("setText", "setPlaceholderText", "clear"),
    QComboBox: ("addItem", "setCurrentIndex", "setItemText", "clear"),
    QPlainTextEdit: ("setPlainText",),
}
touched: list[str] = []  # where, by threads that must not


def watch_widgets() -> None:
    """Note each touch of a widget by another thread than the main one, from now on."""
    for kind, names in TOUCHES.items():
        for name in names:
            setattr(kind, name, _noted(getattr(kind, name), f"{kind.__name__}.{name}"))


def _noted(method: Any, name: str) -> Any:
    main = threading.main_thread().ident

    @functools.wraps(method)
    def touch(*given: Any, **more: Any) -> Any:
        if threading.get_ident() != main:
            touched.append(f"{name} at {traceback.format_stack(limit=4)[0].strip()}")
            return None  # touching it would end the process
        return method(*given, **more)

    return touch
