"""One who never rests: translates, steps, looks around, switches, opens; seeded."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from PySide6.QtCore import QElapsedTimer, QEventLoop
from PySide6.QtWidgets import QApplication

from tests.soak.held import Held, held
from visformer import paths
from visformer.app import App
from visformer.engine.handle import Engine
from visformer.pictures.computation.stages import stage_names
from visformer.session import runs
from visformer.ui.look import theme
from visformer.ui.views import VIEWS
from visformer.ui.views.view import Pages
from visformer.values.intervention import NO_CHANGES, parse
from visformer.values.step import GREEDY

PATIENCE_MS = 120_000
LIMIT = 10  # tokens of a translation
STEPS_OF_A_LOOK = 25  # in one tab, at one head
ENGLISH: Sequence[str] = (
    *("I", "you", "we", "they", "have", "see", "want", "like", "find", "eat", "read"),
    *("a", "the", "my", "your", "this", "two", "cat", "dog", "house", "tree", "book"),
    *("garden", "friend", "car", "water", "letter", "city", "story", "old", "new"),
    *("big", "small", "in", "with", "near", "today", "again", "not", "never", "."),
)
CHINESE = "我你他们有一只猫狗书人学生老师看见喜欢吃水在家里今天不大小的了吗"
CHANGES = (NO_CHANGES, parse(["causal off"]), parse(["hide 1"]))
ZOOMS = (10, 40, -30, 0)  # percent more; 0: as at first
SIZES = ((1280, 800), (1600, 900), (1920, 1080))


class Model(NamedTuple):
    """A checkpoint, and what it can be told."""

    path: str
    words: Sequence[str]
    between: str = " "
    fewest: int = 4  # words of a sentence
    most: int = 7

    @property
    def first(self) -> str:
        """The sentence that is shown while something is measured."""
        return self.between.join(self.words[: self.fewest])


LETTERS = "abcdefghijklmnopqrstuvwxyz"
BUNDLED = (  # by the names of their folders
    Model("tatoeba-en-fr", ENGLISH),
    Model("tatoeba-zh-en", CHINESE, between=""),
    Model("reverse", LETTERS, between=""),
    Model("blackboard", "abcd", between="", fewest=3, most=3),
)


def bundled() -> list[Model]:
    """Return the bundled models, the one that is used most first."""
    folders = {path.name: str(path) for path in paths.bundled_checkpoints()}
    return [model._replace(path=folders[model.path]) for model in BUNDLED]


class Plan(NamedTuple):
    """How much is done."""

    steps: int
    sentences: int
    switches: int

    def rounds(self, count: int) -> Iterator[Plan]:
        """Yield ``count`` equal parts of it, what is left over in the last ones."""
        for at in range(count):
            now, then = at / count, (at + 1) / count
            yield Plan(*(int(n * then) - int(n * now) for n in self))


class User:
    """One who never rests."""

    def __init__(self, app: App, models: Sequence[Model], seed: int) -> None:
        """The first model is the one that is open while something is measured."""
        self._app, self._window = app, app.window
        self.models, self._model = models, models[0]
        self.turned: Callable[[], None] = _nothing  # called at each turn of the loop
        self._random = random.Random(seed)
        self._switched = 0

    def start(self) -> None:
        """Open the first model, and translate a sentence."""
        self._window.open(self._model.path, given=())
        self.wait(lambda: self._window.session.state.opened is not None)
        self._window.session.do(runs.choose_tokens, GREEDY, LIMIT)
        self.translate()

    def work(self, plan: Plan) -> None:
        """Translate, step and switch in turns; end where it began."""
        turns = max(plan)
        acts = (plan.sentences, self.translate), (plan.steps, self.step)
        for at in range(turns):
            for count, act in (*acts, (plan.switches, self.switch)):
                if (at + 1) * count // turns > at * count // turns:
                    act()
        self.settle(fresh=plan.switches > 0)

    def settle(self, *, fresh: bool = False) -> None:
        """Show what is shown while something is measured: nothing else is in sight.

        ``fresh``: in the first model, opened anew.
        """
        if fresh:
            self.open(self.models[0])
        self._window.resize(*SIZES[0])
        self._window.appearance.zoom_by(0)
        self._window.appearance.set_theme("light")
        self.translate(self._model.first)
        # other stages show the weights of a layer, of some megabytes
        self._window.session.set(stage="softmax", kind="cross", layer=0, head=0)
        self._show_all()
        engine = self._app.engine
        assert isinstance(engine, Engine)
        self.wait(lambda: engine._pool.spare is not None)

    def translate(self, sentence: str = "") -> None:
        """Translate a sentence to its end; now and then a changed run of it."""
        draw, model = self._random, self._model
        drawn = model.between.join(
            draw.choices(model.words, k=draw.randint(model.fewest, model.most))
        )
        self._window.translate(sentence or drawn)
        self.wait(self._is_done)
        if not sentence and draw.random() < 0.1:
            self._window.session.set(step=1)
            trace = self._window.session.state.trace
            assert trace is not None
            ids, _probabilities = trace.steps[1].candidates.numbers
            self._window.session.do(runs.force, int(draw.choice(ids)))
            self.wait(self._is_done)
            self._window.change_run(draw.choice(CHANGES))
            self.wait(self._is_done)

    def step(self) -> None:
        """Take a step, forwards until the end and then from the start again."""
        state = self._window.session.state
        length = len(state.trace or ())
        step = state.step + 1 if state.step < length else 0
        self._window.session.set(step=step)
        if self._random.random() < 1 / STEPS_OF_A_LOOK:
            self.look()
        self.wait(self._has_all)

    def look(self) -> None:
        """Turn to another tab, page, kind, layer and head, and lock a cell."""
        state, draw = self._window.session.state, self._random
        if state.trace is None:
            return
        kind = draw.choice(state.trace.kinds)
        tab = draw.choice(VIEWS).name
        self._window.session.set(
            tab=tab,
            kind=kind,
            layer=draw.randrange(state.trace.layers(kind)),
            head=draw.randrange(state.trace.heads(kind)),
            stage=draw.choice(stage_names()),
        )
        for pages in self._window.tabs.view(tab).findChildren(Pages):
            pages.turn(draw.choice(pages.names))

    def _show_all(self) -> None:
        """Turn to every page of every tab: none holds an older run."""
        for view in VIEWS:
            self._window.session.set(tab=view.name)
            for pages in self._window.tabs.view(view.name).findChildren(Pages):
                for name in pages.names:
                    pages.turn(name)
                    self.wait(self._has_all)
        self._window.session.set(tab="attention")
        self.wait(self._has_all)

    def _has_all(self) -> bool:
        return not self._window.session.state.awaiting.side_requests

    def switch(self) -> None:
        """Switch the model, the theme and the sizes."""
        self._switched += 1
        at = self._switched
        self.open(self.models[at % len(self.models)])
        self._window.appearance.set_theme(list(theme.THEMES)[at % len(theme.THEMES)])
        self._window.appearance.zoom_by(ZOOMS[at % len(ZOOMS)])
        self._window.resize(*SIZES[at % len(SIZES)])
        self.translate(self._model.first)

    def open(self, model: Model) -> None:
        """Open a model, anew if it is open."""
        before = self._window.session.state.opened
        self._window.open(model.path, given=())
        self.wait(lambda: self._window.session.state.opened is not before)
        self._model = model
        self.wait(self._is_done)

    def show(self, trace: Path) -> None:
        """Open a recorded Trace."""
        before = self._window.session.state.trace
        self._window.open(str(trace))
        self.wait(lambda: self._window.session.state.trace is not before)
        self.wait(self._is_done)

    def _is_done(self) -> bool:
        state = self._window.session.state
        assert not state.error, state.error
        return not state.busy and state.trace is not None

    def wait(self, done: Callable[[], bool]) -> None:
        """Let the window's loop run until all is painted and ``done()``."""
        clock = QElapsedTimer()
        clock.start()
        QApplication.processEvents()
        self.turned()
        while not done():
            assert not clock.hasExpired(PATIENCE_MS), "it is not done"
            QApplication.processEvents(QEventLoop.ProcessEventsFlag.WaitForMoreEvents)
            self.turned()

    def rest(self, milliseconds: int) -> None:
        """Do nothing for a while: the loop runs."""
        clock = QElapsedTimer()
        clock.start()
        self.wait(lambda: clock.hasExpired(milliseconds))


def _nothing() -> None:
    """Do nothing."""


def soak(
    app: App, user: User, plan: Plan, rounds: int, *, rest: int = 0
) -> Iterator[Held]:
    """Yield what is held at first, and after each round and so many ms of rest."""
    user.start()
    user.settle()
    yield held(app)
    for part in plan.rounds(rounds):
        user.work(part)
        user.rest(rest)
        yield held(app)
