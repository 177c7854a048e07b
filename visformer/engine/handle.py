"""Engine: the window's handle to the model's processes (no Qt, no torch).

One process works, a spare waits: a checkpoint is opened in the spare, which takes over
when all checks have passed, so that a file that kills its reader does no harm. Events
arrive on the handle's own threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from visformer.engine.messages import (
    Answer,
    Asked,
    Decode,
    Numbered,
    Open,
    Opened,
    Refused,
    Request,
)
from visformer.engine.mirror import Mirror
from visformer.engine.worker import Worker
from visformer.language import _
from visformer.values.step import Step

OPEN_SECONDS = 120.0  # an opening that takes longer is abandoned


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaced:
    """The working process ended and another one took over; nothing shown was lost."""

    reason: str


Event = Answer | Replaced


class _Opening(NamedTuple):
    """A checkpoint that is being opened."""

    worker: Worker
    number: int
    request: Open
    timer: threading.Timer


class Engine:
    """Requests in, events out, each with its request's number.

    The newest request wins. Events of a superseded request may still come: whoever
    asked decides which answers are still wanted (``session.receive``).
    """

    def __init__(self, listener: Callable[[Event], None]) -> None:
        """Start the first process; ``listener`` is called on the handle's threads."""
        self._listener = listener
        self._lock = threading.RLock()
        self._number = 0
        self._closing = False
        self._ended: list[Worker] = []
        self._spare: Worker | None = None
        self._opening: _Opening | None = None
        self._timers: list[threading.Timer] = []  # of openings, until they have ended
        self._opened: Numbered | None = None  # what the working process has open
        self._newest: Numbered | None = None  # the request that a replacement replays
        self._steps: Sequence[Step] = ()  # of the newest decode, as far as it came
        self._mirror = Mirror()
        self._fragile = False  # it was replaced, and has ended no request since
        self._current = Worker(self._receive)

    def open(self, request: Open) -> int:
        """Open a checkpoint; the open model stays until the new one is ready.

        Returns the request's number.
        """
        with self._lock:
            self._abandon_opening()
            numbered = self._numbered(request)
            worker = self._current if self._opened is None else self._take_spare()
            timer = threading.Timer(OPEN_SECONDS, self._too_slow, (worker,))
            timer.daemon = True
            self._timers = [*filter(threading.Timer.is_alive, self._timers), timer]
            self._opening = _Opening(worker, numbered.number, request, timer)
            timer.start()
            worker.send(numbered)
            return numbered.number

    def abandon(self) -> None:
        """Abandon an opening; the open model stays."""
        with self._lock:
            self._abandon_opening()
            if self._opened is not None:
                self._keep_spare()

    def ask(self, request: Request) -> int:
        """Ask anything else; returns the request's number.

        It supersedes what was asked before, unless it is a side request.
        """
        with self._lock:
            numbered = self._numbered(request)
            if not request.is_side_request:
                self._newest, self._steps = numbered, ()
            self._current.send(numbered)
            return numbered.number

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

    def _numbered(self, request: Request) -> Numbered:
        self._number += 1
        return Numbered(self._number, request)

    def _take_spare(self) -> Worker:
        worker, self._spare = self._spare or Worker(self._receive), None
        return worker

    def _abandon_opening(self) -> None:
        """Drop an opening that is superseded."""
        if self._opening is None:
            return
        worker, _number, _request, timer = self._opening
        timer.cancel()
        self._opening = None
        self._discard(worker)
        if worker is self._current:
            self._current = self._take_spare()

    def _discard(self, worker: Worker) -> None:
        """End a process without waiting for it; ``close`` waits."""
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
        _worker, number, request, timer = self._opening
        timer.cancel()
        self._opening = None
        if isinstance(answer, Opened):
            self._opened = Numbered(number, replace(request, ask="never"))
            if worker is not self._current:
                self._discard(self._current)
                self._current = worker
                self._newest, self._steps, self._mirror = None, (), Mirror()
            self._keep_spare()
        elif isinstance(answer, Asked) and worker is not self._current:
            self._spare = worker  # it has the file in memory for what follows
        elif worker is not self._current:
            self._discard(worker)  # it has read an unknown file: a fresh one is safer
            self._keep_spare()
        self._listener(answer)

    def _opening_died(self, worker: Worker) -> None:
        if self._opening is None:
            return
        _worker, number, request, timer = self._opening
        timer.cancel()
        self._opening = None
        worker.process.join()
        if worker is self._current:
            self._current = self._take_spare()
        name = request.path.rstrip("/\\").replace("\\", "/").rsplit("/", 1)[-1]
        reason = _(
            "{name} could not be opened: its reader ended ({end}). The file is "
            "damaged, or needs more memory than there is.",
            name=name,
            end=worker.how_it_ended(),
        )
        self._listener(Refused(number=number, reason=reason))

    def _keep_spare(self) -> None:
        if self._spare is None:
            self._spare = Worker(self._receive)

    def _answered(self, answer: Answer) -> None:
        """Pass on an answer of the working process; rows become a Trace."""
        newest = self._newest is not None and answer.number == self._newest.number
        if isinstance(answer, Opened):
            return  # reopened by a replacement: nothing new
        if not self._mirror.mirrors(answer):
            self._fragile = self._fragile and not newest
            self._listener(answer)
            return
        decoded = self._mirror.take(answer)
        if decoded is not None:
            if newest:
                self._steps = decoded.trace.steps
            self._listener(decoded)

    def _died(self, worker: Worker) -> None:
        """Replace a process that ended by itself: reopen, replay the shown tokens."""
        if worker is self._spare:
            self._spare = None
            return
        if worker is not self._current:
            return
        worker.process.join()
        end = worker.how_it_ended()
        self._current = self._take_spare()
        again, self._fragile = not self._fragile, True
        if self._opened is not None:
            self._current.send(self._opened)
        if self._newest is not None and again:
            self._current.send(self._replay(self._newest))
        if again:
            reason = _("The engine ended ({end}); another one has taken over.", end=end)
            self._listener(Replaced(reason=reason))
        else:
            self._mirror = Mirror()
            reason = _(
                "The engine ended twice on this request ({end}): try a shorter "
                "sentence.",
                end=end,
            )
            number = 0 if self._newest is None else self._newest.number
            self._listener(Refused(number=number, reason=reason))

    def _replay(self, newest: Numbered) -> Numbered:
        """Return a request; a decode has the tokens decoded so far as its prefix."""
        number, request = newest
        if not isinstance(request, Decode) or request.reference:
            return newest
        prefix = tuple((step.id, step.origin) for step in self._steps)
        if len(prefix) < len(request.prefix):
            return newest
        return Numbered(number, replace(request, prefix=prefix))
