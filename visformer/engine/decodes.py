"""Decodes: an engine's current decode, sent as what the window lacks of it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from visformer.engine.messages import (
    Answer,
    Decode,
    Finished,
    Passed,
    Portion,
    SearchBeams,
    Started,
    Stepped,
)
from visformer.values.intervention import NO_CHANGES, Intervention
from visformer.values.recording import rows_of
from visformer.values.trace import Trace

if TYPE_CHECKING:
    from visformer.core.decoding import Decoding
    from visformer.core.models import Model, WorkDone
    from visformer.values.beam_search import BeamSearch

MAX_PASSES = 128  # steps kept as one pass each: memory grows with their square
# long work is a generator: each yield is a place to stop, and may say how far it is
Stops = Generator["WorkDone | None", None, None]


def lean(trace: Trace) -> Trace:
    """Return the Trace without what stays in the engine: output, own weights."""
    bare = replace(trace, output_weight=None, output_bias=None, own_logits=None)
    return replace(bare, own_weights=None, own_lens=None)


class Decodes:
    """The engine's current decode; the next one continues from what they share."""

    def __init__(self, send: Callable[[Answer], None]) -> None:
        self._send = send
        self._decoding: Decoding | None = None
        self._inputs: tuple[str, int | None, Intervention] = ("", None, NO_CHANGES)
        self._sent: int | None = None  # rows that the window has; None: not in rows
        self._begun = False  # whether the request's first rows were sent

    def forget(self) -> None:
        """Start the next decode from scratch."""
        self._decoding = None

    def run(self, model: Model, number: int, request: Decode) -> Stops:
        """Carry out a request: send what changed, then every further step."""
        from visformer.core.corpus_mean import with_means
        from visformer.core.passes import run

        change = yield from with_means(model, request.intervention, run)
        decoding = self._prepared(model, replace(request, intervention=change))
        if request.reference:
            known, choices = 0, decoding.reference(request.reference)
            decoding.feed(request.reference)
        else:
            choices = decoding.after_prompt(request.prefix)
            known = decoding.common(choices)
            decoding.follow(choices)
        self._sent = None if self._sent is None else min(self._sent, known)
        self._begun = False
        if decoding.kept < decoding.rows:
            for length in range(len(choices)):  # each is a pass of its own
                decoding.follow(choices[:length])
                self._send_trace(number, decoding)
                yield None
            decoding.follow(choices)
        self._send_trace(number, decoding)
        times: list[float] = []
        if not request.reference:
            with contextlib.suppress(GeneratorExit):  # it is finished then, too
                yield from self._go_on(number, decoding, times)
        step_ms = float(np.median(times)) if times else None
        self._send(Finished(number=number, step_ms=step_ms))

    def search(
        self, model: Model, request: SearchBeams
    ) -> Generator[WorkDone, None, BeamSearch]:
        """Search by beams; a source that is decoded already is not encoded again."""
        from visformer.core.decoding import Decoding
        from visformer.core.search import named

        inputs = request.source, request.limit, request.intervention
        decoding = self._decoding if self._inputs == inputs else None
        if decoding is None:
            source, limit, change = inputs
            decoding = Decoding(model, source, limit=limit, intervention=change)
        chosen = [one.id for one in decoding.after_prompt(request.prefix)]
        found = yield from decoding.searched(chosen, request.beams)
        return named(found, model.vocabulary)

    def _go_on(self, number: int, decoding: Decoding, times: list[float]) -> Stops:
        """Decode until the end; ``times`` get each step's milliseconds.

        The longer a watched text, the more steps lie between two Traces of it: each is
        made by a pass over everything.
        """
        from visformer.core.search import named

        wait, unsent = 1, 0
        with contextlib.suppress(GeneratorExit):  # what was decoded is sent
            before = decoding.search
            yield from decoding.searching()
            if decoding.search and decoding.search is not before:
                found = named(decoding.search, decoding.checkpoint.vocabulary)
                self._send(Portion(number=number, value=found))
            while not decoding.ended:
                yield None
                began = time.perf_counter()
                decoding.advance()
                times.append(1e3 * (time.perf_counter() - began))
                unsent += 1
                if unsent == wait or decoding.ended:
                    self._send_trace(number, decoding)
                    rare = self._sent is None and decoding.kept == decoding.rows
                    wait, unsent = 1 + rare * len(times) // 4, 0
        if unsent:
            self._send_trace(number, decoding)

    def _prepared(self, model: Model, request: Decode) -> Decoding:
        """Return the decoding to continue, or a new one."""
        from visformer.core.decoding import Decoding

        inputs = (request.source, request.limit, request.intervention)
        if self._decoding is not None and self._inputs == inputs:
            self._decoding.strategy = request.strategy
            return self._decoding
        self._decoding = self._sent = None
        self._decoding = Decoding(
            model,
            request.source,
            strategy=request.strategy,
            limit=request.limit,
            intervention=request.intervention,
        )
        self._inputs = inputs
        return self._decoding

    def _send_trace(self, number: int, decoding: Decoding) -> None:
        """Send the rows that the window lacks, or a Trace that is more than its rows.

        That is one of a watched model, or one whose rows a later token changes.
        """
        trace, sent = decoding.trace, min(self._sent or 0, decoding.rows)
        settled = decoding.kept == decoding.rows
        if not settled:
            decoding.limit = min(decoding.limit, MAX_PASSES)
        limit, rows = decoding.limit, rows_of(trace, sent) if settled else None
        if rows is None:
            kept = len(trace) if settled else decoding.kept
            self._send(Passed(number=number, trace=lean(trace), limit=limit, kept=kept))
            self._sent = None
            return
        if not self._begun or sent != self._sent:
            start = lean(decoding.start) if self._sent is None else None
            self._send(Started(number=number, start=start, limit=limit, kept=sent))
            if start is not None:
                decoding.release()
        for row in rows:
            self._send(Stepped(number=number, row=row))
        self._sent, self._begun = len(trace), True
