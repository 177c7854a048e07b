"""Pages of a tab: a row of titles, and one visible widget."""

from __future__ import annotations

from typing import NamedTuple

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QTabBar, QWidget

from visformer.language import _
from visformer.ui.widgets.least_size import LeastColumn


class Page(NamedTuple):
    """A widget, its name in the program and its title on screen."""

    name: str
    title: str
    widget: QWidget


class Pages(QWidget):
    """Shows one page at a time; ``turned`` is emitted when another one is visible.

    Only the visible page asks for room, unlike in a QStackedWidget.
    """

    turned = Signal()

    def __init__(self, *pages: Page) -> None:
        super().__init__()
        self.names = tuple(page.name for page in pages)
        self._bar, self._widgets = QTabBar(), [page.widget for page in pages]
        self._bar.setAccessibleName(_("pages"))
        self._bar.setDrawBase(False)
        self._bar.setExpanding(False)
        for page in pages:
            self._bar.addTab(page.title)
        self._bar.currentChanged.connect(self._turn)
        layout = LeastColumn(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._bar)
        for at, widget in enumerate(self._widgets):
            layout.addWidget(widget, 1)
            widget.setVisible(at == 0)

    @property
    def current(self) -> str:
        """The name of the visible page."""
        return self.names[self._bar.currentIndex()]

    def turn(self, name: str) -> None:
        """Turn to a page; ValueError if none has this name."""
        self._bar.setCurrentIndex(self.names.index(name))

    def _turn(self, page: int) -> None:
        for at, widget in enumerate(self._widgets):
            widget.setVisible(at == page)
        self.turned.emit()
