"""Pages of a tab: a row of titles, and one widget in sight."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QStackedWidget, QTabBar, QVBoxLayout, QWidget


class Pages(QWidget):
    """Widgets by title; ``turned`` comes after another one is in sight."""

    turned = Signal()

    def __init__(self, pages: Mapping[str, QWidget]) -> None:
        super().__init__()
        self._bar, self._stack = QTabBar(), QStackedWidget()
        self._bar.setAccessibleName("pages")
        self._bar.setDrawBase(False)
        self._bar.setExpanding(False)
        for title, page in pages.items():
            self._bar.addTab(title)
            self._stack.addWidget(page)
        self._bar.currentChanged.connect(self._turn)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._bar)
        layout.addWidget(self._stack, 1)

    @property
    def titles(self) -> tuple[str, ...]:
        """The titles, from left to right."""
        return tuple(self._bar.tabText(at) for at in range(self._bar.count()))

    @property
    def current(self) -> QWidget | None:
        """The page in sight."""
        return self._stack.currentWidget()

    def turn(self, title: str) -> None:
        """Turn to a page by its title."""
        self._bar.setCurrentIndex(self.titles.index(title))

    def _turn(self, page: int) -> None:
        self._stack.setCurrentIndex(page)
        self.turned.emit()
