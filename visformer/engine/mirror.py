"""Mirror: puts the rows that the engine sends together into Traces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from visformer.engine.messages import Answer, Passed, Started, Stepped
from visformer.values.facts import ModelFacts
from visformer.values.recording import Recording
from visformer.values.trace import Trace


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Decoded(Answer):
    """A decode, as far as it has come."""

    trace: Trace
    limit: int
    passes: tuple[Trace, ...] = ()  # by step, if each step changed the rows before it


class Mirror:
    """The engine's last decode; superseded requests may have contributed rows to it."""

    def __init__(self) -> None:
        self._recording: Recording | None = None
        self._passes: tuple[Trace, ...] = ()  # if the decode comes as whole passes
        self._last: Trace | None = None  # before any pass that changed its rows
        self._model: ModelFacts | None = None  # of the last decode

    def mirrors(self, answer: Answer) -> bool:
        """Tell whether an answer is a part of a decode."""
        return type(answer) in _TAKES

    def take(self, answer: Answer) -> Decoded | None:
        """Add a part; return the decode with it, or None if its start is unknown."""
        return _TAKES[type(answer)](self, answer)

    def _start(self, answer: Started) -> Decoded | None:
        if answer.start is not None:
            self._recording = Recording(self._sharing(answer.start), answer.limit)
        elif self._recording is not None:
            self._recording.shorten(answer.kept)
        return self._decoded(answer)

    def _step(self, answer: Stepped) -> Decoded | None:
        if self._recording is not None:
            self._recording.append(answer.row)
        return self._decoded(answer)

    def _decoded(self, answer: Answer) -> Decoded | None:
        self._passes, recording = (), self._recording
        if recording is None:
            return None
        self._last = trace = recording.trace()
        return Decoded(number=answer.number, trace=trace, limit=recording.limit)

    def _sharing(self, trace: Trace) -> Trace:
        """Let runs of one model share its facts: each message brings others."""
        known = self._model
        if known is not None and trace.model == known:
            return replace(trace, model=known)
        self._model = trace.model
        return trace

    def _pass(self, answer: Passed) -> Decoded:
        trace = self._sharing(answer.trace)
        if self._passes:
            trace = _of_one_run(trace, self._passes[0])
        earlier, last = self._passes[: len(trace)], self._last
        if last is not None and not earlier:  # none of its rows was changed
            earlier = tuple(map(last.until, range(min(len(last) + 1, len(trace)))))
        self._passes = () if answer.kept == len(trace) else (*earlier, trace)
        self._recording, self._last = None, trace if not self._passes else None
        return Decoded(
            number=answer.number, trace=trace, limit=answer.limit, passes=self._passes
        )


# not of each mirror: in a cycle with it, the rows of a closed model would stay for long
_TAKES: dict[type[Answer], Callable[[Mirror, Any], Decoded | None]] = {
    Started: Mirror._start,
    Stepped: Mirror._step,
    Passed: Mirror._pass,
}


def _of_one_run(trace: Trace, first: Trace) -> Trace:
    """Let a pass share what passes of one run have in common.

    What is derived from them has one bound, and the source is encoded alike.
    """
    trace = replace(trace, memo=first.memo)
    if np.array_equal(trace.encoder_rows, first.encoder_rows):
        trace = replace(trace, encoder_rows=first.encoder_rows)
    if np.array_equal(trace.memory_rows, first.memory_rows):
        trace = replace(trace, memory_rows=first.memory_rows)
    return trace
