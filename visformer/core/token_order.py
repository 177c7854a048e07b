"""The order of tokens, everywhere: by logit, and of equal ones the lowest id first.

Probabilities would not do: below e^-103 they are all 0 in float32, and tokens with
different logits share one. NaN comes before all numbers, as it does in ``argmax``.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

FEW = 1024  # scores of a row that are simply sorted


def best_first(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the ``count`` highest of scores [N, V], and their ids: [N, count] each."""
    count = min(count, scores.shape[-1])
    if scores.shape[-1] <= FEW:
        ordered = scores.sort(dim=-1, descending=True, stable=True)
        return ordered.values[:, :count], ordered.indices[:, :count]
    # topk takes any of several equal scores: at its end another may belong there
    top, ids = scores.topk(count, -1)
    fits = (scores >= top[:, -1:]).sum(-1) == count  # never where a row has NaN
    for row in (~fits).nonzero().flatten().tolist():
        ids[row] = _lowest_ids(scores[row], count)
    if not bool(fits.all()) or bool((top[:, 1:] == top[:, :-1]).any()):
        ids = ids.sort(-1).values
        order = scores.gather(-1, ids).sort(dim=-1, descending=True, stable=True)
        top, ids = order.values, ids.gather(-1, order.indices)
    return top, ids


def most_probable(logits: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return probabilities, best ids (best first) and entropy in bits, [N, .]."""
    p = logits.softmax(-1)
    best, ids = best_first(logits, count)
    # log p is what a logit is below the best one, and log p of that one: as exact as a
    # second softmax; 0 log 0 counts as 0, a float32 below e^-200 is 0, NaN stays NaN
    below = (logits - best[:, :1]).clamp_min_(-200)
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
    own = logits[:, id, None]
    higher = (logits > own).sum(-1)
    before: Tensor = (logits[:, :id] == own).sum(-1)
    return higher + before + 1
