"""Worker: one engine process, its pipe, and the thread that reads it."""

from __future__ import annotations

import logging
import multiprocessing
import os
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from visformer.engine.messages import Answer, Numbered
from visformer.engine.process import serve
from visformer.language import _

log = logging.getLogger(__name__)


class Worker:
    """One engine process, its pipe, and the thread that reads it."""

    def __init__(self, receive: Callable[[Worker, Answer | None], None]) -> None:
        """Start the process; ``receive`` gets its answers, None when it has ended."""
        # numpy reads it when it is imported; see ``serve``
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        context: Any = multiprocessing.get_context("spawn")
        self.connection: Connection
        self.connection, theirs = context.Pipe()
        self.process = context.Process(
            target=serve, args=(theirs,), daemon=True, name="visformer-engine"
        )
        self.process.start()
        theirs.close()  # otherwise the pipe would stay open when the process ends
        self._receive = receive
        self._thread = threading.Thread(target=self._read, name="engine-reader")
        self._thread.start()

    def send(self, numbered: Numbered) -> None:
        """Send a request; the reading thread notices if the process is dead."""
        try:
            self.connection.send(numbered)
        except OSError:
            log.warning("request %s found no engine process", numbered.number)

    def _read(self) -> None:
        try:
            while True:
                self._receive(self, self.connection.recv())
        except (EOFError, OSError):
            self._receive(self, None)

    def end(self) -> None:
        """End the process and the thread, and wait for both."""
        self.process.kill()
        self.process.join()
        if threading.current_thread() is not self._thread:
            self._thread.join()
        self.connection.close()

    def how_it_ended(self) -> str:
        """Name the signal or the exit code that ended the process."""
        code = self.process.exitcode
        if code is not None and code < 0:
            return _("signal {number}", number=-code)
        return _("exit code {code}", code=code)
