"""One layer recomputed, sublayer by sublayer, from the Trace and the layer's weights.

A Trace keeps the residual stream between layers and every query, key and value; what
happens in between (concatenation, W_O, residual, norm, feed-forward) is computed here
from the layer's weights, for a block of rows: once the keys and values are there, the
rows do not depend on each other.

The formulas work on rows [..., N], float32 in and out.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from visformer.values.arrays import Floats
from visformer.values.facts import Kind, ModelFacts
from visformer.values.layer_weights import (
    AttentionWeights,
    FeedForwardWeights,
    LayerParameters,
    NormWeights,
)
from visformer.values.trace import Trace


class Standard(NamedTuple):
    """Numbers with mean 0 and deviation 1, and the mean and deviation they had."""

    values: Floats  # [..., N]
    mean: Floats
    deviation: Floats  # the root of variance + eps, which the numbers are divided by


def layer_standard(x: Floats, eps: float, *, unbiased: bool = False) -> Standard:
    """Standardise every row by its own mean and variance (Ba et al. 2016).

    The variance is over N, or over N - 1 if ``unbiased``; eps is inside the root.
    """
    mean = x.mean(-1, keepdims=True)  # [..., 1]
    with np.errstate(invalid="ignore", divide="ignore"):
        variance = x.var(-1, keepdims=True, ddof=int(unbiased))
        deviation = np.sqrt(variance + np.float32(eps))
        return Standard((x - mean) / deviation, mean, deviation)


def rms_standard(x: Floats, eps: float) -> Standard:
    """Divide every row by its root mean square (Zhang & Sennrich 2019).

    No mean is subtracted; the ``mean`` returned is 0.
    """
    square = np.square(x).mean(-1, keepdims=True)  # [..., 1]
    deviation = np.sqrt(square + np.float32(eps))
    with np.errstate(invalid="ignore", divide="ignore"):
        return Standard(x / deviation, np.zeros_like(deviation), deviation)


def batch_standard(x: Floats, eps: float) -> Standard:
    """Standardise every column of [N, D] over its rows (Ioffe & Szegedy 2015).

    As batch norm does in training: the variance is over the number of rows.
    """
    by_token = layer_standard(np.ascontiguousarray(x.T), eps)  # [D, N]
    return Standard(by_token.values.T, by_token.mean.T, by_token.deviation.T)


def relu(x: Floats) -> Floats:
    """max(0, x)."""
    return np.maximum(x, np.float32(0))


def gelu(x: Floats) -> Floats:
    """Multiply x by its normal distribution function (Hendrycks & Gimpel 2016)."""
    wide = x.astype(np.float64)
    y: Floats = (wide * 0.5 * (1 + _erf(wide / math.sqrt(2)))).astype(np.float32)
    return y


def silu(x: Floats) -> Floats:
    """Multiply x by its logistic function."""
    with np.errstate(over="ignore"):
        y: Floats = x / (1 + np.exp(-x))
        return y


ACTIVATIONS: dict[str, Callable[[Floats], Floats]] = {
    "relu": relu,
    "gelu": gelu,
    "silu": silu,
    "tanh": np.tanh,
}


def size(x: Floats) -> Floats:
    """L2 norm of every row: [..., N] -> [...]."""
    norms: Floats = np.linalg.norm(x, axis=-1)
    return norms


def cosine(x: Floats, y: Floats) -> Floats:
    """Cosine of the angle between rows, in [-1, 1]; NaN where a row is all 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        cosines: Floats = (x * y).sum(-1) / (size(x) * size(y))
        return cosines


def _erf(x: np.ndarray) -> np.ndarray:
    """Error function within 1.5e-7 (Abramowitz & Stegun, formula 7.1.26).

    numpy has none, and Python's takes 20 times as long on an array.
    """
    coefficients = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
    magnitude = np.abs(x)
    t = 1 / (1 + 0.3275911 * magnitude)
    series = np.zeros_like(t)
    for coefficient in coefficients:
        series = (series + coefficient) * t
    result: np.ndarray = np.sign(x) * (1 - series * np.exp(-magnitude * magnitude))
    return result


def standard(model: ModelFacts, x: Floats) -> Standard:
    """Standardise rows as the model's norms do, before gamma and beta."""
    config = model.config
    if config.norm == "rms":
        return rms_standard(x, config.norm_eps)
    return layer_standard(x, config.norm_eps, unbiased=config.norm == "unbiased")


def normed(model: ModelFacts, norm: NormWeights, x: Floats) -> Floats:
    """Apply one of the model's norms to rows [..., D]."""
    scaled = standard(model, x).values * norm.gamma
    return scaled if norm.beta is None else scaled + norm.beta


def joined_heads(trace: Trace, kind: Kind, layer: int, rows: slice) -> Floats:
    """Return the outputs of all heads side by side, [rows, D], before W_O.

    One head at a time, so that no [H, rows, K] is needed.
    """
    each = [trace.z(kind, layer, head, rows) for head in range(trace.heads(kind))]
    return np.concatenate(each, axis=1)  # [rows, D]


