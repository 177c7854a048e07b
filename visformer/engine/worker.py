"""Worker: one engine process, its pipe, and the threads that read and write it."""

from __future__ import annotations

import logging
import multiprocessing
import os
import queue
import threading
from collections.abc import Callable, Iterable
from typing import Any

from visformer.engine.messages import Answer, Logged, Numbered, Unable
from visformer.engine.process import serve
from visformer.engine.starter import Starter
from visformer.engine.wire import Wire
from visformer.files import available_memory
from visformer.language import _

log = logging.getLogger(__name__)
ROOM = 1 << 30  # bytes of memory left on the computer: with fewer there is no spare


class Worker:
    """One engine process, its pipe, and the threads that read and write it."""

    def __init__(
        self,
        receive: Callable[[Worker, Answer | None], None],
        starter: Starter,
        crashes: str = "",
        *,
        spare: bool = False,
    ) -> None:
        """Start the process; ``receive`` gets its answers, None when it has ended.

        A crash is written to the file ``crashes``; ``spare`` as that of ``serve``.
        """
        self.heard = False  # whether it has said anything: it has started
        self._unable = ""  # why it cannot start, if it said so
        context: Any = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        self._wire = Wire(ours)
        self.process = context.Process(
            target=serve,
            args=(theirs, os.getpid(), crashes, spare),
            daemon=True,
            name="visformer-engine",
        )
        starter.start(self.process)
        theirs.close()  # otherwise the pipe would stay open when the process ends
        self._receive = receive
        # a pipe that nobody reads is soon full: whoever asks must not wait for that
        self._outbox: queue.SimpleQueue[Numbered | None] = queue.SimpleQueue()
        self._threads = tuple(
            threading.Thread(target=target, name=f"engine-{name}", daemon=True)
            for name, target in (("reader", self._read), ("writer", self._write))
        )
        for thread in self._threads:
            thread.start()

    def send(self, numbered: Numbered) -> None:
        """Send a request; the reading thread notices if the process is dead."""
        self._outbox.put(numbered)

    def _write(self) -> None:
        for numbered in iter(self._outbox.get, None):
            try:
                self._wire.send(numbered)
            except OSError:
                log.warning("request %s found no engine process", numbered.number)

    def _read(self) -> None:
        answer: Answer | None
        while True:
            try:
                answer = self._wire.recv()
            except (EOFError, OSError):
                answer = None
            if isinstance(answer, Logged):
                log.error("engine: %s", answer.text)
            elif isinstance(answer, Unable):
                self._unable = answer.reason
            else:
                self._pass_on(answer)
            if answer is None:
                self._outbox.put(None)
                return

    def _pass_on(self, answer: Answer | None) -> None:
        self.heard = self.heard or answer is not None
        try:
            self._receive(self, answer)
        except Exception:  # the answers that follow are still wanted
            log.exception("an answer of the engine was not taken")

    def end(self) -> None:
        """End the process and the threads, and wait for them."""
        self.process.kill()
        self.process.join()
        self._outbox.put(None)
        for thread in self._threads:
            if threading.current_thread() is not thread:
                thread.join()
        self._wire.close()

    def how_it_ended(self) -> str:
        """Name what ended the process: its own words, a signal, or the exit code."""
        code = self.process.exitcode
        if self._unable:
            return self._unable
        if code is not None and code < 0:
            return _("killed by signal {number}", number=-code)
        return _("exit code {code}", code=code)


class Pool:
    """Starts processes, keeps a spare one, ends those that are no longer wanted."""

    def __init__(
        self, receive: Callable[[Worker, Answer | None], None], crashes: str
    ) -> None:
        """Arguments as those of ``Worker``."""
        self._receive, self._crashes = receive, crashes
        self._starter = Starter()
        self._ended: list[Worker] = []
        self.spare: Worker | None = None

    def take(self) -> Worker:
        """Return the spare process, or start one."""
        worker, self.spare = self.spare or self._start(), None
        return worker

    def keep_spare(self) -> None:
        """Start a spare process where there is none, unless memory is short."""
        if self.spare is None and available_memory() >= ROOM:
            self.spare = self._start(spare=True)

    def save_memory(self) -> None:
        """End the spare process where memory is short; an opening then takes longer."""
        if self.spare is not None and available_memory() < ROOM:
            spare, self.spare = self.spare, None
            self.discard(spare)

    def _start(self, *, spare: bool = False) -> Worker:
        return Worker(self._receive, self._starter, self._crashes, spare=spare)

    def discard(self, worker: Worker) -> None:
        """End a process without waiting for it; ``close`` waits."""
        worker.process.kill()
        self._ended = [old for old in self._ended if old.process.is_alive()] + [worker]

    def close(self, workers: Iterable[Worker]) -> None:
        """End these processes and all others, and wait for them."""
        spares = () if self.spare is None else (self.spare,)
        for worker in {*workers, *spares, *self._ended}:
            worker.end()
        self._starter.close()
