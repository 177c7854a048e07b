"""Engine: the window's handle to the model's processes (no Qt, no torch).

One process works, a spare waits: a checkpoint is opened in the spare, which takes over
when all checks have passed, so that a file that kills its reader harms nothing. Events
arrive on threads of the handle's own.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Any

from visformer.engine.messages import (
    Answer,
    Asked,
    Batch,
    BatchDone,
    Decode,
    Finished,
    Lens,
    LensDone,
    Open,
    Opened,
    Parameters,
    ParametersDone,
    Passed,
    Refused,
    Request,
    Shuffle,
    Shuffled,
    Started,
    Stepped,
)
from visformer.engine.process import serve
from visformer.values.arrays import Floats, Ids
from visformer.values.layer_weights import Stack
from visformer.values.questions import Asking, Told
from visformer.values.recording import Recording
from visformer.values.step import Step
from visformer.values.trace import Trace

log = logging.getLogger(__name__)
OPEN_SECONDS = 120.0  # an opening that takes longer is given up


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Decoded:
    """The newest decode, as far as it has come."""

    number: int
    trace: Trace
    limit: int
    passes: tuple[Trace, ...] = ()  # by step, where each changed the rows before it


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaced:
    """The working process ended and another one stands in; nothing shown was lost."""

    reason: str


Event = (
    Asked
    | Opened
    | Decoded
    | Finished
    | BatchDone
    | Shuffled
    | ParametersDone
    | LensDone
    | Refused
    | Replaced
)


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
        theirs.close()  # or the pipe would stay open when the process ends
        self._receive = receive
        self._thread = threading.Thread(target=self._read, name="engine-reader")
        self._thread.start()

    def send(self, request: Request) -> None:
        """Send a request; that a process is dead is noticed by the reading thread."""
        try:
            self.connection.send(request)
        except OSError:
            log.warning("request %s found no engine process", request.number)

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


class Engine:
    """Requests in, events out. The newest request wins; late answers are dropped."""

    def __init__(self, listener: Callable[[Event], None]) -> None:
        """Start the first process; ``listener`` is called on the handle's threads."""
        self._listener = listener
        self._lock = threading.RLock()
        self._number = 0
        self._closing = False
        self._ended: list[Worker] = []
        self._spare: Worker | None = None
        self._opening: tuple[Worker, Open, threading.Timer] | None = None
        self._timers: list[threading.Timer] = []  # of openings, until they have ended
        self._opened: Open | None = None  # what the working process has open
        self._last: Decode | None = None
        self._asked: Parameters | None = None  # the newest of these, numbered apart
        self._lens = 0  # number of the newest Lens, counted apart too
        self._recording: Recording | None = None  # mirrors the engine's last decode
        self._steps: tuple[Step, ...] = ()  # of the last decode, as far as it came
        self._passes: tuple[Trace, ...] = ()  # where it goes by whole passes
        self._fragile = False  # it was replaced, and has ended no request since
        self._current = Worker(self._receive)

    @property
    def process_id(self) -> int:
        """Process id of the process that works."""
        return int(self._current.process.pid)

    def open(
        self, path: str, device: str = "", told: Told = (), ask: Asking = "never"
    ) -> int:
        """Open a checkpoint; the open model stays until the new one is ready.

        ``told`` is what the file does not tell; with ``ask`` the answer may be
        questions about it. Returns the request's number.
        """
        with self._lock:
            self._abandon_opening()
            number = self._next()
            request = Open(number=number, path=path, device=device, told=told, ask=ask)
            worker = self._current if self._opened is None else self._take_spare()
            timer = threading.Timer(OPEN_SECONDS, self._too_slow, (worker,))
            timer.daemon = True
            self._timers = [*filter(threading.Timer.is_alive, self._timers), timer]
            self._opening = (worker, request, timer)
            timer.start()
            worker.send(request)
            return number

    def abandon(self) -> None:
        """Give up an opening; the open model stays."""
        with self._lock:
            self._abandon_opening()
            if self._opened is not None:
                self._keep_spare()

    def decode(self, request: Decode) -> int:
        """Decode, superseding what was asked before; return the request's number."""
        with self._lock:
            self._last = replace(request, number=self._next())
            self._current.send(self._last)
            return self._last.number

    def batch(self, sources: tuple[str, ...]) -> int:
        """Run several sentences together; return the request's number."""
        with self._lock:
            request = Batch(number=self._next(), sources=sources)
            self._current.send(request)
            return request.number

    def shuffle(self, request: Shuffle) -> int:
        """Run a sentence in two orders; return the request's number."""
        with self._lock:
            request = replace(request, number=self._next())
            self._current.send(request)
            return request.number

    def parameters(self, stack: Stack, layer: int) -> None:
        """Ask for the weights of a layer; what runs goes on, and so does this."""
        with self._lock:
            number = 1 if self._asked is None else self._asked.number + 1
            self._asked = Parameters(number=number, stack=stack, layer=layer)
            self._current.send(self._asked)

    def lens(self, hidden: Floats, chosen: Ids, temperature: float) -> None:
        """Ask for the lens of rows as in ``Lens``; what runs goes on, and so does this.

        They go through the pipe at once: a few rows at a time keep the caller quick.
        """
        with self._lock:
            self._lens += 1
            request = Lens(
                number=self._lens,
                hidden=hidden,
                chosen=chosen,
                temperature=temperature,
            )
            self._current.send(request)

    def close(self) -> None:
        """End every process and thread; no event comes after this."""
        with self._lock:
            self._closing = True
            workers = {self._current, *self._ended}
            if self._spare is not None:
                workers.add(self._spare)
            if self._opening is not None:
                workers.add(self._opening[0])
        for timer in self._timers:
            timer.cancel()
            timer.join()
        for worker in workers:
            worker.end()

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _take_spare(self) -> Worker:
        worker, self._spare = self._spare or Worker(self._receive), None
        return worker

    def _abandon_opening(self) -> None:
        """Drop an opening that a newer one supersedes."""
        if self._opening is None:
            return
        worker, _, timer = self._opening
        timer.cancel()
        self._opening = None
        self._discard(worker)
        if worker is self._current:
            self._current = self._take_spare()

    def _discard(self, worker: Worker) -> None:
        """End a process without waiting for it here; ``close`` does."""
        worker.process.kill()
        self._ended = [old for old in self._ended if old.process.is_alive()] + [worker]

    def _too_slow(self, worker: Worker) -> None:
        with self._lock:
            if self._opening is not None and self._opening[0] is worker:
                worker.process.kill()  # its end is answered like any other

    def _receive(self, worker: Worker, answer: Answer | None) -> None:
        """Take an answer, or None when the process has ended; on a reader thread."""
        with self._lock:
            if self._closing:
                return
            opening = self._opening is not None and worker is self._opening[0]
            if answer is None:
                self._opening_died(worker) if opening else self._died(worker)
            elif opening and isinstance(answer, Asked | Opened | Refused):
                self._opening_answered(worker, answer)
            elif worker is self._current:
                self._answered(answer)

    def _opening_answered(
        self, worker: Worker, answer: Asked | Opened | Refused
    ) -> None:
        if self._opening is None:
            return
        _, request, timer = self._opening
        timer.cancel()
        self._opening = None
        if isinstance(answer, Opened):
            self._opened = replace(request, ask="never")
            if worker is not self._current:
                self._discard(self._current)
                self._current = worker
                self._last = self._recording = None
                self._steps = ()
            self._keep_spare()
        elif isinstance(answer, Asked) and worker is not self._current:
            self._spare = worker  # it has the file's pages warm for what follows
        elif worker is not self._current:
            self._discard(worker)  # a stranger's file was in it: a fresh one is cleaner
            self._keep_spare()
        self._listener(answer)

    def _opening_died(self, worker: Worker) -> None:
        if self._opening is None:
            return
        _, request, timer = self._opening
        timer.cancel()
        self._opening = None
        worker.process.join()
        if worker is self._current:
            self._current = self._take_spare()
        name = request.path.rstrip("/\\").replace("\\", "/").rsplit("/", 1)[-1]
        reason = (
            f"{name} could not be opened: its reader {_how_ended(worker)}. The file is "
            "damaged, or needs more memory than there is."
        )
        self._listener(Refused(number=request.number, reason=reason))

    def _keep_spare(self) -> None:
        if self._spare is None:
            self._spare = Worker(self._receive)

    def _answered(self, answer: Answer) -> None:
        """Take an answer of the working process; pass on what is still wanted."""
        if isinstance(answer, LensDone):
            if answer.number == self._lens:
                self._listener(answer)
            return
        if isinstance(answer, ParametersDone):
            if self._asked is not None and answer.number == self._asked.number:
                self._listener(answer)
            return
        if isinstance(answer, Started | Stepped | Passed):
            trace, limit = self._record(answer)
            if trace is None or self._last is None:
                return
            self._steps = trace.steps
            event: Event = Decoded(
                number=answer.number, trace=trace, limit=limit, passes=self._passes
            )
        elif isinstance(answer, Opened):
            return  # reopened by a replacement: nothing new
        else:
            event, self._fragile = answer, False
        if answer.number == self._number:
            self._listener(event)

    def _record(self, answer: Started | Stepped | Passed) -> tuple[Trace | None, int]:
        """Mirror the engine's rows, those of superseded requests included."""
        if isinstance(answer, Passed):
            self._recording, before = None, self._passes[: len(answer.trace)]
            self._passes = (*before, answer.trace)
            return answer.trace, answer.limit
        self._passes = ()
        if isinstance(answer, Started) and answer.start is not None:
            self._recording = Recording(answer.start, answer.limit)
        elif self._recording is None:
            return None, 0
        elif isinstance(answer, Started):
            self._recording.shorten(answer.kept)
        else:
            self._recording.append(answer.row)
        return self._recording.trace(), self._recording.limit

    def _died(self, worker: Worker) -> None:
        """Replace a process that ended by itself: reopen, replay the shown tokens."""
        if worker is self._spare:
            self._spare = None
            return
        if worker is not self._current:
            return
        worker.process.join()
        reason = f"The engine {_how_ended(worker)}"
        self._current = self._take_spare()
        again, self._fragile = not self._fragile, True
        if self._opened is not None:
            self._current.send(self._opened)
        if self._last is not None and again:
            self._current.send(self._replay(self._last))
        if again:
            self._listener(Replaced(reason=f"{reason}; another one has taken over."))
        else:
            self._recording = None
            told = f"{reason} twice on this request: try a shorter sentence."
            self._listener(Refused(number=self._number, reason=told))

    def _replay(self, last: Decode) -> Decode:
        """Return the last request with the tokens shown so far as its prefix."""
        if last.reference:
            return last
        prefix = tuple((step.id, step.origin) for step in self._steps)
        return replace(last, prefix=prefix)


def _how_ended(worker: Worker) -> str:
    code = worker.process.exitcode
    if code is not None and code < 0:
        return f"was ended by signal {-code}"
    return f"ended with code {code}"