@dataclass(frozen=True, eq=False)
class Residual:
    """A sublayer's input, what it adds, and its output; all [rows, D]."""

    model: ModelFacts
    norm: NormWeights
    x: Floats  # the residual stream that enters
    added: Floats
    changed: Callable[[Floats], Floats] | None = None  # what a run makes of its output

    @property
    def reads(self) -> Floats:
        """The sublayer's input: the stream, normalised in pre-norm models."""
        return self.normed if self.model.config.norm_first else self.x

    @cached_property
    def summed(self) -> Floats:
        """The stream plus what was added."""
        return self.x + self.added

    @property
    def to_norm(self) -> Floats:
        """What the norm reads: the stream in pre-norm models, else the sum."""
        return self.x if self.model.config.norm_first else self.summed

    @cached_property
    def normed(self) -> Floats:
        """What the norm returns."""
        return normed(self.model, self.norm, self.to_norm)

    @property
    def output(self) -> Floats:
        """The residual stream after the sublayer."""
        made = self.summed if self.model.config.norm_first else self.normed
        return made if self.changed is None else self.changed(made)


@dataclass(frozen=True, eq=False)
class AttentionRows:
    """Self or cross attention of a block of rows."""

    joined: Floats  # [rows, D]: the heads' outputs side by side, before W_O
    residual: Residual


@dataclass(frozen=True, eq=False)
class FeedForwardRows:
    """The feed-forward of a block of rows."""

    pre_activation: Floats  # x W1 + b1, [rows, F]
    active: Floats  # its activation
    gate: Floats | None  # what multiplies that; None without a gate
    inner: Floats  # what W2 multiplies
    residual: Residual


def _attend(
    trace: Trace,
    kind: Kind,
    weights: AttentionWeights,
    x: Floats,
    at: tuple[int, slice],
) -> AttentionRows:
    """Attend ``at`` a layer, for a block of rows."""
    joined = joined_heads(trace, kind, *at)
    residual = Residual(trace.model, weights.norm, x, weights.output(joined))
    return AttentionRows(joined, residual)


def _feed(
    model: ModelFacts,
    weights: FeedForwardWeights,
    x: Floats,
    changed: Callable[[Floats], Floats],
) -> FeedForwardRows:
    reads = normed(model, weights.norm, x) if model.config.norm_first else x
    pre_activation = weights.w1(reads)
    active = ACTIVATIONS[model.config.activation](pre_activation)
    gate = None if weights.gate is None else weights.gate(reads)
    inner = active if gate is None else active * gate
    residual = Residual(model, weights.norm, x, weights.w2(inner), changed)
    return FeedForwardRows(pre_activation, active, gate, inner, residual)


@dataclass(frozen=True, eq=False)
class LayerRows:
    """One layer's sublayers over a block of rows of a Trace."""

    trace: Trace
    parameters: LayerParameters
    rows: slice

    @property
    def x(self) -> Floats:
        """The residual stream that enters the layer, [rows, D]."""
        layer = self.parameters.layer
        return self.trace.hidden(self.parameters.stack, layer)[self.rows]

    @cached_property
    def self_attention(self) -> AttentionRows:
        """The first sublayer."""
        kind: Kind = self.parameters.stack
        at = self.parameters.layer, self.rows
        return _attend(self.trace, kind, self.parameters.self_attention, self.x, at)

    @cached_property
    def cross_attention(self) -> AttentionRows | None:
        """The decoder's second sublayer; None in the encoder, and if it did not run."""
        weights, at = self.parameters.cross_attention, self.parameters.layer
        if weights is None or "cross" not in self.trace.kinds:
            return None
        x = self.self_attention.residual.output
        return _attend(self.trace, "cross", weights, x, (at, self.rows))

    @cached_property
    def feed_forward(self) -> FeedForwardRows:
        """The last sublayer; its output is the layer's."""
        before = self.cross_attention or self.self_attention
        weights, layer = self.parameters.feed_forward, self.parameters.layer
        changes = self.trace.intervention.at(self.parameters.stack, layer)
        first = self.rows.start or 0
        changed = partial(changes.apply, "stream", first=first, beside=self.x)
        return _feed(self.trace.model, weights, before.residual.output, changed)

    def attention(self, kind: Kind) -> AttentionRows:
        """Return the sublayer of a kind; ValueError if the layer has none."""
        if kind != "cross":
            return self.self_attention
        if self.cross_attention is None:
            raise ValueError("an encoder layer has no cross-attention.")
        return self.cross_attention

    def attention_weights(self, kind: Kind) -> AttentionWeights:
        """Return the weights of that sublayer; ValueError if there is none."""
        if kind != "cross":
            return self.parameters.self_attention
        if self.parameters.cross_attention is None:
            raise ValueError("an encoder layer has no cross-attention.")
        return self.parameters.cross_attention

    def memory(self, kind: Kind, rows: slice) -> Floats:
        """Return what keys and values are projected from, [rows, D].

        In cross-attention the encoder's output, otherwise the same as for the queries.
        """
        if kind == "cross":
            return self.trace.encoder_output[rows]
        layer, stack = self.parameters.layer, self.parameters.stack
        x, model = self.trace.hidden(stack, layer)[rows], self.trace.model
        norm = self.parameters.self_attention.norm
        return normed(model, norm, x) if model.config.norm_first else x


def inactive_units(active: Floats) -> tuple[Floats, float]:
    """Return the share of units that are exactly 0: per row, and in all rows at once.

    ``active`` [rows, F]; shares in [0, 1], NaN if there is nothing to count.
    """
    zero = active == 0
    if not zero.size:
        return np.full(len(active), np.nan, np.float32), math.nan
    return zero.mean(1, dtype=np.float32), float(zero.all(0).mean())
