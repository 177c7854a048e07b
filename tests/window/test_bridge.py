"""What the engine says reaches the window in order, a frame at a time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QCoreApplication, QTimer
from pytestqt.qtbot import QtBot

from tests.traces import make_trace
from visformer.app import FRAME_MS, Bridge
from visformer.engine.messages import Event, Finished, Refused
from visformer.engine.mirror import Decoded

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


def test_a_frame_passes_between_two_deliveries(qtbot: QtBot) -> None:
    """What the window waits for is read from its timer, on a clock that is set."""
    now = 100.0
    bridge, seen = Bridge(lambda: now), []  # type: tuple[Bridge, list[Event]]
    bridge.received.connect(seen.append)
    timer = bridge.findChildren(QTimer)[0]
    waits: list[int] = []
    for passed in (1.0, 0.0, 2**-7, 1.0):  # seconds since the last delivery
        now += passed
        bridge.receive(decoded(len(waits)))
        QCoreApplication.processEvents()
        waits.append(timer.interval())
        qtbot.waitUntil(lambda: len(seen) == len(waits))
    assert waits == [0, FRAME_MS, FRAME_MS - 7, 0]
    bridge.deleteLater()
