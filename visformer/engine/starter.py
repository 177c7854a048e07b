"""Starter: starts the engine's processes so that none outlives the window.

Linux ends a process together with the *thread* that started it, if the process asks
for that (``PR_SET_PDEATHSIG``): all are started on one thread that lives until they
have ended. That thread blocks SIGINT, and what it starts inherits that: Ctrl-C in a
terminal reaches the window alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess

_PR_SET_PDEATHSIG = 1


class Starter:
    """One thread that starts processes."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="engine-starter")

    def start(self, process: BaseProcess) -> None:
        """Start a process, and wait until it has been started."""
        self._pool.submit(_start, process).result()

    def close(self) -> None:
        """End the thread, and on Linux every process that it started."""
        self._pool.shutdown()


_starting = threading.Lock()  # held while a process is given what it starts with


def started() -> None:
    """Wait until no process is half started: it would complain of what it lacks."""
    if _starting.acquire(timeout=1.0):
        _starting.release()


def _start(process: BaseProcess) -> None:
    if sys.platform != "win32":
        resource_tracker.ensure_running()  # its own start unblocks SIGINT
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    with _starting:
        process.start()


def end_with(parent: int) -> None:
    """Let this process end with its parent, even while it is stopped; ignore Ctrl-C.

    ``parent`` is the parent's process id. Other systems than Linux have nothing like
    it: there the process ends when it finds its pipe closed.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform != "win32" and os.getppid() != parent:
        sys.exit(1)  # the parent ended before it could be watched
