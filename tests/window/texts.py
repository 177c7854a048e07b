"""All texts of a widget and its children, those for screen readers included."""

from __future__ import annotations

import html
from collections.abc import Iterator

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractSpinBox,
    QComboBox,
    QDoubleSpinBox,
    QLabel,
    QLineEdit,
    QMenu,
    QPlainTextEdit,
    QSpinBox,
    QTabBar,
    QTableView,
    QWidget,
)

ROLES = (
    Qt.ItemDataRole.DisplayRole,
    Qt.ItemDataRole.ToolTipRole,
    Qt.ItemDataRole.AccessibleTextRole,
)


def texts(root: QWidget) -> Iterator[str]:
    """Yield the texts of a widget, its children, their menus and tables, as read.

    Each comes once: of most widgets, most are empty.
    """
    return map(_as_read, dict.fromkeys(_all_texts(root)))


def _as_read(text: str) -> str:
    """Return what Qt shows of a text that ``plain_tip`` has written."""
    inner = text.removeprefix("<qt>").removesuffix("</qt>")
    return text if inner == text else html.unescape(inner.replace("<br>", "\n"))


def _all_texts(root: QWidget) -> Iterator[str]:
    for widget in (root, *root.findChildren(QWidget)):
        yield widget.accessibleName()
        yield widget.accessibleDescription()
        yield widget.toolTip()
        yield widget.statusTip()
        yield widget.whatsThis()
        yield from _own(widget)
    for action in root.findChildren(QAction):
        yield from (action.text(), action.toolTip(), action.statusTip())


def _own(widget: QWidget) -> Iterator[str]:
    """Yield what a widget of a class shows besides."""
    match widget:
        case QLabel() | QAbstractButton():
            yield widget.text()
        case QLineEdit():
            yield widget.placeholderText()
        case QPlainTextEdit():
            yield widget.placeholderText()
            if widget.isReadOnly():
                yield widget.toPlainText()
        case QComboBox():
            yield widget.placeholderText()
            yield from (widget.itemText(at) for at in range(widget.count()))
        case QSpinBox() | QDoubleSpinBox():
            yield from (widget.prefix(), widget.suffix(), widget.specialValueText())
        case QAbstractSpinBox():
            yield widget.specialValueText()
        case QTabBar():
            yield from (widget.tabText(at) for at in range(widget.count()))
            yield from (widget.tabToolTip(at) for at in range(widget.count()))
        case QMenu():
            yield widget.title()
        case QTableView():
            yield from _cells(widget)
    if widget.isWindow():
        yield widget.windowTitle()


def _cells(table: QTableView) -> Iterator[str]:
    """Yield the first cells of a table and the titles of its rows and columns."""
    model = table.model()
    rows, columns = min(30, model.rowCount()), min(30, model.columnCount())
    across, down = Qt.Orientation.Horizontal, Qt.Orientation.Vertical
    for role in ROLES:
        found = [model.headerData(at, across, role) for at in range(columns)]
        found += [model.headerData(at, down, role) for at in range(rows)]
        found += [
            model.index(row, column).data(role)
            for row in range(rows)
            for column in range(columns)
        ]
        yield from (text for text in found if isinstance(text, str))
