"""What the handle does when its process ends again and again, with no process."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

from tests.traces import make_trace
from visformer.engine.handle import Decoded, Engine, Event, Replaced
from visformer.engine.messages import Decode, Finished, Open, Opened, Refused, Started


class Mortal:
    """Stands in for a worker: keeps what it is sent, answers what a test tells it."""

    made: list[Mortal]

    def __init__(self, receive: Callable[[Mortal, Any], None]) -> None:
        self.process = types.SimpleNamespace(
            exitcode=-11, join=bool, kill=bool, is_alive=bool
        )
        self.sent: list[Any] = []
        self.send, self.end = self.sent.append, bool
        self._receive = receive
        self.made.append(self)

    def answer(self, answer: Any) -> None:
        """Answer the newest request; None: the process has ended."""
        self._receive(self, answer)


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[Event]:
    monkeypatch.setattr("visformer.engine.handle.Worker", Mortal)
    monkeypatch.setattr(Mortal, "made", [], raising=False)
    return []


def started(number: int) -> Started:
    return Started(number=number, start=make_trace().until(0), limit=9, kept=0)


def working(handle: Engine) -> Mortal:
    return cast(Mortal, handle._current)


def opened(number: int) -> Opened:
    return Opened(
        number=number,
        path="model",
        model=make_trace().model,
        positions=np.zeros((1, 1), np.float32),
        devices=("cpu",),
        findings=(),
    )


def test_a_request_that_ends_two_processes_is_not_replayed_again(
    events: list[Event],
) -> None:
    """However far it came each time: its tokens are replayed before it fails again."""
    handle = Engine(events.append)
    opening = handle.open("model")
    Mortal.made[0].answer(opened(opening))
    number = handle.decode(Decode(number=0, source="abc"))
    for time in (1, 2):
        if time == 2:
            working(handle).answer(opened(opening))
        working(handle).answer(started(number))
        working(handle).answer(None)
    assert [type(e) for e in events] == [Opened, Decoded, Replaced, Decoded, Refused]
    assert isinstance(events[-1], Refused)
    assert "twice on this request" in events[-1].reason
    assert [type(request) for request in working(handle).sent] == [Open]

    again = handle.decode(Decode(number=0, source="ab"))
    working(handle).answer(started(again))
    working(handle).answer(Finished(number=again, step_ms=1.0))
    working(handle).answer(None)
    assert isinstance(events[-1], Replaced)  # another request: another try
    assert [type(request) for request in working(handle).sent] == [Open, Decode]
    handle.close()
