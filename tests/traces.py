"""Small Traces of random numbers, built without a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tests.bench.random_trace import random_facts, random_trace
from visformer.values.facts import Description, ModelFacts
from visformer.values.recording import Recording, Row
from visformer.values.step import Origin
from visformer.values.trace import Trace

VOCABULARY = 50


def make_trace(
    source: int = 5,
    target: int = 4,
    layers: int = 2,
    heads: int = 2,
    d_model: int = 8,
    seed: int = 0,
    *,
    decoder_layers: int | None = None,
    masked_value: float = -np.inf,
    sharpness: float = 1.0,
) -> Trace:
    """Return a random Trace of a small model, five candidates a step."""
    model = random_facts(
        d_model=d_model,
        heads=heads,
        layers=layers,
        vocabulary=VOCABULARY,
        decoder_layers=decoder_layers,
        masked_value=masked_value,
    )
    return random_trace(
        model, source, target, candidates=5, sharpness=sharpness, seed=seed
    )


def fed(
    trace: Trace,
    origins: Mapping[int, Origin],
    wrong: Sequence[int] = (),
    id: int = 49,
) -> Trace:
    """Return a run in which some steps' tokens were not the model's own choice.

    Those of ``wrong`` are ``▁w``, of rank 7, and not what the model would have said.
    """
    steps, target = list(trace.steps), list(trace.target)
    for row, origin in origins.items():
        steps[row] = replace(steps[row], origin=origin)
    for row in wrong:
        steps[row] = replace(steps[row], id=id, token="▁w", rank=7, probability=0.03)
        if row + 1 < len(target):
            target[row + 1] = "▁w"
    return replace(trace, steps=tuple(steps), target=tuple(target))


def with_config(model: ModelFacts, **choices: Any) -> ModelFacts:
    """Return the same model with other sizes or choices."""
    config = replace(model.config, **choices)
    return replace(model, **Description.of(config, model.kinds)._asdict())


def rows_of(trace: Trace) -> list[Row]:
    """Return a Trace's decoder rows as the engine sends them."""
    return [
        Row(
            id=int(trace.target_ids[at]),
            token=trace.target[at],
            values=trace.decoder_rows[at],
            self_mask=trace.masks["decoder"][at, : at + 1],
            cross_mask=trace.masks["cross"][at],
            step=step,
        )
        for at, step in enumerate(trace.steps)
    ]


def grown(trace: Trace) -> list[Trace]:
    """Decode a Trace row by row again, as the engine does."""
    recording = Recording(trace.until(0), len(trace))
    traces = []
    for row in rows_of(trace):
        recording.append(row)
        traces.append(recording.trace())
    return traces
