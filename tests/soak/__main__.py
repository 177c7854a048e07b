"""Hours of use in minutes: what has grown since, in the window and in its engine.

A real window with its engine, offscreen; what is found is printed as a table, row by
row. ``work`` translates sentences, takes steps in every tab, and switches the model,
the theme, the size of text and window, all in turns; ``openings`` opens checkpoints and
recorded Traces. What the processes hold is measured at first and then ten times, with
the same sentence of the same model in every tab. Growth counts from the first of the
ten: by then each kind of switch was made. ``repaints`` counts references to what all
objects share, ``lecture`` how long the turns of the window's loop are.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QSettings, QTimer

from tests.soak.held import Held, growth, held
from tests.soak.lecture import Act, Turns, held_lecture, summary
from tests.soak.user import Plan, User, bundled, soak
from visformer.app import GARBAGE_MS, App, log_qt
from visformer.program.diagnostics import STALL_MS, Watchdog
from visformer.trace_file.trace_file import write_trace
from visformer.ui.views import VIEWS

TRACES = 4  # recorded ones for each checkpoint
STEP_EVERY = 50  # repaints of one step
ROUNDS = 10
GROWTH = 0.05  # of memory, at most
LOST = 0.01  # references a repaint, at most


def opened(
    app: App, user: User, folder: Path, count: int, rounds: int
) -> Iterator[Held]:
    """Yield what is held at first, and after each of so many rounds of openings."""
    user.start()
    recorded = []
    for at in range(TRACES):
        user.translate()
        trace = app.window.session.state.trace
        assert trace is not None
        recorded.append(folder / f"{at}.vis")
        write_trace(trace, recorded[-1])
    user.settle(fresh=True)
    yield held(app)
    for at in range(count):
        turn, place = divmod(at, 1 + TRACES)
        if place == TRACES:
            user.open(user.models[turn % len(user.models)])
        else:
            user.show(recorded[place])
        if (at + 1) * rounds // count > at * rounds // count:
            user.settle(fresh=True)
            yield held(app)


class References(NamedTuple):
    """How many there are to what all share; from Python 3.12 on they are not counted.

    A binding that loses one at each call ends the process after some thousand.
    """

    none: int
    true: int
    false: int
    empty: int  # tuples
    zero: int
    objects: int  # that are collected

    def words(self) -> str:
        """Return the columns of a table."""
        return "\t".join(map(str, self))


def references() -> References:
    """Count them."""
    gc.collect()
    none, true, false, empty, zero = map(sys.getrefcount, (None, True, False, (), 0))
    return References(none, true, false, empty, zero, len(gc.get_objects()))


def repainted(app: App, user: User, count: int, rounds: int) -> Iterator[References]:
    """Yield the references after a first round of repaints, and after each of so many.

    Each round paints every tab, at several steps.
    """
    user.start()
    user.settle()
    app.window.resize(640, 480)
    for _number in range(1 + rounds):
        for view in VIEWS:
            app.window.session.set(tab=view.name)
            for at in range(count // rounds // len(VIEWS)):
                if at % STEP_EVERY == 0:
                    app.window.session.set(step=1 + at // STEP_EVERY % 4)
                    user.wait(lambda: True)
                app.window.grab()  # paints every part that is in sight
        yield references()


Row = TypeVar("Row", Held, References)


def work(app: App, user: User, options: Namespace, folder: Path) -> int:
    plan = Plan(options.steps or 10_000, options.sentences, options.switches)
    rest = 3 * GARBAGE_MS  # in which the program gives back what it has freed
    return _grown(soak(app, user, plan, ROUNDS, rest=rest))


def openings(app: App, user: User, options: Namespace, folder: Path) -> int:
    return _grown(opened(app, user, folder, options.openings, ROUNDS))


def repaints(app: App, user: User, options: Namespace, folder: Path) -> int:
    seen = list(
        _told(repainted(app, user, options.repaints, ROUNDS), References._fields)
    )
    most = max(abs(last - first) for first, last in zip(seen[0], seen[-1], strict=True))
    return int(most > LOST * options.repaints)


def lecture(app: App, user: User, options: Namespace, folder: Path) -> int:
    turns, watchdog = Turns(), Watchdog(app.qt)
    watchdog.start()
    steps = sum(1 for _ in held_lecture(app, user, options.steps or 500, turns))
    watchdog.close()
    every = [took for times in turns.milliseconds.values() for took in times]
    acts = {"all": every, **turns.milliseconds}
    rows = [summary(name, times, STALL_MS) for name, times in acts.items()]
    print(f"{steps} steps; times are the window's thread's own, in ms")
    print(*Act._fields, sep="\t")
    for row in rows:
        print(row.words())
    print(
        f"watchdog: {watchdog.stalls} stalls, the longest {watchdog.longest_ms:.0f} ms"
    )
    print(*watchdog.stacks, sep="\n")
    return int(rows[0].over > 0)


def _told(rows: Iterator[Row], names: Sequence[str]) -> Iterator[Row]:
    """Print the rows of a table as they come."""
    began = time.monotonic()
    print("round", "seconds", *names, sep="\t")
    for number, row in enumerate(rows):
        passed = f"{time.monotonic() - began:.0f}"
        print(number, passed, row.words(), sep="\t", flush=True)
        yield row


def _grown(rows: Iterator[Held]) -> int:
    """Print the rows and what has grown; return 1 if memory has, by too much."""
    seen = list(_told(rows, Held._fields))
    grown = growth(seen[1:])
    told = ", ".join(f"{name} {part:+.1%}" for name, part in grown.items())
    print(f"grown since the first round by {told}")
    return int(grown["window"] > GROWTH or grown["engine"] > GROWTH)


MODES: dict[str, Callable[[App, User, Namespace, Path], int]] = {
    "work": work,
    "openings": openings,
    "repaints": repaints,
    "lecture": lecture,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("mode", nargs="?", choices=MODES, default="work")
    parser.add_argument("--steps", type=int, help="of work 10,000, of a lecture 500")
    parser.add_argument("--sentences", type=int, default=1_000)
    parser.add_argument("--switches", type=int, default=200)
    parser.add_argument("--openings", type=int, default=500)
    parser.add_argument("--repaints", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    log_qt()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ini = QSettings(str(folder / "window.ini"), QSettings.Format.IniFormat)
        app = App(["visformer"], settings=ini, keep=folder / "kept")
        waking = QTimer(app.qt)  # so that the loop looks again
        waking.start(5)
        app.window.show()
        try:
            user = User(app, bundled(), options.seed)
            return MODES[options.mode](app, user, options, folder)
        finally:
            app.close()


if __name__ == "__main__":
    sys.exit(main())
