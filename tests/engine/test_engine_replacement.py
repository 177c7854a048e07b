"""What the handle does when its process ends again and again, with no process."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

from tests.traces import make_trace, rows_of
from visformer.engine.handle import Engine, Event, Replaced
from visformer.engine.messages import (
    Decode,
    Finished,
    Open,
    Opened,
    Parameters,
    Passed,
    Refused,
    Request,
    Shuffle,
    Started,
    Stepped,
)
from visformer.engine.mirror import Decoded, Mirror


class Mortal:
    """Stands in for a worker: keeps what it is sent, answers what a test tells it."""

    made: list[Mortal]

    def __init__(self, receive: Callable[[Mortal, Any], None]) -> None:
        self.process = types.SimpleNamespace(
            exitcode=-11, join=bool, kill=bool, is_alive=bool
        )
        self.how_it_ended = lambda: "signal 11"
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
    opening = handle.open(Open(path="model"))
    Mortal.made[0].answer(opened(opening))
    number = handle.ask(Decode(source="abc"))
    for time in (1, 2):
        if time == 2:
            working(handle).answer(opened(opening))
        working(handle).answer(started(number))
        working(handle).answer(None)
    assert [type(e) for e in events] == [Opened, Decoded, Replaced, Decoded, Refused]
    assert isinstance(events[-1], Refused)
    assert "twice on this request" in events[-1].reason
    assert [type(sent.request) for sent in working(handle).sent] == [Open]

    again = handle.ask(Decode(source="ab"))
    working(handle).answer(started(again))
    working(handle).answer(Finished(number=again, step_ms=1.0))
    working(handle).answer(None)
    assert isinstance(events[-1], Replaced)  # another request: another try
    assert [type(sent.request) for sent in working(handle).sent] == [Open, Decode]
    handle.close()


def ready(events: list[Event]) -> Engine:
    """Return a handle with a model open."""
    handle = Engine(events.append)
    Mortal.made[0].answer(opened(handle.open(Open(path="model", device="cpu"))))
    return handle


def replayed(handle: Engine) -> Request:
    """Return what the process that took over was asked after the model."""
    reopened, again = working(handle).sent
    assert reopened.request == Open(path="model", device="cpu")
    return cast(Request, again.request)


def test_a_choice_is_replayed_even_before_its_first_answer(events: list[Event]) -> None:
    handle = ready(events)
    working(handle).answer(started(handle.ask(Decode(source="abc"))))
    forced = Decode(source="abc", prefix=((5, "model"), (7, "forced")))
    number = handle.ask(forced)
    working(handle).answer(None)
    assert replayed(handle) == forced
    working(handle).answer(started(number))  # no row of it has come yet
    working(handle).answer(Finished(number=number, step_ms=None))
    working(handle).answer(None)
    assert replayed(handle) == forced


def test_tokens_that_came_are_replayed(events: list[Event]) -> None:
    handle = ready(events)
    number = handle.ask(Decode(source="abc"))
    trace = make_trace(target=3)
    start = Started(number=number, start=trace.until(0), limit=9, kept=0)
    working(handle).answer(start)
    for row in rows_of(trace):
        working(handle).answer(Stepped(number=number, row=row))
    working(handle).answer(None)
    again = replayed(handle)
    assert isinstance(again, Decode)
    assert [id for id, _ in again.prefix] == [step.id for step in trace.steps]


def test_any_request_is_replayed_but_none_that_was_aside(events: list[Event]) -> None:
    handle = ready(events)
    shuffle = Shuffle(source="abc", target=(1, 2))
    number = handle.ask(shuffle)
    assert handle.ask(Parameters(stack="encoder", layer=0)) == number + 1
    working(handle).answer(None)
    assert replayed(handle) is shuffle


def test_nothing_is_replayed_on_another_model(events: list[Event]) -> None:
    handle = ready(events)
    working(handle).answer(started(handle.ask(Decode(source="abc"))))
    number = handle.open(Open(path="other"))
    Mortal.made[-1].answer(opened(number))
    working(handle).answer(None)
    (reopened,) = working(handle).sent
    assert reopened.request == Open(path="other")
    assert isinstance(events[-1], Replaced)


def test_passes_decoded_anew_stand_in_place_of_the_former_ones() -> None:
    mirror, whole = Mirror(), make_trace(target=3)

    def passed(length: int) -> list[int]:
        answer = Passed(number=1, trace=whole.until(length), limit=9)
        decoded = mirror.take(answer)
        assert decoded is not None
        return [len(trace) for trace in decoded.passes]

    assert [passed(length) for length in (0, 1, 2, 1, 2)] == [
        [0],
        [0, 1],
        [0, 1, 2],
        [0, 1],
        [0, 1, 2],
    ]


def test_an_opening_that_is_given_up_leaves_the_working_process(
    events: list[Event],
) -> None:
    handle = ready(events)
    before = working(handle)
    handle.open(Open(path="other"))
    spare = Mortal.made[-1]
    handle.abandon()
    spare.answer(opened(2))  # too late
    assert working(handle) is before
    assert [type(event) for event in events] == [Opened]
