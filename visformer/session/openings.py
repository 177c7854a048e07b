"""Openings: what is asked of the engine until a checkpoint is open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from visformer.engine.messages import Asked, Open, Opened, Refused
from visformer.session.answers import Answers
from visformer.session.state import Session
from visformer.values.questions import Asking, Overrides, Value, merged


class Opener(Protocol):
    """What opening needs of the engine."""

    def open(self, request: Open) -> int:
        """Open a checkpoint, or ask about it; returns the request's number."""

    def abandon(self) -> None:
        """Give up an opening."""


@dataclass(frozen=True, slots=True)
class _Opening:
    """The opening that the window waits for."""

    number: int
    path: str
    device: str
    told: Overrides
    retry: Overrides | None  # what is certain, where earlier answers count


class Openings:
    """Asks the engine to open, remembers what was told, brings questions to State."""

    def __init__(self, session: Session, engine: Opener, answers: Answers) -> None:
        self._session, self._engine, self._answers = session, engine, answers
        self._waiting: _Opening | None = None
        self._asked: _Opening | None = None  # that which led to the questions
        self._path = ""  # of the checkpoint that is open

    def open(
        self,
        path: str,
        device: str = "",
        told: Overrides | None = None,
        beside: Overrides = (),
    ) -> None:
        """Open a checkpoint; ``told`` is what its file does not tell.

        Without it that of an earlier opening counts, and where there was none,
        questions come first; ``beside`` is certain in either case.
        """
        known = self._answers.told(path)
        if told is not None:
            self._send(path, device, told, "never")
        elif known is not None:
            told = merged(known, dict(beside))
            self._send(path, device, told, "never", retry=beside)
        else:
            self._send(path, device, beside, "open")

    def ask_again(self) -> None:
        """Ask what was answered, or taken for granted, about the open checkpoint."""
        if self._path:
            self._send(self._path, "", self._answers.told(self._path) or (), "always")

    def tell(self, more: Mapping[str, Value | None]) -> None:
        """Open the open checkpoint anew, with more told of it."""
        if self._path:
            known = self._answers.told(self._path) or ()
            self._send(self._path, "", merged(known, more), "never")

    def answer(self, answers: Mapping[str, Value | None]) -> None:
        """Open the file that was asked about; its form stays until that is done.

        ``answers`` are those that differ from what was offered, or are mandatory.
        """
        asked = self._asked
        if asked is not None:
            told = merged(asked.told, answers)
            self._send(asked.path, asked.device, told, "never")

    def cancel(self) -> None:
        """Leave the questions, and the opening; the open model stays."""
        self._engine.abandon()
        self._waiting = self._asked = None
        self._session.set(asked=None, busy="", error="")

    def _send(
        self,
        path: str,
        device: str,
        told: Overrides,
        ask: Asking,
        *,
        retry: Overrides | None = None,
    ) -> None:
        request = Open(path=path, device=device, told=told, ask=ask)
        number = self._engine.open(request)
        self._waiting = _Opening(number, path, device, told, retry)
        busy = f"opening {Path(path).name or path}"
        self._session.set(busy=busy, error="", notice="")

    def asked(self, event: Asked) -> None:
        """Show the questions."""
        self._asked = self._waiting
        self._session.set(asked=event, busy="")

    def refused(self, event: Refused) -> bool:
        """Ask where earlier answers no longer do; tell whether that is so.

        The file may be another one by now.
        """
        waiting = self._waiting
        if waiting is None or event.number != waiting.number or waiting.retry is None:
            return False
        self._send(waiting.path, waiting.device, waiting.retry, "open")
        return True

    def opened(self, event: Opened) -> bool:
        """Keep what was told; tell whether it was told of other weights than these."""
        self._path, waiting = event.path, self._waiting
        self._waiting = self._asked = None
        if waiting is None or waiting.path != event.path:
            return False
        digest = event.model.digest
        recalled = waiting.retry is not None
        changed = recalled and self._answers.changed(event.path, digest)
        if waiting.told or self._session.state.asked is not None:
            self._answers.keep(event.path, digest, waiting.told)
        return changed
