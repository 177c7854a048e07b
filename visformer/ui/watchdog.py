"""Watchdog: counts how often the window's loop stands still, and notes where."""

from __future__ import annotations

import faulthandler
import logging
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable

from PySide6.QtCore import QObject, Qt, QTimer

log = logging.getLogger(__name__)
BEAT_MS = 25
STALL_MS = 50  # a longer stand is counted
STACK_MS = 250  # a longer one is noted with its stack
LOOK_SECONDS = 0.1
KEPT = 5  # stacks


class Watchdog(QObject):
    """A timer in the loop, and a thread that looks whether it beats."""

    def __init__(
        self, parent: QObject, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Watch the loop of the calling thread; ``clock`` tells seconds."""
        super().__init__(parent)
        self._clock = clock
        self._watched = threading.get_ident()
        self._last = clock()
        self._noted = False  # the stack of this stand is
        self.stalls = 0
        self.longest_ms = 0.0
        self.stacks: deque[str] = deque(maxlen=KEPT)
        self._timer = QTimer(self)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self.beat)
        self._ended = threading.Event()
        self._thread = threading.Thread(
            target=self._watch, name="watchdog", daemon=True
        )

    def start(self) -> None:
        """Begin to watch."""
        self._last = self._clock()
        self._timer.start(BEAT_MS)
        self._thread.start()

    def close(self) -> None:
        """Watch no more."""
        self._timer.stop()
        self._ended.set()
        if self._thread.ident:
            self._thread.join()

    def beat(self) -> None:
        """Note that the loop turns."""
        now = self._clock()
        stood = 1e3 * (now - self._last) - BEAT_MS
        self._last, self._noted = now, False
        if stood > STALL_MS:
            self.stalls += 1
            self.longest_ms = max(self.longest_ms, stood)

    def look(self) -> None:
        """Note where the loop stands, if it does so for long."""
        stood = 1e3 * (self._clock() - self._last) - BEAT_MS
        if stood > STACK_MS and not self._noted:
            self._noted = True
            stack = _stack_of(self._watched)
            self.stacks.append(stack)
            log.warning("the window has stood still for %.0f ms:\n%s", stood, stack)

    def _watch(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            self.look()


def _stack_of(thread: int) -> str:
    """Return where a thread is, the newest call first.

    Its frames are not asked for: who holds one keeps what is in it beyond its call, a
    QPainter beyond its paint event, and ends it on the wrong thread.
    """
    with tempfile.TemporaryFile() as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        stacks = file.read().decode("utf-8", "replace").split("\n\n")
    return next((stack for stack in stacks if f"0x{thread:016x}" in stack), "")
