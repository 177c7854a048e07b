"""What the handle does when its process ends again and again, with no process."""

from __future__ import annotations

import os
import pickle
import sys
import threading
import types
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from tests.traces import make_trace, rows_of
from visformer.engine.handle import Engine
from visformer.engine.messages import (
    Closed,
    Decode,
    Down,
    Event,
    Finished,
    Open,
    Opened,
    OpenProgressed,
    Parameters,
    Passed,
    Progressed,
    Ready,
    Refused,
    Replaced,
    Request,
    Shuffle,
    Silent,
    Started,
    Stepped,
    Stop,
    Stopped,
)
from visformer.engine.mirror import Decoded, Mirror
from visformer.engine.opening import STILL_SECONDS, Usage, usage_of
from visformer.engine.worker import ROOM
from visformer.values.intervention import parse
from visformer.values.step import Choice, Strategy


class Mortal:
    """Stands in for a worker: keeps what it is sent, answers what a test tells it."""

    made: list[Mortal]

    def __init__(
        self,
        receive: Callable[[Mortal, Any], None],
        _starter: object,
        _crashes: str,
        *,
        spare: bool,
    ) -> None:
        self.spare = spare
        self.process = types.SimpleNamespace(
            pid=0, exitcode=-11, join=bool, kill=bool, is_alive=bool
        )
        self.how_it_ended = lambda: "signal 11"
        self.sent: list[Any] = []
        self.send, self.end = self.sent.append, bool
        self._receive, self.heard = receive, False
        self.made.append(self)

    def answer(self, answer: Any) -> None:
        """Answer the newest request; None: the process has ended."""
        self.heard = self.heard or answer is not None
        self._receive(self, answer)


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Event]]:
    """Let handles start no process, and close all that a test makes."""
    monkeypatch.setattr("visformer.engine.worker.Worker", Mortal)
    monkeypatch.setattr(Mortal, "made", [], raising=False)
    begin, handles = Engine.__init__, list[Engine]()

    def begun(handle: Engine, *given: Any, **named: Any) -> None:
        begin(handle, *given, **{"clock": lambda: 0.0, **named})
        handles.append(handle)

    monkeypatch.setattr(Engine, "__init__", begun)
    before = {*threading.enumerate()}
    yield []
    for handle in handles:
        handle.close()
    assert {*threading.enumerate()} <= before


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
    kinds = [type(event) for event in events]
    assert kinds == [Opened, Decoded, Replaced, Decoded, Replaced, Refused]
    assert isinstance(events[-1], Refused)
    assert "twice on this request" in events[-1].reason
    assert [type(sent.request) for sent in working(handle).sent] == [Open]

    working(handle).answer(opened(opening))
    again = handle.ask(Decode(source="ab"))
    working(handle).answer(started(again))
    working(handle).answer(None)
    assert isinstance(events[-1], Replaced)  # another request: another try
    assert [type(sent.request) for sent in working(handle).sent] == [Open, Decode]


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
    forced = Decode(source="abc", prefix=(Choice(5, "model"), Choice(7, "forced")))
    number = handle.ask(forced)
    working(handle).answer(None)
    assert replayed(handle) == forced
    working(handle).answer(opened(1))
    working(handle).answer(started(number))  # no row of it has come yet
    working(handle).answer(None)
    assert isinstance(events[-1], Refused)  # never without the choice


def test_what_is_answered_is_not_replayed(events: list[Event]) -> None:
    handle = ready(events)
    number = handle.ask(Decode(source="abc"))
    working(handle).answer(started(number))
    working(handle).answer(Finished(number=number, step_ms=None))
    working(handle).answer(None)
    assert [type(sent.request) for sent in working(handle).sent] == [Open]


