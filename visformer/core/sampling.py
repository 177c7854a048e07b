"""Choosing the next token from its distribution."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from visformer.errors import InputError
from visformer.language import _
from visformer.values.strategy import Strategy


def check_strategy(strategy: Strategy) -> None:
    """Raise InputError unless every number of the strategy is in its range."""
    if not 0 < strategy.temperature < math.inf:
        raise InputError(
            _(
                "The temperature is {value}, but must be greater than 0.",
                value=strategy.temperature,
            )
        )
    if not 0 < strategy.top_p <= 1:
        raise InputError(
            _(
                "top-p is {value}, but must be greater than 0 and at most 1.",
                value=strategy.top_p,
            )
        )
    if strategy.top_k < 0:
        raise InputError(
            _(
                "top-k is {value}, but must not be negative (0 keeps all tokens).",
                value=strategy.top_k,
            )
        )


def choose(logits: Tensor, strategy: Strategy, step: int) -> int:
    """Choose a token id from logits [V].

    Sampling uses a generator seeded by the strategy's seed and the step, so that the
    same step of the same sentence draws the same token however it was reached.
    """
    best = int(logits.numpy(force=True).argmax())  # torch's takes ten times as long
    if strategy.name == "greedy":
        return best
    p = filtered(logits / strategy.temperature, strategy.top_k, strategy.top_p)
    if not bool(p.isfinite().all()):
        return best  # NaN, from which nothing can be drawn
    generator = torch.Generator().manual_seed(strategy.seed * 1_000_003 + step)
    return int(torch.multinomial(p.to("cpu"), 1, generator=generator))


def filtered(logits: Tensor, top_k: int, top_p: float) -> Tensor:
    """Return probabilities [V] of the kept tokens; the others are 0.

    ``top_k`` keeps the k most probable (0: all); ``top_p`` the smallest set whose
    probabilities reach it (Holtzman et al. 2020).
    """
    ordered, order = logits.sort(descending=True, stable=True)
    p = ordered.softmax(-1)
    if top_k:
        p[top_k:] = 0
    before = p.cumsum(-1) - p  # the first token always stays
    p[before >= top_p * p.sum()] = 0
    return torch.zeros_like(p).scatter_(0, order, p / p.sum())
