"""A lecture: how long the turns of the window's loop are while it is held."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from tests.soak.user import User
from visformer.app import App
from visformer.pictures.selection import AttentionCell

REST_MS = 40  # between two acts
SHORTEST_MS = 0.2  # a shorter turn did nothing
STEPS_OF_A_SENTENCE = 25


class Turns:
    """The processor time of each turn, by what was done last.

    That of the window's thread alone: on a busy machine a turn is also long because
    others have the processor. What waits is seen by the window's own watchdog.
    """

    def __init__(self) -> None:
        self.act = "start"
        self._last = time.thread_time()
        self.milliseconds: defaultdict[str, list[float]] = defaultdict(list)

    def turned(self) -> None:
        now = time.thread_time()
        took, self._last = 1e3 * (now - self._last), now
        if took >= SHORTEST_MS:
            self.milliseconds[self.act].append(took)


class Act(NamedTuple):
    """What was done, and its turns in milliseconds."""

    name: str
    turns: int
    median: float
    p99: float
    longest: float
    over: int  # turns longer than 50 ms

    def words(self) -> str:
        """Return the columns of a table."""
        times = (self.median, self.p99, self.longest)
        return "\t".join(
            (self.name, str(self.turns), *(f"{ms:.1f}" for ms in times), str(self.over))
        )


def summary(name: str, milliseconds: list[float], stall_ms: float) -> Act:
    """Return what is to be told about some turns."""
    median, p99, longest = np.quantile(milliseconds, (0.5, 0.99, 1))
    over = sum(ms > stall_ms for ms in milliseconds)
    return Act(name, len(milliseconds), float(median), float(p99), float(longest), over)


def held_lecture(app: App, user: User, steps: int, turns: Turns) -> Iterator[int]:
    """Step through sentences, show what there is; yields the number of each step."""
    user.turned = turns.turned
    user.start()
    user.settle()
    acts = _acts(app, user)
    done = 0
    while done < steps:
        for name, act in acts:
            turns.act = name
            act()
            user.rest(REST_MS)
            for _step in range(max(1, STEPS_OF_A_SENTENCE // len(acts))):
                turns.act = "step"
                app.window.transport.forward()
                user.rest(REST_MS)
                done += 1
                yield done


def _acts(app: App, user: User) -> list[tuple[str, Callable[[], object]]]:
    window = app.window
    session = window.session
    return [
        ("sentence", user.translate),
        ("first step", window.transport.first),
        ("lock a cell", lambda: session.set(locked=AttentionCell("cross", 0, 1))),
        ("large", window.large.toggle_focused),
        ("usual size", window.large.restore),
        ("look elsewhere", user.look),
        ("present", window.presentation.toggle),
        ("present no more", window.presentation.toggle),
        ("look elsewhere", user.look),
        ("dark", lambda: window.appearance.set_theme("dark")),
        ("larger text", lambda: window.appearance.zoom_by(50)),
        ("light", lambda: window.appearance.set_theme("light")),
        ("usual text", lambda: window.appearance.zoom_by(0)),
        ("back", window.ways.back),
        ("undo", window.ways.undo),
        ("redo", window.ways.redo),
        ("open a model", lambda: user.open(user.models[0])),
    ]
