"""Decodes in the engine process: a sentence's rows are sent as they are made."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from visformer.engine.messages import (
    Answer,
    Decode,
    Finished,
    Passed,
    Started,
    Stepped,
)
from visformer.engine.replies import lean
from visformer.values.intervention import NO_CHANGES, Intervention
from visformer.values.recording import Row

if TYPE_CHECKING:
    from visformer.core.checkpoint import Checkpoint
    from visformer.core.decoding import Decoding
    from visformer.core.stepping import Stepping

MAX_PASSES = 128  # steps kept as one pass each: memory grows with their square


class Decodes:
    """The engine's current decode; the next one continues from what they share."""

    def __init__(
        self, send: Callable[[Answer], None], interrupted: Callable[[], bool]
    ) -> None:
        """``interrupted`` is asked between steps: True ends the decode there."""
        self._send, self._interrupted = send, interrupted
        self._decoding: Decoding | None = None
        self._inputs: tuple[str, int | None, Intervention] = ("", None, NO_CHANGES)

    def forget(self) -> None:
        """Start the next decode from scratch."""
        self._decoding = None

    def run(self, checkpoint: Checkpoint, number: int, request: Decode) -> None:
        """Carry out a request: send what changed, then every further step."""
        decoding, fresh = self._prepared(checkpoint, request)
        if not decoding.settled:
            self._finish(number, self._passes(number, request, decoding))
            return
        if not decoding.in_rows:
            self._finish(number, self._watched(number, request, decoding))
            return
        kept = 0 if fresh else decoding.common(request.prefix)
        if request.reference:
            decoding.feed(request.reference)
            kept = 0
        else:
            decoding.follow(request.prefix)
            kept = min(kept, decoding.changed)
        start = lean(decoding.start) if fresh else None
        self._send(Started(number=number, start=start, limit=decoding.limit, kept=kept))
        for row in decoding.rows(kept):
            self._send_row(number, row)
        times: list[float] = []
        if not request.reference:
            times = self._go_on(decoding, lambda: self._send_step(number, decoding))
        self._finish(number, times)

    def _go_on(self, decoding: Stepping, send: Callable[[], None]) -> list[float]:
        """Decode until the end or a newer request -> each step's milliseconds."""
        times: list[float] = []
        while not (decoding.ended or self._interrupted()):
            began = time.perf_counter()
            decoding.step()
            times.append(1e3 * (time.perf_counter() - began))
            send()
        return times

    def _finish(self, number: int, times: list[float]) -> None:
        step_ms = float(np.median(times)) if times else None
        self._send(Finished(number=number, step_ms=step_ms))

    def _watched(self, number: int, request: Decode, decoding: Stepping) -> list[float]:
        """Send passes of a model that is watched, each of which holds all before it.

        The longer the text, the more steps lie between two of them: each is a pass
        over everything.
        """
        decoding.follow(
            decoding.reference(request.reference)
            if request.reference
            else decoding.after_prompt(request.prefix)
        )
        times: list[float] = []
        self._send_pass(number, decoding)
        wait, unsent = 1, 0
        while not (request.reference or decoding.ended or self._interrupted()):
            began = time.perf_counter()
            decoding.advance()
            times.append(1e3 * (time.perf_counter() - began))
            unsent += 1
            if unsent == wait or decoding.ended:
                self._send_pass(number, decoding)
                wait, unsent = 1 + len(times) // 4, 0
        if unsent:
            self._send_pass(number, decoding)
        return times

    def _passes(self, number: int, request: Decode, decoding: Stepping) -> list[float]:
        """Send each step as a whole pass: earlier rows change with every token."""
        choices = decoding.after_prompt(request.prefix)
        if request.reference:
            choices = decoding.reference(request.reference)
        for length in range(len(choices) + 1):
            if length and self._interrupted():
                return []
            decoding.follow(choices[:length])
            self._send_pass(number, decoding)
        if request.reference:
            return []
        return self._go_on(decoding, lambda: self._send_pass(number, decoding))

    def _send_pass(self, number: int, decoding: Stepping) -> None:
        trace, limit = lean(decoding.trace), decoding.limit
        settled = decoding.settled
        self._send(Passed(number=number, trace=trace, limit=limit, settled=settled))

    def _prepared(
        self, checkpoint: Checkpoint, request: Decode
    ) -> tuple[Decoding, bool]:
        """Return the decoding to continue, and whether it is a new one."""
        from visformer.core.decoding import Decoding

        inputs = (request.source, request.limit, request.intervention)
        if self._decoding is not None and self._inputs == inputs:
            self._decoding.strategy = request.strategy
            return self._decoding, False
        self._decoding = None
        decoding = Decoding(
            checkpoint,
            request.source,
            strategy=request.strategy,
            limit=request.limit,
            intervention=request.intervention,
        )
        if not decoding.settled:
            decoding.limit = min(decoding.limit, MAX_PASSES)
        self._decoding, self._inputs = decoding, inputs
        return decoding, True

    def _send_step(self, number: int, decoding: Decoding) -> None:
        """Send the new row, preceded by the earlier rows that it changed."""
        rows = decoding.rows(decoding.changed)
        if len(rows) > 1:
            self._send(
                Started(
                    number=number,
                    start=None,
                    limit=decoding.limit,
                    kept=decoding.changed,
                )
            )
        for row in rows:
            self._send_row(number, row)

    def _send_row(self, number: int, row: Row) -> None:
        self._send(Stepped(number=number, row=row))
