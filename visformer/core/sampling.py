"""Choosing the next token from its distribution."""

from __future__ import annotations

from typing import cast, get_args

import torch
from torch import Tensor

from visformer.arguments import wrong_type
from visformer.language import _
from visformer.values.step import Choice, Draw
from visformer.values.strategy import GREEDY, Strategy, StrategyName


def as_strategy(given: Strategy | str | None) -> Strategy:
    """Return a strategy, also from its name; errors as ``Strategy`` raises."""
    if given is None or isinstance(given, Strategy):
        return given or GREEDY
    if isinstance(given, str):
        return Strategy(cast("StrategyName", given))
    names = ", ".join(get_args(StrategyName))
    allowed = _("a Strategy, or one of {names}", names=names)
    raise wrong_type("strategy", given, allowed)


def choose(logits: Tensor, strategy: Strategy, step: int) -> Choice:
    """Choose a token from logits [V].

    Sampling uses a generator seeded by the strategy's seed and the step, so that the
    same step of the same sentence draws the same token however it was reached.
    """
    generator = torch.Generator().manual_seed(strategy.seed * 1_000_003 + step)
    return _chosen(logits, strategy, generator)


def choose_as_generate(logits: Tensor, strategy: Strategy, step: int) -> Choice:
    """Choose a token from logits [V] as transformers' ``generate`` does.

    Its steps draw one after the other from one generator, which the seed starts.
    """
    generator = torch.Generator().manual_seed(strategy.seed)
    if strategy.name != "greedy":
        any_row = torch.ones(len(logits))
        for _earlier in range(step):
            torch.multinomial(any_row, 1, generator=generator)
    return _chosen(logits, strategy, generator)


def _chosen(logits: Tensor, strategy: Strategy, generator: torch.Generator) -> Choice:
    best = int(logits.numpy(force=True).argmax())  # torch's takes ten times as long
    if strategy.name == "greedy":
        return Choice(best, "model")
    heat, top_k, top_p = strategy.temperature, strategy.top_k, strategy.top_p
    p = filtered(logits / heat, top_k, top_p)
    if not bool(p.isfinite().all()):
        return Choice(best, "model")  # NaN, from which nothing can be drawn
    id = int(torch.multinomial(p.to("cpu"), 1, generator=generator))
    return Choice(id, "drawn", Draw(float(p[id]), heat, top_k, top_p))


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
