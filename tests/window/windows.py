"""A window on a fake engine, for tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from PySide6.QtCore import QPoint, QPointF, QSettings, Qt
from PySide6.QtGui import QEnterEvent
from PySide6.QtWidgets import QApplication, QLabel, QWidget
from pytestqt.qtbot import QtBot

from tests.opened import opened_model
from tests.traces import make_trace
from visformer.engine.messages import (
    Decode,
    Done,
    Finished,
    Lens,
    Open,
    Parameters,
    Request,
    Shuffle,
)
from visformer.engine.mirror import Decoded
from visformer.pictures.selection import ViewOptions
from visformer.program.ahead import later
from visformer.session.state import Session, State
from visformer.ui.look.theme import apply_theme
from visformer.ui.views.architecture.architecture import ArchitectureView
from visformer.ui.views.view import View
from visformer.ui.window.large import CornerButton
from visformer.ui.window.window import MainWindow
from visformer.values.arrays import Floats, Ids
from visformer.values.facts import StackName
from visformer.values.questions import Overrides, WhenToAsk
from visformer.values.trace import Trace

Kind = TypeVar("Kind", bound=Request)
V = TypeVar("V", bound=View)
W = TypeVar("W", bound=QWidget)


OTHERS = 1000  # the numbers of other requests are above it


class FakeEngine:
    """Remembers what it was asked; numbers decodes from 1, and so openings below 0."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.abandoned = self.stopped = 0

    def open(self, request: Open) -> int:
        self.requests.append(request)
        return -len(self.of(Open))

    def ask(self, request: Request) -> int:
        self.requests.append(request)
        decodes = isinstance(request, Decode)
        return len(self.decodes) if decodes else OTHERS + len(self.requests)

    def abandon(self) -> None:
        self.abandoned += 1

    def stop(self) -> None:
        self.stopped += 1

    def of(self, kind: type[Kind]) -> list[Kind]:
        """Return the requests of a class."""
        return [request for request in self.requests if isinstance(request, kind)]

    @property
    def decodes(self) -> list[Decode]:
        return self.of(Decode)

    @property
    def shuffles(self) -> list[Shuffle]:
        return self.of(Shuffle)

    @property
    def opened(self) -> list[tuple[str, str]]:
        """Path and device of each opening."""
        return [(request.path, request.device) for request in self.of(Open)]

    @property
    def overrides(self) -> list[tuple[Overrides, WhenToAsk]]:
        """What was given with each opening, and whether questions may come."""
        return [(request.overrides, request.ask) for request in self.of(Open)]

    @property
    def asked(self) -> list[tuple[StackName, int]]:
        """The layers whose weights were asked for."""
        return [(request.stack, request.layer) for request in self.of(Parameters)]

    @property
    def lenses(self) -> list[tuple[Floats, Ids, float]]:
        """What lenses were asked for."""
        return [(r.hidden, r.chosen, r.temperature) for r in self.of(Lens)]


Pair = tuple[MainWindow, FakeEngine]
Opened = tuple[MainWindow, FakeEngine, Trace]


def number_of(window: MainWindow, kind: type[Request]) -> int:
    """Return the number of the newest request of a class."""
    sent = window.session.state.awaiting.newest(kind)
    assert sent is not None
    return sent.number


def reply(window: MainWindow, kind: type[Request], value: object) -> None:
    """Answer the newest request of a class."""
    window.receive(Done(number=number_of(window, kind), value=value))


def make_window(qtbot: QtBot, folder: Path) -> Pair:
    """Return a window that is shown, and the engine behind it."""
    engine = FakeEngine()
    settings = QSettings(str(folder / "window.ini"), QSettings.Format.IniFormat)
    window = MainWindow(engine, settings)
    qtbot.addWidget(window)
    window.resize(1280, 800)
    window.show()
    qtbot.waitExposed(window)
    # else what is hidden is dressed, and the window laid out, some turns after this
    app = QApplication.instance()
    assert app is not None
    later(app).add("style", iter(()))
    return window, engine


def dress_hidden() -> None:
    """Do at once what a change of look leaves to later turns of the event loop.

    Else what is hidden and shown before they come is laid out a second time then.
    """
    app = QApplication.instance()
    assert app is not None
    while not later(app).has("style"):
        QApplication.processEvents()


def make_view(qtbot: QtBot, kind: type[V], *size: int) -> V:
    """Return a view that its Session draws, on screen if it is given a size."""
    view: V
    view = kind(Session(lambda state: view.draw(state)))
    qtbot.addWidget(view)
    if size:
        view.resize(*size)
        view.show()
    return view


def show(view: View, state: State) -> None:
    """Put a State on screen, as the window does; what the view is turned to stays."""
    if state.views == ViewOptions():
        state = replace(state, views=view.session.state.views)
    view.session.state = state
    view.draw(state)


def answer(window: MainWindow, engine: FakeEngine, trace: Trace | None = None) -> Trace:
    """Answer the last decode, whole."""
    made = trace if trace is not None else make_trace(source=6, target=5, layers=3)
    made = replace(made, source_text=engine.decodes[-1].source)
    number = len(engine.decodes)
    window.receive(Decoded(number=number, trace=made, limit=20))
    window.receive(Finished(number=number, step_ms=2.5))
    return made


def translate(
    window: MainWindow, engine: FakeEngine, text: str, trace: Trace | None = None
) -> Trace:
    """Translate a text, and answer it whole."""
    window.translate(text)
    return answer(window, engine, trace)


def decoded(pair: Pair) -> MainWindow:
    """Return the window at step 3 of a sentence that is decoded."""
    window, engine = pair
    trace = make_trace(source=6, target=5, layers=3, heads=4)
    window.receive(opened_model(trace.model))
    window.translate("a b c d e f")
    answer(window, engine, trace)
    window.session.set(step=3)
    window.tabs.setFocus()
    return window


def named(view: QWidget, kind: type[W], name: str) -> W:
    """Return the part that a screen reader calls so."""
    return next(w for w in view.findChildren(kind) if w.accessibleName() == name)


def words(view: QWidget, name: str) -> str:
    """Return what the label that a screen reader calls so says."""
    return named(view, QLabel, name).text()


def places(window: MainWindow) -> dict[QWidget, tuple[int, ...]]:
    """Return where every picture stands in its view, and how large it is."""
    QApplication.processEvents()
    view = window.tabs.shown
    assert view is not None
    return {
        picture: (*picture.mapTo(view, QPoint()).toTuple(), *picture.size().toTuple())
        for picture in window.large.pictures()
    }


@contextmanager
def themed(name: str) -> Iterator[None]:
    """Dress the application in a theme, then in the light one again."""
    app = QApplication.instance()
    assert isinstance(app, QApplication)
    apply_theme(app, name)
    yield
    apply_theme(app, "light")


def middle_of_block(view: ArchitectureView, id: str) -> QPoint:
    """Return where a block of the diagram is pressed."""
    drawing = view.diagram.drawing
    assert drawing is not None
    box = drawing.box(id)
    assert box is not None, id
    wide, high = view.diagram._units()
    return QPoint(round(box.centre[0] * wide), round(box.centre[1] * high))


def corner_button(picture: QWidget) -> CornerButton | None:
    """Move the mouse into a picture and return the button that appears, if any."""
    inside = QPointF(5, 5)
    QApplication.sendEvent(picture, QEnterEvent(inside, inside, inside))
    buttons = picture.findChildren(
        CornerButton, options=Qt.FindChildOption.FindDirectChildrenOnly
    )
    return next((button for button in buttons if button.isVisible()), None)
