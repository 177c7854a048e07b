"""Openings: checkpoints and recorded Traces, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.soak.held import Held, held
from tests.soak.user import User
from visformer.app import App
from visformer.trace_file.trace_file import write_trace

TRACES = 4  # recorded ones for each checkpoint


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
