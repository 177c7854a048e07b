"""Asking the engine for the logit lens, a few rows at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from visformer.engine.messages import Lens, LensDone
from visformer.pictures.output import known_rows
from visformer.session.state import Session
from visformer.values.facts import ModelFacts
from visformer.values.layer_weights import same_model
from visformer.values.lens import LensRows, streams
from visformer.values.memo import same
from visformer.values.strategy import Strategy

if TYPE_CHECKING:
    from visformer.session.requests import EngineLike

MOST_BYTES = 1 << 16  # of rows in one question: a pipe takes so much without waiting


class LensRequests:
    """One question at a time; each answer adds its rows to the State."""

    def __init__(self, session: Session, engine: EngineLike) -> None:
        self._session, self._engine = session, engine
        # the question: of what Trace, which rows, how tokens are chosen
        self._asked: tuple[tuple[object, ...], tuple[int, ...], Strategy] | None = None

    @property
    def asking(self) -> bool:
        """Tell whether an answer is still to come."""
        return self._asked is not None

    def ask(
        self, rows: tuple[int, ...], model: ModelFacts | None, strategy: Strategy
    ) -> None:
        """Ask for the first of ``rows``, where the engine has the Trace's model."""
        shown = self._session.state.shown
        trace = None if shown is None else shown.whole
        if self._asked is not None or trace is None or model is None or not rows:
            return
        if not same_model(model, trace.model):
            return
        width = 4 * trace.model.config.d_model * (trace.layers("decoder") + 1)
        rows = rows[: max(1, MOST_BYTES // width)]
        self._asked = trace.storage, rows, strategy
        chosen = np.array([trace.steps[row].id for row in rows], np.int64)
        question = Lens(
            hidden=streams(trace, rows),
            chosen=chosen,
            temperature=strategy.temperature,
        )
        self._engine.ask(question)

    def receive(self, event: LensDone) -> None:
        """Add rows that came; that none came is kept too, so as not to ask again."""
        if self._asked is None:
            return
        (of, rows, strategy), self._asked = self._asked, None
        state = self._session.state
        trace = state.shown
        if trace is None or not same(of, trace.storage):
            self._session.set()  # another run is on screen: its rows are asked for next
            return
        found = {
            **known_rows(trace, state.lens),
            **dict(zip(rows, event.rows, strict=False)),
        }
        refused = not event.rows
        self._session.set(
            lens=LensRows(of=of, strategy=strategy, rows=found, refused=refused)
        )

    def forget(self) -> None:
        """Give up on the question: the engine that was asked is gone."""
        self._asked = None
