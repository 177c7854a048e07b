"""Hours of use in minutes: ``python -m tests.soak`` says what has grown since.

A real window with its engine, offscreen: sentences are translated, steps are taken in
every tab, and the model, the theme, the size of text and window are switched. What the
processes hold is measured after a warm-up, and then ten times: with the same sentence
shown in every tab.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QElapsedTimer, QEvent, QEventLoop, QSettings, QTimer
from PySide6.QtWidgets import QApplication

from visformer import paths
from visformer.app import App, log_qt
from visformer.bench.time_opening import status
from visformer.pictures.computation.stages import stage_names
from visformer.session import forcing, runs
from visformer.session.state import State
from visformer.ui import theme
from visformer.ui.views import VIEWS
from visformer.ui.widgets.pages import Pages
from visformer.values.change_text import parse
from visformer.values.intervention import NO_CHANGES
from visformer.values.strategy import GREEDY

PATIENCE_MS = 120_000
ROUNDS = 10
LIMIT = 20  # tokens of a translation
GROWTH = 0.05  # of memory, at most
STEPS_OF_A_LOOK = 25  # in one tab, at one head
WORDS: Sequence[str] = (
    *("I", "you", "we", "they", "have", "see", "want", "like", "find", "eat", "read"),
    *("a", "the", "my", "your", "this", "two", "cat", "dog", "house", "tree", "book"),
    *("garden", "friend", "car", "water", "letter", "city", "story", "old", "new"),
    *("big", "small", "in", "with", "near", "today", "again", "not", "never", "."),
)
CHANGES = (NO_CHANGES, parse(["causal off"]), parse(["hide 1"]))


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


class Held(NamedTuple):
    """What the processes hold; memory in bytes."""

    window: int
    engine: int
    widgets: int
    objects: int  # of Python, in the window
    states: int  # of the session: those that views have drawn last
    threads: int
    files: int  # open ones

    def words(self) -> str:
        return (
            f"window {self.window / 1e6:.1f} MB, engine {self.engine / 1e6:.1f} MB, "
            f"{self.widgets:,} widgets, {self.objects:,} objects, {self.states} "
            f"states, {self.threads} threads, {self.files} open files"
        )


class User:
    """One who never rests; draws are seeded."""

    def __init__(
        self, app: App, models: Sequence[str], seed: int, words: Sequence[str] = WORDS
    ) -> None:
        """``models`` are paths of checkpoints; the first is the one that is used."""
        self._app, self._window, self._models = app, app.window, models
        self._words, self._first = words, " ".join(words[:4])
        self._random = random.Random(seed)
        self._switched = 0

    def start(self) -> None:
        """Open the first model, and translate a sentence."""
        self._window.open(self._models[0], given=())
        self._wait(lambda: self._window.session.state.opened is not None)
        self._window.session.do(runs.choose_tokens, GREEDY, LIMIT)
        self.translate()

    def work(self, plan: Plan) -> None:
        """Step and translate in turns, then switch; end where it began."""
        turns = max(plan.steps, plan.sentences)
        for at in range(turns):
            for count, act in (
                (plan.sentences, self.translate),
                (plan.steps, self.step),
            ):
                if (at + 1) * count // turns > at * count // turns:
                    act()
        for _switch in range(plan.switches):
            self.switch()
        if _opened(self._app) != self._models[0]:
            self._switch_model(self._models[0])
        self._window.resize(1280, 800)
        self._window.appearance.zoom_by(0)
        self._window.appearance.set_theme("light")
        self.translate(self._first)
        self._show_all()

    def translate(self, sentence: str = "") -> None:
        """Translate a sentence to its end; now and then a changed run of it."""
        drawn = " ".join(
            self._random.choices(self._words, k=self._random.randint(4, 12))
        )
        self._window.translate(sentence or drawn)
        self._wait(self._is_done)
        if not sentence and self._random.random() < 0.1:
            self._window.session.set(step=1)
            self._window.session.do(forcing.force, self._random.randint(4, 20))
            self._wait(self._is_done)
            self._window.change_run(self._random.choice(CHANGES))
            self._wait(self._is_done)

    def step(self) -> None:
        """Take a step, forwards until the end and then from the start again."""
        state = self._window.session.state
        length = len(state.trace or ())
        step = state.step + 1 if state.step < length else 0
        self._window.session.set(step=step)
        if self._random.random() < 1 / STEPS_OF_A_LOOK:
            self._look()
        self._wait(self._has_all)

    def _look(self) -> None:
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
                    self._wait(self._has_all)
        self._window.session.set(tab="attention")
        self._wait(self._has_all)

    def _has_all(self) -> bool:
        return not self._window.session.state.awaiting.side_requests

    def switch(self) -> None:
        """Switch the model, the theme and the sizes."""
        self._switched += 1
        at = self._switched
        self._switch_model(self._models[at % len(self._models)])
        self._window.appearance.set_theme(list(theme.THEMES)[at % len(theme.THEMES)])
        self._window.appearance.zoom_by((10, 40, -30, 0)[at % 4])
        self._window.resize(*((1280, 800), (1600, 900), (1920, 1080))[at % 3])

    def _switch_model(self, path: str) -> None:
        self._window.open(path, given=())
        self._wait(lambda: _opened(self._app) == path and self._is_done())

    def _is_done(self) -> bool:
        state = self._window.session.state
        assert not state.error, state.error
        return not state.busy and state.trace is not None

    def _wait(self, done: Callable[[], bool]) -> None:
        """Let the window's loop run until all is painted and ``done()``."""
        clock = QElapsedTimer()
        clock.start()
        QApplication.processEvents()
        while not done():
            assert not clock.hasExpired(PATIENCE_MS), "it is not done"
            QApplication.processEvents(QEventLoop.ProcessEventsFlag.WaitForMoreEvents)

    def held(self) -> Held:
        """Measure, when nothing is left to be deleted or collected."""
        self._wait(lambda: self._app.engine._pool.spare is not None)
        QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
        gc.collect()
        engine = self._app.engine._current.process.pid
        files, objects = Path("/proc/self/fd"), gc.get_objects()
        return Held(
            window=status("VmRSS"),
            engine=status("VmRSS", f"/proc/{engine}/status"),
            widgets=len(QApplication.allWidgets()),
            objects=len(objects),
            states=sum(type(thing) is State for thing in objects),
            threads=threading.active_count(),
            files=len(list(files.iterdir())) if files.exists() else 0,
        )


