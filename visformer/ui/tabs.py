"""Tabs: the views, each built when it is first looked at."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QSignalBlocker, Signal
from PySide6.QtWidgets import QTabWidget, QWidget

from visformer.ui.views import VIEWS, View


class Tabs(QTabWidget):
    """One tab a view; an empty page stands in for a view that nobody has seen."""

    turned = Signal(str)  # the name of the view that the user turned to

    def __init__(self, connect: Callable[[View], None]) -> None:
        """``connect`` is called with every view that is built."""
        super().__init__()
        self.setDocumentMode(True)
        self._connect = connect
        self._views: dict[str, View] = {}  # by name
        for _name, title, _make in VIEWS:
            self.addTab(QWidget(), title)
        self.currentChanged.connect(lambda index: self.turned.emit(VIEWS[index][0]))

    def view(self, name: str) -> View:
        """Return a view, built now if nobody has asked for it before."""
        if name not in self._views:
            self._views[name] = self._build(name)
        return self._views[name]

    def turn(self, name: str) -> View:
        """Bring a view in sight."""
        view = self.view(name)
        if self.currentWidget() is not view:
            self.setCurrentWidget(view)
        return view

    def _build(self, name: str) -> View:
        index = next(at for at, entry in enumerate(VIEWS) if entry[0] == name)
        view = VIEWS[index][2]()
        self._connect(view)
        page, current = self.widget(index), self.currentIndex()
        with QSignalBlocker(self):
            self.removeTab(index)
            self.insertTab(index, view, VIEWS[index][1])
            self.setCurrentIndex(current)
        if page is not None:
            page.deleteLater()
        return view