def test_a_death_before_the_first_answer_replays_none_of_the_last_sentence(
    events: list[Event],
) -> None:
    """Rows of the sentence before it, its strategy or its masks are never forced."""
    handle, trace = ready(events), make_trace(target=3)
    first = handle.ask(Decode(source="abc"))
    start = Started(number=first, start=trace.until(0), limit=9, kept=0)
    working(handle).answer(start)
    for row in rows_of(trace):
        working(handle).answer(Stepped(number=first, row=row))
    sampling = Strategy(name="sample", temperature=2.0)
    for request in (
        Decode(source="another"),
        Decode(source="abc", strategy=sampling),
        Decode(source="abc", intervention=parse(["causal off"])),
    ):
        handle.ask(request)
        late = rows_of(trace)[0]
        working(handle).answer(Stepped(number=first, row=late))  # of the superseded one
        working(handle).answer(None)
        assert replayed(handle) == request
        working(handle).answer(opened(1))


def test_an_engine_that_cannot_start_is_tried_twice(events: list[Event]) -> None:
    handle = Engine(events.append)
    number = handle.open(Open(path="/a/model"))
    for mortal in (0, 1):
        Mortal.made[mortal].answer(None)
    assert len(Mortal.made) == 2
    (refused,) = events
    assert isinstance(refused, Refused)
    assert refused.number == number
    assert "model could not be opened: the engine does not start" in refused.reason

    handle.open(Open(path="/a/model"))  # the way to try again
    assert len(Mortal.made) == 3
    Mortal.made[2].answer(Ready(number=0))
    Mortal.made[2].answer(opened(2))
    assert isinstance(events[-1], Opened)


def test_a_replacement_that_cannot_start_is_tried_twice(events: list[Event]) -> None:
    handle = ready(events)
    number = handle.ask(Decode(source="abc"))
    working(handle).answer(started(number))
    made = len(Mortal.made)
    for _ in range(5):  # a dead process says so once, whoever asks
        working(handle).answer(None)
    assert len(Mortal.made) <= made + 1  # the spare, and one more
    assert isinstance(events[-1], Down)
    assert "press Translate to try again" in events[-1].reason
    handle.ask(Decode(source="ab"))
    reopened, asked = working(handle).sent
    assert (reopened.request.path, asked.request.source) == ("model", "ab")
    working(handle).answer(Ready(number=0))
    working(handle).answer(opened(1))
    working(handle).answer(started(asked.number))
    assert isinstance(events[-1], Decoded)


def test_other_weights_are_not_taken_over(events: list[Event]) -> None:
    """The file was replaced on the disk; the process that read it is not used."""
    handle = ready(events)
    handle.ask(Decode(source="abc"))
    working(handle).answer(None)
    stranger = working(handle)
    model = replace(make_trace().model, digest="another")
    stranger.answer(replace(opened(1), model=model))
    assert isinstance(events[-1], Closed)
    assert "has changed on the disk" in events[-1].reason
    stranger.answer(started(2))
    assert isinstance(events[-1], Closed)  # nothing of it comes any more
    assert working(handle) is not stranger
    assert working(handle).sent == []


def test_a_file_that_is_gone_closes_its_model(events: list[Event]) -> None:
    handle = ready(events)
    working(handle).answer(None)
    working(handle).answer(Refused(number=1, reason="There is no such file."))
    assert isinstance(events[-1], Closed)
    assert "model can no longer be opened. There is no such file." in events[-1].reason


def test_silence_is_told_once_and_its_end(events: list[Event]) -> None:
    now = [0.0]
    handle = Engine(events.append, clock=lambda: now[0])
    Mortal.made[0].answer(opened(handle.open(Open(path="model"))))
    assert not handle.beat()  # nothing is asked
    now[0] = 100.0
    number = handle.ask(Decode(source="abc"))
    now[0] = 109.0
    assert handle.beat()
    assert isinstance(events[-1], Opened)
    now[0] = 111.0
    assert handle.beat()
    assert handle.beat()
    assert [type(event) for event in events] == [Opened, Silent]
    assert isinstance(events[-1], Silent)
    assert "has not answered for 11 s" in events[-1].reason
    working(handle).answer(started(number))
    assert events[-2] == Silent()
    working(handle).answer(Finished(number=number, step_ms=None))
    assert not handle.beat()