def _opened(app: App) -> str:
    opened = app.window.session.state.opened
    return opened.path if opened is not None else ""


def soak(user: User, plan: Plan, rounds: int) -> Iterator[Held]:
    """Yield what is held after a warm-up as long as a round, and after each round."""
    user.start()
    for part in (next(plan.rounds(rounds)), *plan.rounds(rounds)):
        user.work(part)
        yield user.held()


def growth(held: Sequence[Held]) -> dict[str, float]:
    """Return how much has grown between the warm-up and the end, as a fraction."""
    first, last = held[0], held[-1]
    return {
        name: getattr(last, name) / max(1, getattr(first, name)) - 1
        for name in Held._fields
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--sentences", type=int, default=1_000)
    parser.add_argument("--switches", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    plan = Plan(options.steps, options.sentences, options.switches)
    models = [str(path) for path in paths.bundled_checkpoints()]
    models.sort(key=lambda path: not path.endswith("en-fr"))
    held: list[Held] = []
    log_qt()
    with tempfile.TemporaryDirectory() as folder:
        ini = QSettings(f"{folder}/window.ini", QSettings.Format.IniFormat)
        app = App(["visformer"], settings=ini, keep=Path(folder) / "kept")
        waking = QTimer(app.qt)  # so that the loop looks again
        waking.start(5)
        app.window.show()
        user = User(app, models, options.seed)
        for number, now in enumerate(soak(user, plan, ROUNDS)):
            held.append(now)
            print(f"{number}/{ROUNDS}: {now.words()}", flush=True)
        app.close()
    grown = growth(held)
    told = ", ".join(f"{name} {part:+.1%}" for name, part in grown.items())
    print(f"{plan}: grown since the warm-up by {told}")
    return int(grown["window"] > GROWTH or grown["engine"] > GROWTH)


if __name__ == "__main__":
    sys.exit(main())
