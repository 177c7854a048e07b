"""The parts of a layer: attention, feed-forward, norms, dropout, and their order.

Passes over whole sequences and cached steps share these functions.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from visformer.core.pauses import pause
from visformer.core.threads import in_threads, may_share, unhooked
from visformer.values.arrays import Floats
from visformer.values.changes.run_change import UNCHANGED, LocalChanges
from visformer.values.config import Activation, Biases, NormRule

ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "silu": F.silu,
    "tanh": torch.tanh,
}
Array = TypeVar("Array", Tensor, Floats)  # one row is computed in numpy
QUERY_BLOCK = 1024  # queries computed at once, so that [H, Q, K] stays small
WEIGHTS_BLOCK = 1 << 21  # weights computed at once: they stay in the processor's cache
ROWS_BLOCK = 1024  # rows that go through a feed-forward network at once
SHARED = 1024  # queries from which on threads share them


class Projections(NamedTuple):
    """What one attention computes before its scores, with the heads side by side."""

    queries: Tensor  # [B, Q, D]
    keys: Tensor  # [B, K, D]
    values: Tensor  # [B, K, D]


class Dropout(nn.Module):
    """Dropout whose CPU masks need one random byte per element instead of a float.

    Drawing floats takes a third of a small model's training time on a CPU; a byte gives
    the rate to 1/256, and kept elements are scaled by the actual rate.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        """Zero a share of ``x`` while training; return ``x`` itself otherwise."""
        if not self.training or self.rate == 0:
            return x
        if x.device.type != "cpu":
            return nn.functional.dropout(x, self.rate)
        threshold = round(self.rate * 256)
        words = torch.empty(-(-x.numel() // 8), dtype=torch.int64).random_(
            -(2**63), None
        )
        kept = words.view(torch.uint8)[: x.numel()].view(x.shape) >= threshold
        return x * kept.to(x.dtype).mul_(256 / (256 - threshold))


def split_heads(x: Tensor, heads: int) -> Tensor:
    """[B, T, D] -> [B, H, T, d]."""
    apart: Tensor = x.unflatten(-1, (heads, -1))  # [B, T, H, d]
    return apart.transpose(1, 2)


def join_heads(x: Tensor) -> Tensor:
    """[B, H, T, d] -> [B, T, D]."""
    return x.transpose(1, 2).flatten(2)


def attention_weights(
    q: Tensor,
    k: Tensor,
    mask: Tensor | None,
    masked_value: float,
    changes: LocalChanges = UNCHANGED,
    first: int = 0,
    *,
    reuse: bool = False,
) -> Tensor:
    """softmax(q k^T / sqrt(d)) over the keys (section 3.2.1): -> [B, H, Q, K].

    ``q`` [B, H, Q, d], ``k`` [B, H, K, d], ``mask`` bool, broadcast to [B, H, Q, K]
    (None allows everything). A masked score is replaced by ``masked_value``; a finite
    one makes a row that may attend to nothing attend equally to everything. Row
    ``first`` of a run with ``changes`` is the first of these. ``reuse``: the weights
    take the memory of the scores.
    """
    root, own = math.sqrt(q.shape[-1]), q.shape[-1] ** -0.5
    if (scale := changes.apply("scale", own, beside=own)) != own:
        root = 1 / scale if scale else math.inf
    scores = (q @ k.mT).div_(root)  # [B, H, Q, K]
    scores = changes.apply("scores", scores, first=first, beside=mask)
    if changes.acts("head mask", "weights"):
        if mask is None:
            mask = torch.ones_like(scores, dtype=torch.bool)
        own_masks = mask.expand(scores.shape)
        mask = changes.apply("head mask", own_masks, first=first)
    if mask is not None:
        scores = scores.masked_fill_(~mask, masked_value)  # [B, H, Q, K]
    made = torch.softmax(scores, -1, out=scores) if reuse else scores.softmax(-1)
    weights: Tensor = changes.apply("weights", made, first=first, beside=mask)
    return weights


def weights_by_blocks(
    q: Tensor,
    k: Tensor,
    mask: Tensor | None,
    masked_value: float,
    changes: LocalChanges = UNCHANGED,
) -> Iterator[Tensor]:
    """Yield the weights for blocks of queries, [B, H, n, K], and pause between them.

    ``q`` [B, H, Q, d], ``k`` [B, H, K, d], ``mask`` bool, broadcast to [B, Q, K].
    """
    (heads, queries), keys = q.shape[1:3], k.shape[2]
    block = max(1, min(QUERY_BLOCK, WEIGHTS_BLOCK // max(1, heads * keys)))
    masks: Iterable[Tensor | None] = itertools.repeat(None)
    # one that hides nothing takes a fifth of a long pass
    if mask is not None and (queries <= block or changes.changes or not mask.all()):
        mask = mask.expand(mask.shape[0], queries, keys)[:, None]
        masks = mask.split(block, 2)  # [B, 1, n, K] each
    blocks = zip(itertools.count(0, block), q.split(block, 2), masks, strict=False)
    for first, some, allowed in blocks:  # [B, H, n, d] and [B, 1, n, K]
        if first:
            pause(first / queries)
        yield attention_weights(some, k, allowed, masked_value, changes, first)


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    masked_value: float,
    *,
    changes: LocalChanges = UNCHANGED,
    dropout: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """Weight the values ``v`` [B, H, K, d] -> the heads side by side, [B, Q, D].

    The other arguments are those of ``weights_by_blocks``; ``dropout`` applies to the
    weights.
    """
    v = changes.apply("values", v)
    alone = dropout or changes.changes or q.shape[2] <= SHARED
    if not alone and may_share(q):
        return join_heads(_attend_in_threads(q, k, v, mask, masked_value))
    blocks = weights_by_blocks(q, k, mask, masked_value, changes)
    made = [(dropout(some) if dropout else some) @ v for some in blocks]  # [B, H, n, d]
    z = torch.cat(made, 2) if len(made) > 1 else made[0]  # [B, H, Q, d]
    return join_heads(changes.apply("output", changes.apply("heads", z)))


def _attend_in_threads(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, masked_value: float
) -> Tensor:
    """Attend from many queries, a block of one head's at a time: -> [B, H, Q, d].

    So its weights stay in the cache of a core: those of all heads took half as long
    again.
    """
    (batch, heads, queries), keys = q.shape[:3], k.shape[2]
    k, v = k.contiguous(), v.contiguous()  # else each block would copy them
    if mask is not None:
        mask = None if mask.all() else mask.expand(batch, queries, keys)[:, None]
    z = q.new_empty(batch, heads, queries, v.shape[3])
    block = max(1, WEIGHTS_BLOCK // (4 * keys))

    def places() -> Iterator[tuple[slice, slice]]:
        for head, first in itertools.product(range(heads), range(0, queries, block)):
            pause((head + first / queries) / heads)
            yield slice(head, head + 1), slice(first, first + block)

    def attend_from(place: tuple[slice, slice]) -> None:
        head, some = place
        allowed = None if mask is None else mask[:, :, some]  # [B, 1, n, K]
        own = q[:, head, some], k[:, head], allowed, masked_value
        z[:, head, some] = attention_weights(*own, reuse=True) @ v[:, head]

    for _done in in_threads(attend_from, places()):
        pass
    return z


class Attention(nn.Module):
    """Multi-head attention (section 3.2.2) that also returns its projections."""

    def __init__(
        self,
        *,
        d_model: int,
        heads: int,
        masked_value: float = -1e9,
        biases: Biases = "all",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.heads, self.masked_value = heads, masked_value
        self.changes = UNCHANGED  # of a modified run
        self.query = nn.Linear(d_model, d_model, bias=biases == "all")
        self.key = nn.Linear(d_model, d_model, bias=biases == "all")
        self.value = nn.Linear(d_model, d_model, bias=biases != "none")
        self.output = nn.Linear(d_model, d_model, bias=biases != "none")
        self.dropout = Dropout(dropout)

    def forward(
        self, x: Tensor, memory: Tensor, mask: Tensor
    ) -> tuple[Tensor, Projections]:
        """Attend from ``x`` [B, Q, D] to ``memory`` [B, K, D] -> [B, Q, D].

        ``mask`` is bool, broadcast to [B, Q, K].
        """
        projections = Projections(
            rows_shared(self.query, x),
            rows_shared(self.key, memory),
            rows_shared(self.value, memory),
        )
        q, k, v = (
            split_heads(part, self.heads) for part in projections
        )  # [B, H, ., d]
        z = attend(
            *(q, k, v, mask, self.masked_value),
            changes=self.changes,
            dropout=self.dropout if self.training else None,
        )  # [B, Q, D]
        return rows_shared(self.output, z), projections


def feed_forward(
    x: Array,
    *,
    w1: Callable[[Array], Array],
    w2: Callable[[Array], Array],
    gate: Callable[[Array], Array] | None,
    activation: Callable[[Array], Array],
) -> Array:
    """act(x W1 + b1) W2 + b2 (section 3.3), [..., D] -> [..., D], gated or not.

    A gate multiplies the activations by a second projection of x (Shazeer 2020).
    """
    inner = activation(w1(x))  # [..., F]
    if gate is not None:
        inner = inner * gate(x)  # [..., F]
    return w2(inner)  # [..., D]


def rows_shared(
    module: nn.Module, x: Tensor, rows: Callable[[Tensor], Tensor] | None = None
) -> Tensor:
    """Apply a module to x [..., n, D]; threads share blocks of many rows.

    ``rows`` is what it does to some of them, if that is not the module itself.
    """
    if x.dim() == 1 or x.shape[-2] <= ROWS_BLOCK:
        return (rows or module)(x)
    shared = not module.training and may_share(x) and unhooked(module)

    def blocks() -> Iterator[Tensor]:
        for some in x.split(ROWS_BLOCK, -2):
            pause()
            yield some

    if not shared and rows is None:
        made: Tensor = module(x)
        return made
    return torch.cat([*(in_threads if shared else map)(rows or module, blocks())], -2)


class FeedForward(nn.Module):
    """The feed-forward network, the same at every position."""

    def __init__(
        self,
        *,
        d_model: int,
        inner: int,
        activation: Activation = "relu",
        gated: bool = False,
        w1_bias: bool = True,
        w2_bias: bool = True,
        gate_bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.w1 = nn.Linear(d_model, inner, bias=w1_bias)
        self.gate = nn.Linear(d_model, inner, bias=gate_bias) if gated else None
        self.w2 = nn.Linear(inner, d_model, bias=w2_bias)
        self.activation = ACTIVATIONS[activation]
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] -> [..., D]; long ones by blocks of rows, with pauses between."""
        return rows_shared(self, x, self._rows)

    def _rows(self, x: Tensor) -> Tensor:
        return feed_forward(
            x,
            w1=self.w1,
            w2=lambda inner: self.w2(self.dropout(inner)),
            gate=self.gate,
            activation=self.activation,
        )


class UnbiasedNorm(nn.Module):
    """LayerNorm whose variance divides by D - 1, with eps inside the root."""

    def __init__(self, shape: tuple[int, ...], eps: float, *, bias: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(shape))
        self.bias = nn.Parameter(torch.zeros(shape)) if bias else None
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] -> [..., D]."""
        variance = x.var(-1, unbiased=True, keepdim=True)  # [..., 1]
        normed = (x - x.mean(-1, keepdim=True)) / (variance + self.eps).sqrt()
        scaled = self.weight * normed
        return scaled if self.bias is None else scaled + self.bias


def make_norm(
    kind: NormRule, *, d_model: int, eps: float, bias: bool, length: int = 0
) -> nn.Module:
    """Return a fresh norm.

    It normalises each token over the width or, with a ``length`` T, [T, D] at once. A
    norm without a mean (``"rms"``, Zhang & Sennrich 2019) has no bias either.
    """
    shape = (length, d_model) if length else (d_model,)
    if kind == "rms":
        return nn.RMSNorm(shape, eps)
    make = nn.LayerNorm if kind == "layer" else UnbiasedNorm
    return make(shape, eps, bias=bias)


def through_sublayers(
    x: Array,
    sublayers: Iterable[tuple[Callable[[Array], Array], Callable[[Array], Array]]],
    *,
    norm_first: bool,
) -> Array:
    """Run sublayers, each with its norm, along the residual stream [..., D].

    Post-norm is norm(x + f(x)), the paper's (section 3.1), pre-norm x + f(norm(x)).
    """
    for function, norm in sublayers:
        x = x + function(norm(x)) if norm_first else norm(x + function(x))
    return x
