"""Repaints: whether Qt's binding loses references to objects that all share."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from typing import NamedTuple

from tests.soak.user import User
from visformer.app import App
from visformer.ui.views import VIEWS

STEP_EVERY = 50  # repaints of one step


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
