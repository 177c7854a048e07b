"""Tabs: the views, each built when it is first looked at."""

from __future__ import annotations

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import (
    QHBoxLayout,
    QSizePolicy,
    QSplitter,
    QStackedWidget,
    QTabBar,
    QVBoxLayout,
    QWidget,
)

from visformer.language import _
from visformer.session.state import Session, State
from visformer.ui import theme, views
from visformer.ui.views.view import View
from visformer.ui.widgets.least_size import LeastSize
from visformer.ui.widgets.plain_label import plain_label

FIRST = "sizes at first"  # a splitter's property


class Tabs(QWidget):
    """A row of titles with a sentence on what is seen; below it one view, scrolled.

    A view scrolls as a whole where there is less room than it needs at least. What
    stands beside it, whatever tab is open, is added to ``middle``.
    """

    turned = Signal(str)  # the name of the view that the user turned to
    explained_now = Signal(str)  # what is seen, in a sentence; "" for none

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._classes = {view.name: view for view in views.VIEWS}
        self._names = tuple(self._classes)
        self._views: dict[str, View] = {}  # those built, by name
        self.bar = QTabBar()
        self.bar.setAccessibleName(_("tabs"))
        self.bar.setDrawBase(False)
        self.bar.setExpanding(False)
        self.bar.setUsesScrollButtons(True)
        self.setFocusProxy(self.bar)
        self._stack = QStackedWidget()
        for view in self._classes.values():
            self.bar.addTab(_(view.title))
            self._stack.addWidget(LeastSize())
        self.explanation = plain_label("", faint=True)
        self.explanation.setAccessibleName(_("what is seen here"))
        self.explanation.setMinimumWidth(1)
        self.explanation.setSizePolicy(
            QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred
        )
        self.explained = True  # whether the sentence is wanted
        self.middle = QSplitter(Qt.Orientation.Horizontal)
        self.middle.setChildrenCollapsible(False)
        self.middle.addWidget(self._stack)
        self.middle.setStretchFactor(0, 1)
        self.bar.currentChanged.connect(lambda at: self.turned.emit(self._names[at]))
        self._lay_out()

    def _lay_out(self) -> None:
        row = QHBoxLayout()
        row.setSpacing(theme.gap(self, 2))
        row.addWidget(self.bar)
        row.addWidget(self.explanation, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(row)
        column.addWidget(self.middle, 1)

    def has(self, name: str) -> bool:
        """Tell whether there is a view of this name."""
        return name in self._classes

    def view(self, name: str) -> View:
        """Return a view; it is built when first asked for."""
        if name not in self._views:
            view = self._views[name] = self._classes[name](self._session)
            for splitter in view.findChildren(QSplitter):
                splitter.setProperty(FIRST, splitter.saveState())
            self._page(name).setWidget(view)
        return self._views[name]

    @property
    def name(self) -> str:
        """The name of the view on screen."""
        return self._names[self._stack.currentIndex()]

    @property
    def shown(self) -> View | None:
        """The view that is on screen, once one was."""
        return self._views.get(self.name)

    def draw(self, state: State) -> None:
        """Turn to the State's view and draw it; say what is seen there."""
        view = self.view(state.tab)
        index = self._names.index(state.tab)
        if self._stack.currentIndex() != index or self.bar.currentIndex() != index:
            with QSignalBlocker(self.bar):
                self.bar.setCurrentIndex(index)
            self._stack.setCurrentIndex(index)
        view.draw(state)
        self._page(state.tab).fit()
        sentence = view.explanation(state) if self.explained else ""
        self.explanation.setText(sentence)
        self.explained_now.emit(sentence)

    def reset_sizes(self) -> None:
        """Give the parts of every view the sizes that they had at first."""
        for splitter in self.findChildren(QSplitter):
            first = splitter.property(FIRST)
            if first is not None:
                splitter.restoreState(first)

    def explain(self, explained: bool) -> None:
        """Show or hide the sentence on what is seen."""
        self.explained = explained
        self.explanation.setVisible(explained)
        self._session.set()

    def _page(self, name: str) -> LeastSize:
        page = self._stack.widget(self._names.index(name))
        assert isinstance(page, LeastSize)
        return page
