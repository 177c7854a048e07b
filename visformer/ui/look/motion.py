"""Whether pictures move: one setting of the program."""

from __future__ import annotations

from PySide6.QtWidgets import QApplication

STILL = "pictures stand still"  # a property of the application


def set_motion(wanted: bool) -> None:
    """Let pictures move after a step, or stand still."""
    app = QApplication.instance()
    if app is not None:
        app.setProperty(STILL, not wanted)


def has_motion() -> bool:
    """Tell whether pictures may move; they may unless it was switched off."""
    app = QApplication.instance()
    return app is not None and not app.property(STILL)
