"""Engine events, brought to the window's thread as signals."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from PySide6.QtCore import QObject, Qt, QTimer, Signal

from visformer.engine.events import Event
from visformer.engine.mirror import Decoded

FRAME_MS = 16  # milliseconds in which a screen shows at most one picture


class Bridge(QObject):
    """Takes events on any thread, emits them on its own.

    Only the newest Trace of a decode counts: it replaces one that still waits to be
    delivered instead of queueing behind it.
    """

    received = Signal(object)
    _arrived = Signal()

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock`` returns seconds; it never goes back."""
        super().__init__()
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: list[Event] = []
        # a timer lets the event loop run in between: queued signals alone would come
        # one after the other, and the user's input would wait for the last of them
        self._timer, self._last = QTimer(self, singleShot=True), 0.0
        self._timer.timeout.connect(self._deliver)
        self._arrived.connect(self._wait, Qt.ConnectionType.QueuedConnection)

    def receive(self, event: Event) -> None:
        """Take an event; called on the engine's threads."""
        with self._lock:
            replaces = (
                isinstance(event, Decoded)
                and bool(self._waiting)
                and isinstance(self._waiting[-1], Decoded)
            )
            if replaces:
                self._waiting[-1] = event
                return
            self._waiting.append(event)
        self._arrived.emit()

    def _wait(self) -> None:
        """Deliver at the next turn of the event loop, but once per frame at most."""
        if not self._timer.isActive():
            passed = 1e3 * (self._clock() - self._last)
            self._timer.start(max(0, math.ceil(FRAME_MS - passed)))

    def _deliver(self) -> None:
        self._last = self._clock()
        with self._lock:
            events, self._waiting = self._waiting, []
        for event in events:
            self.received.emit(event)
