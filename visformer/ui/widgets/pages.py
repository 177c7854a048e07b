"""Pages of a tab: a row of titles, and one visible widget."""

from __future__ import annotations

from typing import NamedTuple

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QStackedWidget, QTabBar, QVBoxLayout, QWidget

from visformer.language import _


class Page(NamedTuple):
    """A widget, its name in the program and its title on screen."""

    name: str
    title: str
    widget: QWidget


class Pages(QWidget):
    """Shows one page at a time; ``turned`` is emitted when another one is visible."""

    turned = Signal()

    def __init__(self, *pages: Page) -> None:
        super().__init__()
        self.names = tuple(page.name for page in pages)
        self._bar, self._stack = QTabBar(), QStackedWidget()
        self._bar.setAccessibleName(_("pages"))
        self._bar.setDrawBase(False)
        self._bar.setExpanding(False)
        for page in pages:
            self._bar.addTab(page.title)
            self._stack.addWidget(page.widget)
        self._bar.currentChanged.connect(self._turn)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._bar)
        layout.addWidget(self._stack, 1)

    @property
    def current(self) -> str:
        """The name of the visible page."""
        return self.names[self._stack.currentIndex()]

    def turn(self, name: str) -> None:
        """Turn to a page; ValueError if none has this name."""
        self._bar.setCurrentIndex(self.names.index(name))

    def _turn(self, page: int) -> None:
        self._stack.setCurrentIndex(page)
        self.turned.emit()
