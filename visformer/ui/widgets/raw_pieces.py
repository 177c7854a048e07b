"""How tokens are written in all windows: as words, or as their vocabulary has them."""

from __future__ import annotations

from PySide6.QtCore import QCoreApplication, QEvent
from PySide6.QtWidgets import QApplication

from visformer.pictures.picture import raw_label

_RAW = "raw pieces"  # a property of the application, as the theme's size of text is


def show_raw(*, raw: bool) -> None:
    """Write tokens so; what is written already is measured and written again."""
    app = QApplication.instance()
    if isinstance(app, QApplication) and bool(app.property(_RAW)) != raw:
        app.setProperty(_RAW, raw)
        for widget in app.allWidgets():
            QCoreApplication.sendEvent(widget, QEvent(QEvent.Type.FontChange))


def is_raw() -> bool:
    """Tell whether tokens are written as their vocabulary has them."""
    app = QCoreApplication.instance()
    return app is not None and bool(app.property(_RAW))


def written(labels: tuple[str, ...]) -> tuple[str, ...]:
    """Return labels as they are written now."""
    return tuple(map(raw_label, labels)) if is_raw() else labels