def test_stop_ends_what_does_not_answer(events: list[Event]) -> None:
    now = [0.0]
    handle = Engine(events.append, clock=lambda: now[0])
    Mortal.made[0].answer(opened(handle.open(Open(path="model", device="cpu"))))
    handle.stop()  # nothing to stop
    hung = working(handle)
    handle.ask(Decode(source="abc"))
    handle.stop()
    assert [type(sent.request) for sent in hung.sent] == [Open, Decode, Stop]
    now[0] = 1.0
    handle.beat()
    assert working(handle) is hung
    now[0] = 2.5
    handle.beat()
    assert isinstance(events[-1], Replaced)
    assert "did not answer and was ended" in events[-1].reason
    assert [sent.request for sent in working(handle).sent] == [
        Open(path="model", device="cpu")
    ]
    hung.answer(None)
    assert isinstance(events[-1], Replaced)  # that it ended is no news


def test_what_is_told_on_the_way_is_not_the_last_answer(events: list[Event]) -> None:
    """It can still be stopped, and is replayed where its process dies."""
    handle = ready(events)
    request = Decode(source="abc")
    number = handle.ask(request)
    told = Progressed(number=number, done=40, of=100, part="")
    working(handle).answer(told)
    assert events[-1] == told
    handle.stop()
    assert isinstance(working(handle).sent[-1].request, Stop)
    number = handle.ask(request)
    working(handle).answer(replace(told, number=number))
    working(handle).answer(None)
    assert replayed(handle) == request


def test_stop_leaves_an_engine_that_answers(events: list[Event]) -> None:
    now = [0.0]
    handle = Engine(events.append, clock=lambda: now[0])
    Mortal.made[0].answer(opened(handle.open(Open(path="model"))))
    at_work = working(handle)
    handle.ask(Decode(source="abc"))
    handle.stop()
    at_work.answer(Stopped(number=at_work.sent[-1].number))
    now[0] = 9.0
    assert not handle.beat()
    assert working(handle) is at_work


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
    assert [choice.id for choice in again.prefix] == [step.id for step in trace.steps]


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
        [],  # nothing was changed yet
        [0, 1],
        [0, 1, 2],
        [0, 1],
        [0, 1, 2],
    ]


def test_passes_of_one_run_share_what_they_have_in_common() -> None:
    mirror, first = Mirror(), make_trace(target=3)
    alike = replace(first, encoder_rows=first.encoder_rows.copy())
    other = replace(first, memory_rows=first.memory_rows + 1)
    for trace in (first, alike, other):
        decoded = mirror.take(Passed(number=1, trace=trace, limit=9))
    assert decoded is not None
    assert decoded.trace.encoder_rows is first.encoder_rows
    assert decoded.trace.memory_rows is other.memory_rows
    assert decoded.trace.memo is first.memo


def test_runs_of_one_model_share_its_facts() -> None:
    """However many sentences are kept: each message brings facts of its own."""
    mirror, run = Mirror(), make_trace(target=0)
    for at in range(3):
        model = pickle.loads(pickle.dumps(run.model))
        start = replace(run, model=model)
        decoded = mirror.take(Started(number=at, limit=9, kept=0, start=start))
        assert decoded is not None
        assert (decoded.trace.model is model) == (at == 0)
    other = replace(run, model=replace(run.model, name="another"))
    decoded = mirror.take(Started(number=3, limit=9, kept=0, start=other))
    assert decoded is not None
    assert decoded.trace.model.name == "another"


def test_a_reader_that_ends_leaves_the_open_model_alone(events: list[Event]) -> None:
    handle = ready(events)
    before = working(handle)
    handle.open(Open(path="/a/other"))
    Mortal.made[-1].answer(Ready(number=0))
    Mortal.made[-1].answer(None)
    assert working(handle) is before
    (_opened, refused) = events
    assert isinstance(refused, Refused)
    assert "other could not be opened: its reader ended (signal 11)" in refused.reason
    assert "memory" not in refused.reason  # nothing says that it was short


def usage(monkeypatch: pytest.MonkeyPatch, used: Callable[[], Usage | None]) -> None:
    """Let the processes have used what a test says."""
    monkeypatch.setattr("visformer.engine.opening.usage_of", lambda _process: used())


