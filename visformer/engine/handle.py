"""Engine: the window's handle to the model's processes (no Qt, no torch).

One process works, a spare waits: a checkpoint is opened in the spare, which takes over
when all checks have passed, so that a file that kills its reader does no harm. Events
arrive on the handle's own threads.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import NamedTuple

from visformer.engine import reasons
from visformer.engine.messages import (
    Answer,
    Asked,
    Closed,
    Decode,
    Down,
    Event,
    Numbered,
    Open,
    Opened,
    OpenProgressed,
    Progressed,
    Ready,
    Refused,
    Replaced,
    Request,
    SideRequest,
    Silent,
    Stop,
    Stopped,
)
from visformer.engine.mirror import Mirror
from visformer.engine.opening import Opening
from visformer.engine.wire import Wire
from visformer.engine.worker import Pool, Worker
from visformer.language import N_, _
from visformer.values.facts import ModelFacts
from visformer.values.step import Step

ANSWER_SECONDS = 10.0  # a silence that is told
STOP_SECONDS = 2.0  # an engine that is told to stop and takes longer is ended
MOST_STARTS = 2  # processes in a row that end before they are ready
MOST_DEATHS = 2  # processes that end on one request


class _OpenModel(NamedTuple):
    """What the working process has open: how to open it again, and what it was."""

    number: int
    request: Open
    model: ModelFacts


class Engine:
    """Requests in, events out, each with its request's number.

    The newest request wins. Events of a superseded request may still come: whoever
    asked decides which answers are still wanted (``session.receive``).
    """

    def __init__(
        self,
        listener: Callable[[Event], None],
        *,
        crashes: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start the first process; ``listener`` is called on the handle's threads.

        Crashes of the processes are written to the file ``crashes``; ``clock`` tells
        seconds.
        """
        self._listener, self._clock = listener, clock
        self._lock = threading.RLock()
        self._pool = Pool(self._receive, crashes)
        self._heartbeat = Heartbeat(self.beat)
        self._number = 0
        self._closing = False
        self._opening: Opening | None = None
        self._opened: _OpenModel | None = None
        self._reopening = False  # a replacement is still opening it
        self._failed = 0  # processes in a row that ended before they were ready
        self._down = False  # no process works, and none is started unasked
        self._newest: Numbered | None = None  # until it is answered: what is replayed
        self._deaths = 0  # processes that ended while they were at it
        self._steps: Sequence[Step] = ()  # of the newest decode, as far as it came
        self._mirror = Mirror()
        self._heard = 0.0  # when the working process was last heard, or asked at rest
        self._silent = False  # that it is silent has been told
        self._stop_by: float | None = None  # when it must have stopped
        self._current = self._pool.take()

    def open(self, request: Open) -> int:
        """Open a checkpoint; the open model stays until the new one is ready.

        Returns the request's number.
        """
        with self._lock:
            self._abandon_opening()
            if self._down and self._opened is None:
                self._current, self._down = self._pool.take(), False
            self._failed = 0
            numbered = self._numbered(request)
            worker = self._current if self._opened is None else self._pool.take()
            now = self._clock()
            self._opening = Opening(worker, numbered.number, request, now)
            self._send_opening(worker, numbered)
            self._heartbeat.wake()
            return numbered.number

    def _send_opening(self, worker: Worker, numbered: Numbered) -> None:
        """Let a process open a checkpoint; what waits for a first model follows."""
        worker.send(numbered)
        if self._opened is None and self._newest is not None:
            worker.send(self._newest)

    def abandon(self) -> None:
        """Abandon an opening; the open model stays."""
        with self._lock:
            self._abandon_opening()
            if self._opened is not None:
                self._pool.keep_spare()

    def ask(self, request: Request) -> int:
        """Ask anything else; returns the request's number.

        It supersedes what was asked before, unless it is a side request. Where no
        process could be started, another try is made.
        """
        with self._lock:
            if self._down:
                self._failed, self._down = 0, False
                self._replace()
            numbered = self._numbered(request)
            if not isinstance(request, SideRequest):
                if self._newest is None:
                    self._heard = self._clock()
                self._newest, self._deaths, self._steps = numbered, 0, ()
                self._stop_by = None
                self._heartbeat.wake()
            self._current.send(numbered)
            return numbered.number

    def stop(self) -> None:
        """End what is computed after its current step; what is done stays.

        A process that does not stop in time is ended, and another one takes over.
        """
        with self._lock:
            if self._newest is not None:
                self._stop_by = self._clock() + STOP_SECONDS
                self._current.send(self._numbered(Stop()))
                self._heartbeat.wake()

    def close(self) -> None:
        """End every process and thread; no event comes after this."""
        with self._lock:
            self._closing = True
            workers = {self._current}
            if self._opening is not None:
                workers.add(self._opening.worker)
        self._heartbeat.close()
        self._pool.close(workers)

    def beat(self) -> bool:
        """Look whether the process still answers; True: something is awaited of it."""
        with self._lock:
            if self._closing:
                return False
            now, opening = self._clock(), self._opening
            if opening is not None:
                self._look_at(opening, now)
            if opening is not None and opening.worker is self._current:
                return True  # what waits for its model is answered after it
            if self._newest is None:
                return opening is not None
            if self._stop_by is not None and now >= self._stop_by:
                self._end_hung()
                return False
            if not self._silent and now - self._heard >= ANSWER_SECONDS:
                self._silent = True
                self._listener(Silent(reason=reasons.silent(now - self._heard)))
            return True

    def _look_at(self, opening: Opening, now: float) -> None:
        """Tell how far an opening is; give it up where its process stands still."""
        progress = opening.look(now)
        if progress is not None:
            self._listener(progress)
        if opening.stands_still:
            if opening.worker is self._current:
                self._settle()  # what waited for its model is not answered
            self.abandon()
            reason = reasons.stood_still(opening.request)
            self._listener(Refused(number=opening.number, reason=reason))

    def _end_hung(self) -> None:
        """End a process that does not stop; its request is not asked again."""
        hung = self._current
        self._settle()
        self._replace()
        self._pool.discard(hung)
        self._listener(Replaced(reason=reasons.ended_hung()))

    def _numbered(self, request: Request) -> Numbered:
        self._number += 1
        return Numbered(self._number, request)

    def _abandon_opening(self) -> None:
        """Drop an opening that is superseded."""
        if self._opening is None:
            return
        opening, self._opening = self._opening, None
        self._pool.discard(opening.worker)
        if opening.worker is self._current:
            self._current = self._pool.take()

    def _receive(self, worker: Worker, answer: Answer | None) -> None:
        """Take an answer, or None when the process has ended; on a reader thread."""
        with self._lock:
            if self._closing:
                return
            opening = self._opening
            if opening is not None and worker is not opening.worker:
                opening = None
            if answer is None:
                self._died(worker) if opening is None else self._opening_died(opening)
            elif isinstance(answer, OpenProgressed):
                if opening is not None:
                    opening.reads(answer.size)
            elif isinstance(answer, Ready):
                return
            elif opening is not None and isinstance(answer, Asked | Opened | Refused):
                self._opening_answered(opening, answer)
            elif worker is self._current:
                self._answered(answer)

    # ---- openings ------------------------------------------------------------------

    def _opening_answered(
        self, opening: Opening, answer: Asked | Opened | Refused
    ) -> None:
        self._opening, worker = None, opening.worker
        if worker is self._current:
            self._hear()
        if isinstance(answer, Opened):
            again = replace(opening.request, ask="never")
            self._opened = _OpenModel(opening.number, again, answer.model)
            if worker is not self._current:
                self._pool.discard(self._current)
                self._current = worker
                self._settle()
                self._mirror = Mirror()
            self._failed, self._down, self._reopening = 0, False, False
            self._pool.keep_spare()
        elif isinstance(answer, Asked) and worker is not self._current:
            self._pool.spare = worker  # it has the file in memory for what follows
        elif worker is not self._current:
            self._pool.discard(
                worker
            )  # it has read an unknown file: a fresh one is safer
            self._pool.keep_spare()
        self._listener(answer)

    def _opening_died(self, opening: Opening) -> None:
        worker = opening.worker
        worker.process.join()
        if not worker.heard:  # not the file's fault: it had not started yet
            self._failed += 1
        started_again = not worker.heard and self._failed < MOST_STARTS
        alone = worker is self._current
        if started_again or (alone and worker.heard):
            fresh = self._pool.take()
            self._current = fresh if alone else self._current
        if started_again:
            opening.worker = fresh
            self._send_opening(fresh, Numbered(opening.number, opening.request))
            return
        self._opening = None
        if alone:
            self._settle()  # what waited for the model will not be answered
        self._down = self._down or (alone and not worker.heard)
        reason = reasons.not_opened(opening.request, worker)
        self._listener(Refused(number=opening.number, reason=reason))

    # ---- the working process ---------------------------------------------------------

    def _answered(self, answer: Answer) -> None:
        """Pass on an answer of the working process; rows become a Trace."""
        self._hear()
        if isinstance(answer, Stopped):
            self._settle()
        elif self._reopening and isinstance(answer, Opened | Refused):
            self._reopened(answer)
        elif self._mirror.mirrors(answer):
            decoded = self._mirror.take(answer)
            if decoded is not None:
                if self._is_newest(answer):
                    self._steps = decoded.trace.steps
                self._listener(decoded)
        else:
            # the last answer, unless it says how much is done
            if self._is_newest(answer) and not isinstance(answer, Progressed):
                self._settle()
                self._pool.save_memory()
            self._listener(answer)

    def _hear(self) -> None:
        """Note that the process answers, or that another one begins."""
        self._heard = self._clock()
        if self._silent:
            self._silent = False
            self._listener(Silent())

    def _is_newest(self, answer: Answer) -> bool:
        return self._newest is not None and answer.number == self._newest.number

    def _settle(self) -> None:
        """Nothing is to be answered any more."""
        self._newest, self._steps, self._stop_by = None, (), None
        self._deaths = 0

    def _reopened(self, answer: Opened | Refused) -> None:
        """Go on with the model that was open, and with no other."""
        self._reopening = False
        if self._opened is None:
            return
        self._failed = 0
        _number, request, model = self._opened
        if isinstance(answer, Refused):
            reason = reasons.gone(request, answer.reason)
        elif not _same_weights(answer.model, model):
            reason = reasons.changed(request)
        else:
            return
        self._opened = None
        self._settle()
        self._pool.discard(self._current)  # it may hold other weights
        self._replace()
        self._listener(Closed(reason=reason))

    def _died(self, worker: Worker) -> None:
        """Replace a process that ended by itself: reopen, replay the shown tokens."""
        if worker is self._pool.spare:
            self._pool.spare = None
            return
        if worker is not self._current or self._down:
            return
        worker.process.join()
        newest, started = self._newest, worker.heard and not self._reopening
        if started:
            self._deaths += 1
        else:
            self._failed += 1
        if self._failed >= MOST_STARTS:
            self._give_up(worker)
            return
        if self._deaths >= MOST_DEATHS:
            self._settle()
        self._replace()
        self._listener(Replaced(reason=reasons.replaced(worker)))
        if newest is not None and self._newest is None:
            reason = reasons.ended_twice(worker)
            self._listener(Refused(number=newest.number, reason=reason))

    def _give_up(self, worker: Worker) -> None:
        """Start no more processes until something is asked for."""
        self._down = True
        self._settle()
        self._listener(Down(reason=reasons.down(worker)))

    def _replace(self) -> None:
        """Let another process take over: the same model, the unanswered request."""
        self._current = self._pool.take()
        self._mirror = Mirror()
        self._hear()
        self._reopening = self._opened is not None
        if self._opened is not None:
            number, request, _model = self._opened
            self._current.send(Numbered(number, request))
        if self._newest is not None:
            self._current.send(self._replay(self._newest))

    def _replay(self, newest: Numbered) -> Numbered:
        """Return a request; a decode has the tokens decoded so far as its prefix."""
        number, request = newest
        if not isinstance(request, Decode) or request.reference:
            return newest
        prefix = tuple(step.choice for step in self._steps)
        if len(prefix) < len(request.prefix):
            return newest
        return Numbered(number, replace(request, prefix=prefix))


