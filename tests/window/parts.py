"""Parts of a window that must be there, and what a user does with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from visformer.ui.views import VIEWS
from visformer.ui.views.view import PagedView, View
from visformer.ui.window.window import MainWindow

LEFT = Qt.MouseButton.LeftButton
T = TypeVar("T")
V = TypeVar("V", bound=View)
W = TypeVar("W", bound=QWidget)


def unwrap(value: T | None) -> T:
    """Return a value that must be there."""
    assert value is not None
    return value


def view_of(window: MainWindow, kind: type[V]) -> V:
    """Return the view of a tab by its class."""
    view = window.tabs.view(kind.name)
    assert isinstance(view, kind)
    return view


def pages(window: MainWindow) -> Iterator[str]:
    """Turn to every page of every tab, and give its name."""
    for entry in VIEWS:
        window.session.set(tab=entry.name)
        view = window.tabs.view(entry.name)
        for page in entry.pages:
            assert isinstance(view, PagedView)
            view.turn(page.name)
            yield f"{entry.name} {page.name}"
        if not entry.pages:
            yield entry.name


def settle(turns: int = 5) -> None:
    """Let the event loop turn."""
    for _turn in range(turns):
        QApplication.processEvents()


def put_up(qtbot: QtBot, widget: W, *size: int) -> W:
    """Show a widget until the test ends, in a size if one is given; return it."""
    qtbot.addWidget(widget)
    if size:
        widget.resize(*size)
    widget.show()
    return widget


def click(qtbot: QtBot, widget: QWidget, at: QPoint | None = None) -> None:
    """Press the left button on a widget, in its middle if no place is given."""
    more: dict[str, Any] = {} if at is None else {"pos": at}
    qtbot.mouseClick(widget, LEFT, **more)


def drop(window: MainWindow, *paths: object) -> None:
    """Drop files on a window."""
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
    none = Qt.KeyboardModifier.NoModifier
    action = Qt.DropAction.CopyAction
    window.dropEvent(QDropEvent(QPointF(5, 5), action, data, LEFT, none))
