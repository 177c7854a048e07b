"""Starter: starts the engine's processes so that none outlives the window.

Linux ends a process together with the *thread* that started it, if the process asks
for that (``PR_SET_PDEATHSIG``): all are started on one thread that lives until they
have ended. That thread blocks SIGINT, and what it starts inherits that: Ctrl-C in a
terminal reaches the window alone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess

from visformer.own_process import end_with_parent


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
    with _starting, _environment():
        if sys.platform != "win32":
            resource_tracker.ensure_running()  # its own start unblocks SIGINT
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        process.start()


ENVIRONMENT = {
    # numpy's threads: several take longer for a step
    "OPENBLAS_NUM_THREADS": "1",
    # large pages of memory: a pass over a long sentence takes a tenth less
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}


@contextlib.contextmanager
def _environment() -> Iterator[None]:
    """Set what a process reads as it starts, but for what the user has set.

    The current folder may be that of a stranger's checkpoint, and ``python -c``, by
    which multiprocessing starts, would import from it. Later it looks where this
    process does.
    """
    before = {name: os.environ.get(name) for name in (*ENVIRONMENT, "PYTHONSAFEPATH")}
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        for name, known in before.items():
            if known is None:
                del os.environ[name]
            else:
                os.environ[name] = known


def end_with(parent: int) -> None:
    """Let this process end with its parent, and ignore Ctrl-C.

    ``parent`` is the parent's process id. Other systems than Linux have nothing like
    it: there the process ends when it finds its pipe closed.
    """
    end_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
