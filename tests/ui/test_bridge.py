"""What the engine says reaches the window in order, a frame at a time."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from pytestqt.qtbot import QtBot

from tests.traces import make_trace
from visformer.engine.handle import Event
from visformer.engine.messages import Finished, Refused
from visformer.engine.mirror import Decoded
from visformer.ui.bridge import FRAME_MS, Bridge

Listening = tuple[Bridge, list[Event]]


@pytest.fixture
def bridge(qtbot: QtBot) -> Iterator[Listening]:
    made, seen = Bridge(), []  # type: tuple[Bridge, list[Event]]
    made.received.connect(seen.append)
    yield made, seen
    made.deleteLater()


def decoded(number: int) -> Decoded:
    return Decoded(number=number, trace=make_trace(), limit=9)


def test_only_the_newest_trace_is_delivered(bridge: Listening, qtbot: QtBot) -> None:
    sender, seen = bridge
    events: list[Event] = [
        decoded(1),
        decoded(2),
        Refused(number=2, reason="no"),
        decoded(3),
        decoded(4),
        Finished(number=4, step_ms=None),
    ]
    for event in events:
        sender.receive(event)
    assert seen == []  # not before the loop turns
    qtbot.waitUntil(lambda: len(seen) == 4)
    assert seen == [events[1], events[2], events[4], events[5]]


def test_a_frame_passes_between_two_deliveries(bridge: Listening, qtbot: QtBot) -> None:
    sender, seen = bridge
    times: list[float] = []
    sender.received.connect(lambda _: times.append(time.monotonic()))
    for number in (1, 2, 3):
        sender.receive(decoded(number))
        qtbot.waitUntil(lambda: len(seen) == len(times) == number)  # noqa: B023
    assert min(times[1] - times[0], times[2] - times[1]) >= FRAME_MS / 1000
