"""Pages of a tab: a row of titles, and one visible widget."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QTabBar, QWidget

from visformer.language import _
from visformer.ui.widgets.least_size import LeastColumn
from visformer.ui.widgets.paint_later import paint_later


class Page(NamedTuple):
    """A page's name in the program, its title on screen, and what makes its widget.

    With the widget comes what stands beside the titles while it is visible, or None.
    """

    name: str
    title: str
    build: Callable[[], tuple[QWidget, QWidget | None]]


class Pages(QWidget):
    """Shows one page at a time; ``turned`` is emitted when another one is visible.

    A page is built when it is first turned to; the first one, when ``build`` is asked
    to. Only the visible one asks for room, unlike in a QStackedWidget.
    """

    turned = Signal()

    def __init__(self, *pages: Page, corner: QWidget | None = None) -> None:
        """``corner``: stands beside the titles, whatever page is visible."""
        super().__init__()
        self.names = tuple(page.name for page in pages)
        self._bar, self._pages = QTabBar(), pages
        self._built: dict[str, list[QWidget]] = {}  # the widget, and its tool
        self._bar.setAccessibleName(_("pages"))
        self._bar.setDrawBase(False)
        self._bar.setExpanding(False)
        for page in pages:
            self._bar.addTab(page.title)
        self._bar.currentChanged.connect(self._turn)
        self._column, self._titles = LeastColumn(self), QHBoxLayout()
        self._column.setContentsMargins(0, 0, 0, 0)
        self._titles.addWidget(self._bar, 1)
        if corner is not None:
            self._titles.addWidget(corner)
        self._column.addLayout(self._titles)

    @property
    def current(self) -> str:
        """The name of the visible page."""
        return self.names[self._bar.currentIndex()]

    def turn(self, name: str) -> None:
        """Turn to a page; ValueError if none has this name."""
        self._bar.setCurrentIndex(self.names.index(name))

    def build(self, name: str) -> None:
        """Build a page that is not built yet; ValueError if none has this name."""
        page = self._pages[self.names.index(name)]
        if name in self._built:
            return
        widget, tool = page.build()
        self._column.addWidget(widget, 1)
        self._built[name] = [widget]
        if tool is not None:
            self._titles.insertWidget(1, tool)
            self._built[name].append(tool)
        for part in self._built[name]:
            part.setVisible(name == self.current)

    def _turn(self) -> None:
        paint_later(self)
        focused = self.window().focusWidget() or self
        parts = [part for several in self._built.values() for part in several]
        if any(part is focused or part.isAncestorOf(focused) for part in parts):
            self._bar.setFocus()  # what hides would give it to any widget
        self._show()
        self.turned.emit()

    def _show(self) -> None:
        self.build(self.current)
        for name, parts in self._built.items():
            for part in parts:
                part.setVisible(name == self.current)
