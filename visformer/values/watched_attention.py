"""WatchedAttention: one attention of a watched model, as it ran."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from visformer.language import _
from visformer.text import visible
from visformer.values.arrays import Bools, Floats, Ids, later
from visformer.values.attention_heads import NO_WEIGHT

WatchedKind = Literal["encoder", "decoder", "cross", "merged", "other"]
TOLERANCE, HALF_TOLERANCE = 2e-5, 1e-2
HIDING = -20.0  # so is what replaces a score and is not above this: e to it is nothing


@dataclass(frozen=True, eq=False, kw_only=True)
class WatchedAttention:
    """One attention as it ran: B rows, H heads, Q queries, K keys.

    The weights are what multiplied the values, after any dropout. Where heads share
    keys, ``keys`` and ``values`` may have fewer heads: neighbours share one.
    """

    module: str  # the dotted path of the module whose forward made it; "" for the model
    kind: WatchedKind
    weights: Floats  # [B, H, Q, K]
    queries: Floats  # [B, H, Q, d], before any scaling
    keys: Floats  # [B, H, K, d]
    values: Floats  # [B, H, K, e]
    scale: float  # what q.k is multiplied by
    added: Floats | None  # to the scaled products: [B or 1, H or 1, Q, K]
    # the largest one between the model's own weights and results and what is computed
    # again from queries, keys, values and the rest, relative to max(1, row magnitude)
    difference: float
    # what the difference may be: more where numbers are rounded to fewer digits, and
    # where scores are large
    tolerance: float
    border: int | None = None  # merged: how many keys are of the first side
    # the scores are scale q.k + added: not so with soft caps and mixed heads
    linear: bool = True
    over: str = "keys"  # what the softmax runs over; "queries" is a fault
    multiplied: Bools | None = None  # [B, H, Q, K]: scores multiplied by zero
    # [B or 1, H or 1, Q, K]: where what is added replaces the score
    filled: Bools | None = None
    dropout: bool = False  # weights were dropped at random
    mixed: bool = False  # heads were mixed, or sinks took a part of the softmax
    step: int = 0  # counts the calls of the model, from 0
    # the ids at the queries and at the keys, [B, Q] and [B, K]; None where there are
    # none, or where it could not be followed which of them stands where
    query_ids: Ids | None = None
    key_ids: Ids | None = None
    # of each product that it was joined from: its module, and how many heads it has;
    # 0 where it has only a part of them
    parts: tuple[tuple[str, int], ...] = ()

    @property
    def verified(self) -> bool:
        """Whether it could be computed again."""
        return self.difference <= self.tolerance

    @property
    def problem(self) -> str:
        """A sentence about what could not be verified; "" for nothing."""
        if self.verified:
            return ""
        return _(
            "“{module}”: computed again from its queries, keys and values, its numbers "
            "differ by {difference:.2g}, so it is not shown.",
            module=self.module,
            difference=self.difference,
        )

    @property
    def masked(self) -> Bools:
        """Which keys a query may not read, [B, H, Q, K]; by what is added or filled."""
        if self.added is None:
            return np.zeros(self.weights.shape, bool)
        hidden = ~(self.added > NO_WEIGHT)
        if self.filled is not None:
            hidden = hidden | (self.filled & (self.added <= HIDING))
        return np.broadcast_to(hidden, self.weights.shape)

    def __repr__(self) -> str:
        sizes = " x ".join(map(str, self.weights.shape))
        return f"<{self.kind} attention of “{visible(self.module)}”, {sizes}>"


def is_causal(weights: Floats) -> bool:
    """Whether no query reads keys after it, [B, H, Q, K]; False for a single query."""
    queries, keys = weights.shape[-2:]
    if queries < 2 or keys < queries:
        return False
    after = later(queries, keys, keys - queries)
    return not np.any(np.nan_to_num(weights)[..., after])
