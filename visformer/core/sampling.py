"""Choosing the next token from its distribution, and the order of tokens everywhere.

The order is by logit, and of equal ones the lowest id comes first. Probabilities would
not do: below e^-103 they are all 0 in float32, and tokens with different logits share
one. NaN comes before all numbers, as it does in ``argmax``.
"""

from __future__ import annotations

import math
from typing import cast, get_args

import torch
from torch import Tensor

from visformer.arguments import wrong_type
from visformer.language import _
from visformer.values.step import GREEDY, Choice, Draw, Strategy, StrategyName


def as_strategy(given: Strategy | str | None) -> Strategy:
    """Return a strategy, also from its name; errors as ``Strategy`` raises."""
    if given is None or isinstance(given, Strategy):
        return given or GREEDY
    if isinstance(given, str):
        return Strategy(cast("StrategyName", given))
    names = ", ".join(get_args(StrategyName))
    allowed = _("a Strategy, or one of {names}", names=names)
    raise wrong_type("strategy", given, allowed)


def choose(
    logits: Tensor, strategy: Strategy, step: int, *, in_turn: bool = False
) -> Choice:
    """Choose a token from logits [V].

    Sampling uses a generator seeded by the strategy's seed and the step, so that the
    same step of the same sentence draws the same token however it was reached. With
    ``in_turn`` all steps draw from one generator, as in transformers' ``generate``.
    """
    seed = strategy.seed if in_turn else strategy.seed * 1_000_003 + step
    generator = torch.Generator().manual_seed(seed)
    if in_turn and strategy.name == "sample":
        any_row = torch.ones(len(logits))
        for _earlier in range(step):
            torch.multinomial(any_row, 1, generator=generator)
    best = int(logits.numpy(force=True).argmax())  # torch's takes ten times as long
    if strategy.name != "sample":
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
    ordered, order = logits.sort(descending=True, stable=True)  # [V] each
    p = ordered.softmax(-1)  # [V], the most probable first
    if top_k:
        p[top_k:] = 0
    before = p.cumsum(-1) - p  # the first token always stays
    p[before >= top_p * p.sum()] = 0
    return torch.zeros_like(p).scatter_(0, order, p / p.sum())


FEW = 1024  # scores of a row that are simply sorted, as all are on a GPU
BLOCK = 64  # scores of which only the highest is compared at first


def best_first(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the ``count`` highest of scores [N, V], and their ids: [N, count] each."""
    count = min(count, scores.shape[-1])
    # a GPU need not tell then whether some are equal, for which it would be waited
    if scores.shape[-1] <= FEW or scores.is_cuda:
        ordered = scores.sort(dim=-1, descending=True, stable=True)
        return ordered.values[:, :count], ordered.indices[:, :count]
    if count == 1:  # torch's takes ten times as long
        ids = torch.from_numpy(scores.numpy(force=True).argmax(-1))[:, None]
        return scores.gather(-1, ids), ids
    # topk takes any of several equal scores: at its end another may belong there
    more, ids = _highest(scores, min(count + 1, scores.shape[-1]))
    top, ids = more[:, :count], ids[:, :count]
    falls = more[:, :-1] > more[:, 1:]  # not where two are equal or one is NaN
    if not bool(falls.all()):
        for row in (~falls.all(-1)).nonzero().flatten().tolist():
            ids[row] = _lowest_ids(scores[row], count)
        ids = ids.sort(-1).values
        order = scores.gather(-1, ids).sort(dim=-1, descending=True, stable=True)
        top, ids = order.values, ids.gather(-1, order.indices)
    return top, ids


def _highest(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return ``topk`` of scores [N, V], of the blocks that can have some of them."""
    blocks, rest = divmod(scores.shape[-1], BLOCK)
    if blocks < 4 * count:
        return scores.topk(count, -1)
    heads = scores[:, : blocks * BLOCK].unflatten(1, (blocks, BLOCK)).amax(-1)
    first = BLOCK * heads.topk(count, -1).indices[:, :, None]  # [N, count, 1]
    within = torch.arange(BLOCK, device=scores.device)
    ids = (first + within).flatten(1)  # [N, count * BLOCK]
    last = blocks * BLOCK + within[:rest].expand(len(ids), -1)  # [N, rest]
    ids = torch.cat([ids, last], 1)
    top, at = scores.gather(1, ids).topk(count, -1)
    return top, ids.gather(1, at)


def most_probable(logits: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return probabilities, best ids (best first) and entropy in bits, [N, .]."""
    p = logits.softmax(-1)  # [N, V]
    best, ids = best_first(logits, count)  # [N, count] each
    # log p is what a logit is below the best one, and log p of that one: as exact as a
    # second softmax; 0 log 0 counts as 0, a float32 below e^-200 is 0, NaN stays NaN
    below = (logits - best[:, :1]).clamp_min_(-200)  # [N, V]
    entropy = -((p * below).sum(-1) + p.gather(-1, ids[:, :1])[:, 0].log())
    return p, ids, entropy / math.log(2)


def _lowest_ids(scores: Tensor, count: int) -> Tensor:
    """Return the ids of the highest of scores [V], in no order."""
    known = scores.masked_fill(scores.isnan(), torch.inf)
    least = known.topk(count).values[-1]
    above, equal = (known > least).nonzero()[:, 0], (known == least).nonzero()[:, 0]
    return torch.cat([above, equal[: count - len(above)]])


def ranks(logits: Tensor, id: int) -> Tensor:
    """Return the rank of a token in each row of logits [N, V], from 1: int [N]."""
    own = logits[:, id, None]  # [N, 1]
    higher = (logits > own).sum(-1)  # [N]
    before: Tensor = (logits[:, :id] == own).sum(-1)
    return higher + before + 1
