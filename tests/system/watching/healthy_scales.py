"""Healthy models beside those of ``healthy_models``: scales, tables, masks, places."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tests.system.watching.healthy_models import (
    D2,
    HEADS,
    INF,
    PADDED,
    S2S,
    SIZE,
    WIDTH,
    Attention,
    Healthy,
    One,
    Two,
    ids,
    language,
    model,
    two,
)


class Gains(Attention):
    """Queries and keys are normalised by a module of both, with learned gains."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.ModuleDict({name: nn.RMSNorm(SIZE) for name in "qk"})
        for gains in self.norm.parameters():
            nn.init.uniform_(gains, 0.5, 1.5)

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        scores: Tensor = self.norm["q"](q) @ self.norm["k"](k).mT
        return scores


@model
def query_key_norm_with_gains() -> Healthy:
    return language(Gains)


class GainsByHand(Attention):
    """The norm is written by hand, and each head has gains of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.gains = nn.Parameter(torch.rand(2, HEADS, 1, SIZE) + 0.5)

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        q, k = (
            x * (x * x).mean(-1, keepdim=True).rsqrt() * gain
            for x, gain in zip((q, k), self.gains, strict=True)
        )
        return q @ k.mT


@model
def query_key_norm_by_hand() -> Healthy:
    return language(GainsByHand)


class WholeNorm(Attention):
    """As in OLMo 2, but at scale 1: the norm runs over all heads."""

    def __init__(self) -> None:
        super().__init__()
        self.q = nn.Sequential(self.q, nn.RMSNorm(WIDTH))  # type: ignore[assignment]
        self.k = nn.Sequential(self.k, nn.RMSNorm(WIDTH))  # type: ignore[assignment]

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.mT


@model
def norm_over_all_heads() -> Healthy:
    return language(WholeNorm)


class ScaleInWeights(Attention):
    """The scale is multiplied into the weights of the queries."""

    def __init__(self) -> None:
        super().__init__()
        with torch.no_grad():
            for part in self.q.parameters():
                part.div_(SIZE**0.5)

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.mT


@model
def scale_in_the_weights() -> Healthy:
    return language(ScaleInWeights)


class ScaleInBoth(Attention):
    """The scale is multiplied into the weights of queries and keys, half in each."""

    def __init__(self) -> None:
        super().__init__()
        with torch.no_grad():
            for part in (*self.q.parameters(), *self.k.parameters()):
                part.div_(SIZE**0.25)

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.mT


@model
def scale_in_the_weights_of_both() -> Healthy:
    return language(ScaleInBoth)


@model
def translator_with_its_scale_in_the_weights() -> Healthy:
    return two(Two(ScaleInBoth))


class HeadsInWeights(Attention):
    """Each head has matrices of its own, in one parameter [H, D, d]."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.Parameter(torch.randn(3, HEADS, WIDTH, SIZE) / WIDTH**0.5)

    def forward(self, x: Tensor, memory: Tensor, mask: Any = None) -> Tensor:
        pairs = zip((x, memory, memory), self.parts, strict=True)
        q, k, v = (y.unsqueeze(1).matmul(part) for y, part in pairs)
        weights = self.weights(self.scores(q, k), mask)
        self.seen.append(weights.detach())
        y: Tensor = self.o((weights @ v).transpose(1, 2).flatten(2))
        return y


@model
def heads_in_the_weights() -> Healthy:
    return two(Two(HeadsInWeights))


class LogLength(Attention):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return super().scores(q, k) * float(np.log(k.shape[2] + 1))


@model
def scale_by_the_log_of_the_length() -> Healthy:
    return language(LogLength)


class TiedByFunction(One):
    """The output is a product with the table of words, of which a part is unused."""

    def __init__(self) -> None:
        super().__init__(causal=True)
        self.words = nn.Embedding(24, WIDTH)
        nn.init.normal_(self.places.weight, std=0.02)

    def forward(self, x: Tensor) -> Tensor:
        y = self.body(self.embedded(x), self.mask(x))
        return nn.functional.linear(y, self.words.weight)[..., :20]


@model
def tied_by_a_function() -> Healthy:
    made = ids(3, 9)
    return Healthy(
        TiedByFunction(), (made[:, :-1],), D2, options={"labels": made[:, 1:]}
    )


class FromTheEnd(One):
    def embedded(self, x: Tensor) -> Tensor:
        y: Tensor = self.words(x) + self.places(torch.arange(x.shape[1]).flip(0))
        return y


@model
def positions_from_the_end() -> Healthy:
    return Healthy(FromTheEnd(causal=True), (ids(),), D2)


class RightToLeft(Two):
    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        return super().forward(src, tgt.flip(1)).flip(1)


@model
def right_to_left_decoder() -> Healthy:
    return Healthy(RightToLeft(), (ids(3, 7), ids(3, 6)), S2S, options=PADDED)


class MaskParameter(Attention):
    """The mask of -inf is a parameter, and a buffer of NaN is never read."""

    def __init__(self) -> None:
        super().__init__()
        hidden = torch.full((160, 160), INF).triu(1)
        self.hidden = nn.Parameter(hidden, requires_grad=False)
        self.register_buffer("last", torch.tensor(float("nan")))

    def weights(self, scores: Tensor, mask: Any) -> Tensor:
        n = scores.shape[-1]
        return (scores + self.hidden[:n, :n]).softmax(-1)


@model
def mask_as_a_parameter() -> Healthy:
    return language(MaskParameter)


class MaskOfNumpy(Two):
    """As tutorials have it: the causal mask of each row is made by numpy."""

    def target_mask(self, tgt: Tensor) -> Tensor:
        later = np.triu(np.ones((len(tgt), tgt.shape[1], tgt.shape[1])), k=1)
        hidden = (tgt == 0)[:, None] + torch.from_numpy(later)
        return ~torch.gt(hidden, 0)[:, None]


@model
def mask_of_numpy() -> Healthy:
    return two(MaskOfNumpy())
