"""Heartbeat: looks at regular intervals whether an engine still answers."""

from __future__ import annotations

import threading
from collections.abc import Callable

BEAT_SECONDS = 0.25


class Heartbeat:
    """A thread that calls ``beat`` while there is something to wait for."""

    def __init__(self, beat: Callable[[], bool]) -> None:
        """``beat`` returns whether to go on; after False the thread sleeps."""
        self._beat = beat
        self._woken, self._closed = threading.Event(), threading.Event()
        self._thread = threading.Thread(
            target=self._run, name="engine-heartbeat", daemon=True
        )

    def wake(self) -> None:
        """Go on from here."""
        if not self._woken.is_set():
            self._woken.set()
        if not self._thread.ident:
            self._thread.start()

    def close(self) -> None:
        """End the thread, and wait for it."""
        self._closed.set()
        self._woken.set()
        if self._thread.ident and threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        while not self._closed.is_set():
            self._woken.wait()
            self._woken.clear()
            while not self._closed.wait(BEAT_SECONDS) and self._beat():
                pass
