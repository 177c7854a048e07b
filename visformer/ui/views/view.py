"""View: what every tab, and every page of a tab, has in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import ClassVar, NamedTuple, TypeVar

from PySide6.QtCore import QSignalBlocker, Signal
from PySide6.QtWidgets import QHBoxLayout, QTabBar, QVBoxLayout, QWidget

from visformer.language import _
from visformer.pictures.words.explanations import explanation
from visformer.session.both import beside, beside_words
from visformer.session.state import Session, State
from visformer.ui.changed import Changed
from visformer.ui.layout import LeastColumn, fill, paint_later
from visformer.ui.look.theme import LateDress
from visformer.ui.widgets.both_runs import RunSwitch, Without
from visformer.ui.widgets.controls import prepared
from visformer.values.trace import Trace

V = TypeVar("V", bound="View")


class View(LateDress):
    """Paints the State; what the user does in it goes to the Session."""

    name: ClassVar[str]  # in the State and on the command line
    title: ClassVar[str]  # on screen, marked for the catalogue
    purpose: ClassVar[str] = ""  # what it shows, in a sentence: its tab's tip
    pages: ClassVar[tuple[type[View], ...]] = ()
    fills: ClassVar[bool] = False  # presented without the next tokens beside it
    plots: ClassVar[bool] = False  # with pyqtgraph, whose import takes long
    compares: ClassVar[bool] = False  # shows both runs, where that is wanted

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self._state = State()  # as it was drawn last
        self._changed = Changed()
        self._for_all = False  # an audience sees it
        self._other: Trace | None = None
        self.main: QWidget | None = None  # what is presented, where it is one picture

    @classmethod
    def imports(cls) -> Iterator[object]:
        """Import what takes long, in pieces, before it is built."""
        if cls.plots:
            from visformer.ui.views.positions.curves import plotting_in_pieces

            yield from plotting_in_pieces()
        for page in cls.pages:
            yield from page.imports()

    def parts(self) -> Iterator[object]:
        """Build what is not visible at first, in pieces."""
        yield from ()

    def draw(self, state: State) -> None:
        """Show all of a State; nothing is set or requested here."""
        raise NotImplementedError

    def say(self) -> None:
        """Write what there is to see in the pictures just drawn, beside them."""

    def explanation(self, state: State, *tab: str) -> str:
        """Say in one plain sentence what is seen and what to look for; "" for none.

        ``tab``: the name of the one that this is a page of.
        """
        said = beside_words(state) if self.compares else ""
        return said or explanation((*tab, self.name), state.scene)

    def _other_run(self, state: State) -> Trace | None:
        """Return the run to be shown beside that on screen, up to its step."""
        run = None if state.visible is None else beside(state)
        steps = 0 if state.visible is None else len(state.visible)
        if self._changed("beside", run, steps):
            whole = None if run is None else run.trace
            self._other = None if whole is None else whole.until(steps)
        return self._other

    def found(self) -> str:
        """Say what an experiment has shown, below a large picture too; "" for none."""
        return ""

    def main_picture(self) -> QWidget | None:
        """Return the picture that is presented; None: the largest one."""
        return self.main

    def present(self, *, on: bool) -> None:
        """Show an audience what it can see, or everything again."""
        self._for_all = on

    @property
    def tool(self) -> QWidget | None:
        """What stands beside the titles while this is the visible page."""
        return None

    @property
    def drawing(self) -> bool:
        """Whether something slow is still being drawn, in slices."""
        return False


class PagedView(View):
    """A view whose ``pages`` are views themselves, one of them visible."""

    def __init__(self, session: Session, without: Without | None = None) -> None:
        """``without``: what the sentence can be run without, with a click anywhere."""
        super().__init__(session)
        self._switch = without and RunSwitch(session, without, self.name)
        self._views: dict[str, View] = {}
        self._pages = Pages(
            *(Page(p.name, _(p.title), partial(self._build, p)) for p in self.pages),
            corner=self._switch,
        )
        self._pages.turned.connect(self._turned)
        QVBoxLayout(self).addWidget(self._pages)

    def _build(self, page: type[View]) -> tuple[QWidget, QWidget | None]:
        view = self._views[page.name] = page(self.session)
        if self._for_all:
            view.present(on=True)
        return view, view.tool

    def present(self, *, on: bool) -> None:
        """Show an audience every page so."""
        super().present(on=on)
        for view in self._views.values():
            view.present(on=on)

    @property
    def _visible(self) -> View:
        self._pages.build(self._pages.current)
        return self._views[self._pages.current]

    def parts(self) -> Iterator[object]:
        """Build the pages."""
        for page in self.pages:
            self._pages.build(page.name)
            yield page

    def _turned(self) -> None:
        """Keep the page that the user has turned to."""
        state, page = self.session.state, self._pages.current
        if self._page(state) != page:
            self.session.go(state.turned(self.name, page))

    def _page(self, state: State) -> str:
        page = state.views.pages.get(self.name)
        return page if page in self._pages.names else self._pages.names[0]

    def draw(self, state: State) -> None:
        """Draw the page that the State names; the others are drawn when turned to."""
        self._state = state
        with QSignalBlocker(self._pages):
            self._pages.turn(self._page(state))
        if self._switch is not None and self._changed("switch", *_looked(self._state)):
            self._switch.draw(self._state)
        self._visible.draw(self._state)

    def say(self) -> None:
        """Write beside the pictures of the visible page."""
        self._visible.say()

    def explanation(self, state: State, *tab: str) -> str:
        """Return what the visible page says."""
        return self._visible.explanation(state, *tab, self.name)

    def found(self) -> str:
        """Return what the visible page has found."""
        return self._visible.found()

    def main_picture(self) -> QWidget | None:
        """Return the visible page's."""
        return self._visible.main_picture()

    def turn(self, name: str) -> None:
        """Turn to a page; ValueError if none has this name."""
        self._pages.turn(name)

    def page(self, kind: type[V]) -> V:
        """Return the page of a class; ValueError if there is none of its name."""
        self._pages.build(kind.name)
        page = self._views[kind.name]
        assert isinstance(page, kind)
        return page


def _looked(state: State) -> tuple[object, ...]:
    """Return what decides on what the sentence can be run without."""
    return state.intervention, state.trace, state.model, state.opened


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
        self._bar = prepared(QTabBar(), _("pages"), [page.title for page in pages])
        self._pages = pages
        self._built: dict[str, list[QWidget]] = {}  # the widget, and its tool
        self._bar.currentChanged.connect(self._turn)
        titles = ((self._bar, 1),) if corner is None else ((self._bar, 1), corner)
        self._titles = fill(QHBoxLayout(), *titles)
        self._column = fill(LeastColumn(self), self._titles)

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