def _same_weights(one: ModelFacts, other: ModelFacts) -> bool:
    """Tell whether two models compute the same, on whatever device."""
    return replace(one, device="") == replace(other, device="")


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


GONE = (EOFError, OSError)  # the other program has ended
ENDED = N_("The program that this model runs in has ended. What it computed stays.")
LOOK_SECONDS = 0.2  # how often the reader looks whether it is to end


class RemoteEngine:
    """Requests in, events out, as ``Engine`` has them; one program answers, or none.

    When it ends the window keeps what it has, and says so.
    """

    def __init__(
        self, listener: Callable[[Event], None], connection: Connection
    ) -> None:
        """Listen on a thread of its own, on which ``listener`` is called."""
        self._listener, self._wire = listener, Wire(connection)
        self._lock = threading.Lock()
        self._number, self._mirror = 0, Mirror()
        self._closing = self._ended = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def open(self, request: Open) -> int:
        """Ask for the one model that there is; the path is its name."""
        return self.ask(request)

    def ask(self, request: Request) -> int:
        """Ask anything; returns the request's number.

        Where nobody is there to answer, it is refused.
        """
        with self._lock:
            self._number += 1
            number, ended = self._number, self._ended
            with contextlib.suppress(*GONE):
                self._wire.send(Numbered(number, request))
        if ended and not isinstance(request, Stop):
            self._listener(Refused(number=number, reason=_(ENDED)))
        return number

    def stop(self) -> None:
        """End what is computed after its current step; what is done stays."""
        self.ask(Stop())

    def abandon(self) -> None:
        """Do nothing: there is one model, and it is open."""

    def close(self) -> None:
        """Hang up: the other program goes on without the window."""
        self._closing = True
        self._reader.join()

    def _read(self) -> None:
        """Read until either side ends; nobody else closes what is read from."""
        with contextlib.closing(self._wire):
            while not self._closing:
                try:
                    if not self._wire.poll(LOOK_SECONDS):
                        continue
                    answer: Answer = self._wire.recv()
                except GONE:
                    break
                self._pass_on(answer)
        with self._lock:
            self._ended = True
        if not self._closing:
            self._listener(Closed(reason=_(ENDED)))

    def _pass_on(self, answer: Answer) -> None:
        if not self._mirror.mirrors(answer):
            self._listener(answer)
        elif (decoded := self._mirror.take(answer)) is not None:
            self._listener(decoded)
