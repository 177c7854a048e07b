"""Ctrl-C in the terminal, and SIGTERM: the window closes, and its engines end.

Python runs a signal's handler only between its own instructions, which an idle Qt loop
has none of: a byte that the signal writes to a socket wakes it.
"""

from __future__ import annotations

import signal
import socket
import sys
from types import FrameType

from PySide6.QtCore import QCoreApplication, QObject, QSocketNotifier

INTERRUPTED = 128  # added to the number of the signal: the exit code


class Interrupts(QObject):
    """Ends the loop at a signal, with the exit code of one that was stopped by it."""

    def __init__(self, parent: QObject) -> None:
        """Listen from here on; on the main thread only."""
        super().__init__(parent)
        self._near, self._far = socket.socketpair()
        self._far.setblocking(False)
        self._notifier = QSocketNotifier(
            self._near.fileno(), QSocketNotifier.Type.Read, self
        )
        self._notifier.activated.connect(self._drain)
        signal.set_wakeup_fd(self._far.fileno(), warn_on_full_buffer=False)
        signals = [signal.SIGINT, signal.SIGTERM]
        if sys.platform != "win32":
            signals.append(signal.SIGHUP)
        self._before = {number: signal.signal(number, self._end) for number in signals}

    def close(self) -> None:
        """Listen no more."""
        signal.set_wakeup_fd(-1)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._notifier.setEnabled(False)
        self._near.close()
        self._far.close()

    def _drain(self) -> None:
        self._near.recv(64)

    def _end(self, number: int, frame: FrameType | None) -> None:
        QCoreApplication.exit(INTERRUPTED + number)
