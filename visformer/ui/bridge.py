"""Engine events, brought to the window's thread as signals."""

from __future__ import annotations

import threading

from PySide6.QtCore import QObject, Qt, Signal

from visformer.engine import Decoded, Event


class Bridge(QObject):
    """Takes events on any thread, emits them on its own.

    Of a decode only the newest Trace counts: while one waits to be delivered, later
    ones take its place instead of queueing up behind it.
    """

    received = Signal(object)
    _arrived = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._waiting: list[Event] = []
        self._arrived.connect(self._deliver, Qt.ConnectionType.QueuedConnection)

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

    def _deliver(self) -> None:
        with self._lock:
            events, self._waiting = self._waiting, []
        for event in events:
            self.received.emit(event)