@pytest.mark.parametrize("alone", [True, False])
def test_an_opening_that_does_nothing_for_a_minute_is_given_up(
    events: list[Event], monkeypatch: pytest.MonkeyPatch, alone: bool
) -> None:
    now, ticks = [0.0], [7]
    usage(monkeypatch, lambda: Usage(ticks[0], 1, 1))
    handle = Engine(events.append, clock=lambda: now[0])
    if not alone:
        Mortal.made[0].answer(opened(handle.open(Open(path="model"))))
    before = working(handle)
    number = handle.open(Open(path="/a/other"))
    if alone:
        handle.ask(Decode(source="abc"))
    for now[0] in range(1, 400):
        if now[0] == 59:
            ticks[0] += 1
        assert handle.beat()
        if isinstance(events[-1], Refused):
            break
    assert now[0] == 59 + STILL_SECONDS
    refused = events[-1]
    assert isinstance(refused, Refused)
    assert refused.number == number
    assert "other was given up: for 60 s its process neither com" in refused.reason
    assert (working(handle) is before) is not alone
    assert not handle.beat()


@pytest.mark.parametrize("known", [True, False])
def test_an_opening_that_goes_on_is_never_given_up_and_tells_how_far_it_is(
    events: list[Event], monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    now = [0.0]
    usage(monkeypatch, lambda: Usage(5, 10 + int(now[0]), 0) if known else None)
    handle = Engine(events.append, clock=lambda: now[0])
    number = handle.open(Open(path="model"))
    handle.ask(Decode(source="abc"))  # whose silence is not the engine's
    working(handle).answer(OpenProgressed(number=number, size=1000))
    for now[0] in range(1, 2000):
        assert handle.beat()
    assert len(events) == 1999
    parts = {"read": 7, "size": 1000} if known else {}
    assert events[6] == OpenProgressed(number=number, seconds=7, **parts)
    working(handle).answer(opened(number))
    assert handle.beat()
    assert isinstance(events[-1], Opened)


def test_a_computer_that_slept_has_not_stood_still(
    events: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    usage(monkeypatch, lambda: Usage(5, 1, 1))
    handle = Engine(events.append, clock=lambda: now[0])
    handle.open(Open(path="model"))
    for now[0] in (1.0, 9e3, 9e3 + 1):
        handle.beat()
    assert not any(isinstance(event, Refused) for event in events)


@pytest.mark.skipif(sys.platform != "linux", reason="asked of Linux")
def test_what_a_process_computes_and_reads_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(1 << 20))
    before = usage_of(os.getpid())
    file.read_bytes()
    while (now := usage_of(os.getpid())) is not None:
        if before is None or now.ticks > before.ticks:
            break
    assert before is not None
    assert now is not None
    assert now.asked - before.asked >= 1 << 20
    assert usage_of(0) is None


def test_the_second_process_is_told_that_it_is_spare(events: list[Event]) -> None:
    handle = ready(events)
    first, spare = Mortal.made
    assert first is working(handle)
    assert (first.spare, spare.spare) == (False, True)


def test_there_is_no_spare_process_where_memory_is_short(
    events: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    left = [ROOM - 1]
    monkeypatch.setattr("visformer.engine.worker.available_memory", lambda: left[0])
    handle = ready(events)
    (only,) = Mortal.made
    left[0] = ROOM
    handle.abandon()
    assert len(Mortal.made) == 2  # there is one again
    for left[0], there in ((ROOM, True), (ROOM - 1, False)):
        number = handle.ask(Decode(source="abc"))
        only.answer(Finished(number=number, step_ms=None))
        assert (handle._pool.spare is not None) is there
    assert working(handle) is only
    handle.open(Open(path="other"))
    assert len(Mortal.made) == 3  # it is opened all the same, in a fresh process


def test_what_waits_for_the_first_model_follows_it_into_another_process(
    events: list[Event],
) -> None:
    handle = Engine(events.append)
    handle.open(Open(path="one"))
    handle.ask(Decode(source="abc"))
    working(handle).answer(None)  # before it has started: another one is
    handle.open(Open(path="two"))
    assert [sent.number for sent in working(handle).sent] == [3, 2]
    working(handle).answer(opened(3))
    working(handle).answer(Finished(number=2, step_ms=None))
    assert [type(event) for event in events] == [Opened, Finished]


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
