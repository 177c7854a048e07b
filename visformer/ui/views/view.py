"""View: what every tab, and every page of a tab, has in common."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import ClassVar, TypeVar

from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QVBoxLayout, QWidget

from visformer.language import _
from visformer.pictures.explanations import explanation
from visformer.session.state import Session, State
from visformer.ui.changed import Changed
from visformer.ui.late_dress import LateDress
from visformer.ui.views.run_switch import RunSwitch, Without
from visformer.ui.widgets.pages import Page, Pages

V = TypeVar("V", bound="View")


class View(LateDress):
    """Paints the State; what the user does in it goes to the Session."""

    name: ClassVar[str]  # in the State and on the command line
    title: ClassVar[str]  # on screen, marked for the catalogue
    purpose: ClassVar[str] = ""  # what it shows, in a sentence: its tab's tip
    pages: ClassVar[tuple[type[View], ...]] = ()
    fills: ClassVar[bool] = False  # presented without the next tokens beside it

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self._state = State()  # as it was drawn last
        self._changed = Changed()
        self._for_all = False  # an audience sees it

    @classmethod
    def imports(cls) -> Iterator[object]:
        """Import what takes long, in pieces, before it is built."""
        yield from ()

    def parts(self) -> Iterator[object]:
        """Build what is not visible at first, in pieces."""
        yield from ()

    def draw(self, state: State) -> None:
        """Show all of a State; nothing is set or requested here."""
        raise NotImplementedError

    def say(self) -> None:
        """Write what there is to see in the pictures just drawn, beside them."""

    def explanation(self, state: State) -> str:
        """Say in one plain sentence what is seen and what to look for; "" for none."""
        return explanation((self.name,), state.scene)

    def found(self) -> str:
        """Say what an experiment has shown, below a large picture too; "" for none."""
        return ""

    def main_picture(self) -> QWidget | None:
        """Return the picture that is presented; None: the largest one."""
        return None

    def present(self, *, on: bool) -> None:
        """Show an audience what it can see, or everything again."""
        self._for_all = on

    @property
    def tool(self) -> QWidget | None:
        """What stands beside the titles while this is the visible page."""
        return None

    def spot(self) -> QPoint | None:
        """Return where the row that is looked at is, on the screen; None: nowhere."""
        return None

    @property
    def drawing(self) -> bool:
        """Whether something slow is still being drawn, in slices."""
        return False

    def fail(self, sentence: str) -> None:
        self.session.set(error=sentence)


class PagedView(View):
    """A view whose ``pages`` are views themselves, one of them visible."""

    def __init__(self, session: Session, without: Without | None = None) -> None:
        """``without``: what the sentence can be run without, with a click anywhere."""
        super().__init__(session)
        self._switch = None if without is None else RunSwitch(session, without)
        self._views: dict[str, View] = {}
        self._pages = Pages(
            *(Page(p.name, _(p.title), partial(self._build, p)) for p in self.pages),
            corner=self._switch,
        )
        if self._switch is not None:
            self._switch.led.connect(lambda: self.turn("lab"))
        self._pages.turned.connect(lambda: session.set())  # also what stands around it
        layout = QVBoxLayout(self)
        layout.addWidget(self._pages)

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

    def draw(self, state: State) -> None:
        """Draw the visible page; the others are drawn when turned to."""
        self._state = state
        self._draw_page()

    def _draw_page(self) -> None:
        if self._switch is not None and self._changed("switch", *_looked(self._state)):
            self._switch.draw(self._state)
        self._visible.draw(self._state)

    def say(self) -> None:
        """Write beside the pictures of the visible page."""
        self._visible.say()

    def explanation(self, state: State) -> str:
        """Say what is seen on the visible page."""
        return explanation((self.name, self._pages.current), state.scene)

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
