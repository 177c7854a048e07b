"""Random Traces of models that are none of ours: of any kinds and sizes, by hand."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from tests.bench.random_trace import random_facts, random_trace
from visformer.values.arrays import Bools, Floats
from visformer.values.attention_heads import Bias, DistanceBias
from visformer.values.facts import (
    KINDS,
    STACKS,
    AttentionFacts,
    Kind,
    ModelFacts,
    StackFacts,
)
from visformer.values.row_columns import Columns
from visformer.values.trace import Trace

OURS = random_facts(d_model=8, heads=2, layers=2, vocabulary=50)
SCALES = 0.5, 2.0  # of two layers


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What such a model has; its layers are two."""

    kinds: tuple[Kind, ...] = KINDS
    heads: int = 4
    key_heads: int = 2
    head_size: int = 3
    value_size: int = 5
    d_model: int = 8
    hidden: bool = True
    output: bool = True
    masked_value: float = -np.inf

    def facts(self) -> ModelFacts:
        attention = AttentionFacts(
            scales=SCALES,
            heads=self.heads,
            key_heads=self.key_heads,
            head_size=self.head_size,
            value_size=self.value_size,
            masked_value=self.masked_value,
        )
        stack = StackFacts(
            d_model=self.d_model,
            hidden=(len(SCALES) + 1) * self.hidden,
            output=self.output,
        )
        return replace(
            OURS,
            name="any",
            attention=dict.fromkeys(self.kinds, attention),
            stacks={name: stack for name in STACKS if name in self.kinds},
            known=None,
        )


def any_trace(
    shape: Shape | None = None,
    *,
    source: int = 5,
    target: int = 4,
    steps: bool = True,
    bias: Literal["none", "distance", "full"] = "none",
    captured: bool = False,
    prompt: int = 0,
    seed: int = 0,
) -> Trace:
    """Return a random Trace; the later target tokens alone are masked."""
    shape, random = shape or Shape(), np.random.default_rng(seed)
    model, kinds = shape.facts(), shape.kinds
    source = source if {"encoder", "cross"} & set(kinds) else 0
    target = target if {"decoder", "cross"} & set(kinds) else 0
    sizes = {"encoder": (source,) * 2, "decoder": (target,) * 2}
    pairs = {kind: sizes.get(kind, (target, source)) for kind in kinds}

    def numbers(*shape: int) -> Floats:
        return random.standard_normal(shape).astype(np.float32)

    def added(kind: Kind) -> tuple[Bias, ...]:
        if bias == "distance":
            return (DistanceBias(numbers(shape.heads, 7), 3),) * 2  # shared by layers
        return numbers(1, *pairs[kind]), numbers(shape.heads, *pairs[kind])

    def mask(kind: Kind) -> Bools:
        return (
            np.tri(target, dtype=bool)
            if kind == "decoder"
            else np.ones(pairs[kind], bool)
        )

    made, columns = random_trace(OURS, source, target, candidates=5), Columns(model)
    weights = {
        (kind, layer): np.abs(numbers(shape.heads, *pairs[kind]))
        for kind in (kinds if captured else ())
        for layer in range(len(SCALES))
    }
    return replace(
        made,
        model=model,
        steps=made.steps if steps else (),
        encoder_rows=numbers(source, columns.width("encoder")),
        memory_rows=numbers(source, columns.width("memory")),
        decoder_rows=numbers(target, columns.width("decoder")),
        masks={kind: mask(kind) for kind in kinds},
        biases={} if bias == "none" else {kind: added(kind) for kind in kinds},
        captured=weights,
        prompt=prompt,
    )
