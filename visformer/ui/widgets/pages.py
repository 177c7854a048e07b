"""Pages of a tab: a row of titles, and one visible widget."""

from __future__ import annotations

from typing import NamedTuple

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QTabBar, QWidget

from visformer.language import _
from visformer.ui.widgets.least_size import LeastColumn


class Page(NamedTuple):
    """A widget, its name in the program and its title on screen."""

    name: str
    title: str
    widget: QWidget
    tool: QWidget | None = None  # beside the titles while the page is visible


class Pages(QWidget):
    """Shows one page at a time; ``turned`` is emitted when another one is visible.

    Only the visible page asks for room, unlike in a QStackedWidget.
    """

    turned = Signal()

    def __init__(self, *pages: Page, corner: QWidget | None = None) -> None:
        """``corner``: stands beside the titles, whatever page is visible."""
        super().__init__()
        self.names = tuple(page.name for page in pages)
        self._bar, self._widgets = QTabBar(), [page.widget for page in pages]
        self._tools = [page.tool for page in pages]
        self._bar.setAccessibleName(_("pages"))
        self._bar.setDrawBase(False)
        self._bar.setExpanding(False)
        for page in pages:
            self._bar.addTab(page.title)
        self._bar.currentChanged.connect(self._turn)
        layout = LeastColumn(self)
        layout.setContentsMargins(0, 0, 0, 0)
        titles = QHBoxLayout()
        titles.addWidget(self._bar, 1)
        for tool in (*self._tools, corner):
            if tool is not None:
                titles.addWidget(tool)
        layout.addLayout(titles)
        for widget in self._widgets:
            layout.addWidget(widget, 1)
        self._show(0)

    @property
    def current(self) -> str:
        """The name of the visible page."""
        return self.names[self._bar.currentIndex()]

    def turn(self, name: str) -> None:
        """Turn to a page; ValueError if none has this name."""
        self._bar.setCurrentIndex(self.names.index(name))

    def _turn(self, page: int) -> None:
        focused = self.window().focusWidget() or self
        parts = [part for part in (*self._widgets, *self._tools) if part is not None]
        if any(part is focused or part.isAncestorOf(focused) for part in parts):
            self._bar.setFocus()  # what hides would give it to any widget
        self._show(page)
        self.turned.emit()

    def _show(self, page: int) -> None:
        for at, (widget, tool) in enumerate(
            zip(self._widgets, self._tools, strict=True)
        ):
            widget.setVisible(at == page)
            if tool is not None:
                tool.setVisible(at == page)
