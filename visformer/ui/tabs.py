"""Tabs: the views, each built when it is first looked at."""

from __future__ import annotations

from PySide6.QtCore import QSignalBlocker, Signal
from PySide6.QtWidgets import QTabWidget, QWidget

from visformer.language import _
from visformer.session.state import Session
from visformer.ui import views
from visformer.ui.views.view import View


class Tabs(QTabWidget):
    """One tab per view; an empty page stands in for a view not looked at yet."""

    turned = Signal(str)  # the name of the view that the user turned to

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.setDocumentMode(True)
        self._session = session
        self._classes = {view.name: view for view in views.VIEWS}
        self._names = tuple(self._classes)
        self._views: dict[str, View] = {}  # those built, by name
        for view in self._classes.values():
            self.addTab(QWidget(), _(view.title))
        self.currentChanged.connect(lambda index: self.turned.emit(self._names[index]))

    def has(self, name: str) -> bool:
        """Tell whether there is a view of this name."""
        return name in self._classes

    def view(self, name: str) -> View:
        """Return a view; it is built when first asked for."""
        if name not in self._views:
            self._views[name] = self._build(name)
        return self._views[name]

    def turn(self, name: str) -> View:
        """Turn to a view."""
        view = self.view(name)
        if self.currentWidget() is not view:
            self.setCurrentWidget(view)
        return view

    def _build(self, name: str) -> View:
        index, view = self._names.index(name), self._classes[name](self._session)
        page, current = self.widget(index), self.currentIndex()
        with QSignalBlocker(self):
            self.removeTab(index)
            self.insertTab(index, view, _(view.title))
            self.setCurrentIndex(current)
        if page is not None:
            page.deleteLater()
        return view
