"""Tabs: the views, each built when it is first looked at."""

import gc
import math
from collections.abc import Iterator

from PySide6.QtCore import QEvent, QObject, QSignalBlocker, Qt, Signal
from PySide6.QtGui import QFontMetrics, QPalette, QResizeEvent
from PySide6.QtWidgets import (
    QGridLayout,
    QSizePolicy,
    QSplitter,
    QStackedWidget,
    QTabBar,
    QVBoxLayout,
    QWidget,
)

from visformer.language import _
from visformer.pictures.words.explanations import START
from visformer.program.ahead import later
from visformer.session.state import Session, State
from visformer.ui import views
from visformer.ui.changed import Changed
from visformer.ui.layout import LeastSize, Still, StillSplitter, fill, paint_later
from visformer.ui.look import theme
from visformer.ui.look.theme import Dressed
from visformer.ui.views.view import View
from visformer.ui.widgets.controls import prepared
from visformer.ui.widgets.plain_label import RoleLabel

FIRST = "sizes at first"  # a splitter's property
LONGEST, LETTER = 150, 0.4  # letters of a sentence; a letter's width in line heights


class Tabs(Dressed, QWidget):
    """A row of titles with a sentence on what is seen; below it one view, scrolled.

    A view scrolls as a whole where there is less room than it needs at least. What
    stands beside it, whatever tab is open, is in ``middle``.
    """

    turned = Signal(str)  # the name of the view that the user turned to
    explained_now = Signal(object)  # what is seen: a RoleText or str; "" for none

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._classes = {view.name: view for view in views.VIEWS}
        self._names = tuple(self._classes)
        self._views: dict[str, View] = {}  # those built, by name
        self._changed = Changed()
        self._ahead = later(self)
        self._ahead.done.connect(lambda: session.set())
        self.bar = prepared(QTabBar(self), _("tabs"))
        self.bar.setUsesScrollButtons(True)
        self.setFocusProxy(self.bar)
        self.middle = StillSplitter(Qt.Orientation.Horizontal, self)
        self._stack = QStackedWidget(self.middle)
        self.middle.setChildrenCollapsible(False)
        self.middle.setStretchFactor(0, 1)
        for view in self._classes.values():
            self.bar.setTabToolTip(self.bar.addTab(_(view.title)), _(view.purpose))
            self._stack.addWidget(LeastSize())
        self.explanation = RoleLabel(_("what is seen here"))
        self.explanation.setForegroundRole(QPalette.ColorRole.PlaceholderText)
        self.explanation.setAlignment(Qt.AlignmentFlag.AlignVCenter)
        self._said = Still(self.explanation)
        self._said.setSizePolicy(
            QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred
        )
        self.explained = True  # whether the sentence is wanted
        self.bar.currentChanged.connect(lambda at: self.turned.emit(self._names[at]))
        self._lay_out()

    def _lay_out(self) -> None:
        self._head = QGridLayout()
        self._head.setHorizontalSpacing(theme.gap(self, 2))
        self._head.setVerticalSpacing(0)
        self._head.setColumnStretch(1, 1)
        self._head.addWidget(self.bar, 0, 0)
        self._corner: QWidget | None = None
        fill(QVBoxLayout(self), self._head, (self.middle, 1), spacing=0)
        self.dress()

    def add_corner(self, corner: QWidget) -> None:
        """Put a widget at the end of the row of titles; it may come and go."""
        self._corner = corner
        self._head.addWidget(corner, 0, 2)
        corner.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() in (QEvent.Type.ShowToParent, QEvent.Type.HideToParent):
            self._place_explanation()
        return False

    def _place_explanation(self) -> None:
        """Reserve lines for a long sentence where that takes the least height.

        That is beside the titles, or below them.
        """
        titles = self.bar.sizeHint()
        taken = titles.width() + theme.gap(self, 2)
        if self._corner is not None and not self._corner.isHidden():
            taken += self._corner.sizeHint().width() + theme.gap(self, 2)
        beside = max(1, self.width() - taken)
        small = QFontMetrics(theme.sized(self.font(), theme.CAPTION))
        longer = len(_(START)) / len(START)  # in this language than in English
        wanted = longer * LONGEST * LETTER * small.height()
        lines = [math.ceil(wanted / room) for room in (beside, max(1, self.width()))]
        least = self.fontMetrics().height()
        high = [max(least, count * (small.lineSpacing() + 2)) for count in lines]
        in_row = high[0] - titles.height() <= high[1]
        self._said.setFixedHeight(high[0 if in_row else 1])
        at = (0, 1, 1, 1) if in_row else (1, 0, 1, 3)
        self._head.addWidget(self._said, *at)
        self._room = beside if in_row else self.width()
        self._size_explanation()

    def _size_explanation(self) -> None:
        wide = self.fontMetrics().horizontalAdvance(self.explanation.text())
        fits = wide < self._room
        font = self.font() if fits else theme.sized(self.font(), theme.CAPTION)
        if font != self.explanation.font():
            self.explanation.setFont(font)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self._place_explanation()

    def _dress(self) -> None:
        self._place_explanation()

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

    def load_ahead(self) -> None:
        """Import and build the views, a piece now and then."""
        for name in self._names:
            self._ahead.add(name, self._pieces(name))

    def ready(self, name: str) -> bool:
        """Tell whether a view can be looked at at once.

        One that is not is built in the next turns of the event loop, then all is drawn.
        """
        return name in self._views or self._ahead.has(name)

    def _pieces(self, name: str) -> Iterator[object]:
        yield from self._classes[name].imports()
        view = self.view(name)
        yield view
        yield from view.parts()
        gc.freeze()  # all this stays: a collection that looks through it takes long

    @property
    def name(self) -> str:
        """The name of the view on screen."""
        return self._names[self._stack.currentIndex()]

    @property
    def shown(self) -> View | None:
        """The view that is on screen, once one was."""
        return self._views.get(self.name)

    def draw(self, state: State) -> None:
        """Turn to the State's view and draw it."""
        view = self.view(state.tab)
        index = self._names.index(state.tab)
        if self._changed("all that is seen", state.tab, state.model, state.opened):
            paint_later(self._stack)
        if self._stack.currentIndex() != index or self.bar.currentIndex() != index:
            with QSignalBlocker(self.bar):
                self.bar.setCurrentIndex(index)
            self._stack.setCurrentIndex(index)
        view.draw(state)
        self._page(state.tab).fit()

    def say(self, state: State) -> None:
        """Say what is seen in the view that is drawn."""
        view = self.view(state.tab)
        view.say()
        sentence = view.explanation(state) if self.explained else ""
        if sentence != self.explanation.text():
            self.explanation.setText(sentence)
            self._size_explanation()
        self.explained_now.emit((view.found() or sentence) if self.explained else "")

    def reset_sizes(self) -> None:
        """Give the parts of every view the sizes that they had at first."""
        for splitter in self.findChildren(QSplitter):
            first = splitter.property(FIRST)
            if first is not None:
                splitter.restoreState(first)

    def explain(self, explained: bool) -> None:
        """Show or hide the sentence on what is seen."""
        self.explained = explained
        self._said.setVisible(explained)
        self._session.set()

    def _page(self, name: str) -> LeastSize:
        page = self._stack.widget(self._names.index(name))
        assert isinstance(page, LeastSize)
        return page
