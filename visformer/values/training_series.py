"""A training series: one sentence in one state of a model after the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from visformer.values.arrays import Floats
from visformer.values.facts import Kind


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SeriesPoint:
    """What a run of the sentence measures at one point of a training."""

    name: str  # of its file or folder
    step: int  # the last number in that name; the place in the series without one
    path: str  # of its checkpoint; "" for a recorded run
    loss: float  # mean -log p of the target's tokens, in nats
    # of each head [L, H], by the measure's name; {} where it is not known
    heads: Mapping[str, Mapping[Kind, Floats]]
