"""RemoteEngine: the window's handle to a model that runs in somebody's own program."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection

from visformer.engine.events import Closed, Event
from visformer.engine.messages import Answer, Numbered, Open, Refused, Request, Stop
from visformer.engine.mirror import Mirror
from visformer.language import N_, _

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
        self._listener, self._connection = listener, connection
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
                self._connection.send(Numbered(number, request))
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
        with self._connection:
            while not self._closing:
                try:
                    if not self._connection.poll(LOOK_SECONDS):
                        continue
                    answer: Answer = self._connection.recv()
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
