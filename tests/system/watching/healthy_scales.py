"""Healthy models beside those of ``healthy_models``: scales, tables, masks, places."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tests.system.watching.healthy_models import (
    D2,
    HEADS,
    INF,
    SIZE,
    WIDTH,
    Attention,
    Healthy,
    One,
    Two,
    ids,
    labelled,
    language,
    one,
    two,
)


class Gains(Attention):
    """Queries and keys are normalised by a module of both, with learned gains."""

    def __init__(self, least: float = 0.5, most: float = 1.5) -> None:
        super().__init__()
        self.norm = nn.ModuleDict({name: nn.RMSNorm(SIZE) for name in "qk"})
        for gains in self.norm.parameters():
            nn.init.uniform_(gains, least, most)

    def scores(self, q: Tensor, k: Tensor) -> Any:
        return self.norm["q"](q) @ self.norm["k"](k).mT


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


class WholeNorm(Attention):
    """As in OLMo 2, but at scale 1: the norm runs over all heads."""

    def __init__(self) -> None:
        super().__init__()
        self.q = nn.Sequential(self.q, nn.RMSNorm(WIDTH))  # type: ignore[assignment]
        self.k = nn.Sequential(self.k, nn.RMSNorm(WIDTH))  # type: ignore[assignment]

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.mT


class ScaleInWeights(Attention):
    """The scale is multiplied into the weights of some projections."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        with torch.no_grad():
            for name in names:
                for part in self.get_submodule(name).parameters():
                    part.div_(SIZE ** (0.5 / len(names)))

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.mT


class HeadsInWeights(Attention):
    """Each head has matrices of its own, in one parameter [H, D, d]."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.Parameter(torch.randn(3, HEADS, WIDTH, SIZE) / WIDTH**0.5)

    def forward(self, x: Tensor, memory: Tensor, mask: Any = None) -> Any:
        pairs = zip((x, memory, memory), self.parts, strict=True)
        q, k, v = (y.unsqueeze(1).matmul(part) for y, part in pairs)
        weights = self.weights(self.scores(q, k), mask)
        self.seen.append(weights.detach())
        return self.o((weights @ v).transpose(1, 2).flatten(2))


class LogLength(Attention):
    def scores(self, q: Tensor, k: Tensor) -> Any:
        return super().scores(q, k) * float(np.log(k.shape[2] + 1))


class TiedByFunction(One):
    """The output is a product with the table of words, of which a part is unused."""

    def __init__(self) -> None:
        super().__init__(causal=True)
        self.words = nn.Embedding(24, WIDTH)
        nn.init.normal_(self.places.weight, std=0.02)

    def forward(self, x: Tensor) -> Tensor:
        y = self.body(self.embedded(x), self.mask(x))
        return nn.functional.linear(y, self.words.weight)[..., :20]


class FromTheEnd(One):
    def embedded(self, x: Tensor) -> Any:
        return self.words(x) + self.places(torch.arange(x.shape[1]).flip(0))


class RightToLeft(Two):
    def forward(self, src: Tensor, tgt: Tensor) -> Any:
        return super().forward(src, tgt.flip(1)).flip(1)


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


SCALES: dict[str, Callable[[], Healthy]] = {
    "query_key_norm": lambda: language(partial(Gains, 1, 1)),
    "query_key_norm_with_gains": lambda: language(Gains),
    "query_key_norm_by_hand": lambda: language(GainsByHand),
    "norm_over_all_heads": lambda: language(WholeNorm),
    "scale_in_the_weights": lambda: language(partial(ScaleInWeights, "q")),
    "scale_in_the_weights_of_both": lambda: language(partial(ScaleInWeights, "q", "k")),
    "translator_with_its_scale_in_the_weights": lambda: two(
        Two(partial(ScaleInWeights, "q", "k"))
    ),
    "heads_in_the_weights": lambda: two(Two(HeadsInWeights)),
    "scale_by_the_log_of_the_length": lambda: language(LogLength),
    "tied_by_a_function": lambda: labelled(TiedByFunction),
    "positions_from_the_end": lambda: one(FromTheEnd(causal=True), D2),
    "right_to_left_decoder": lambda: two(RightToLeft(), ids(3, 7), ids(3, 6)),
    "mask_as_a_parameter": lambda: language(MaskParameter),
}
