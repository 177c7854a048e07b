"""The rules of generation that a checkpoint comes with, for its text to be its own.

The rules are those of transformers' ``generate()``, in its order. They restrict what is
chosen; the probabilities that a Trace shows stay the model's own, unchanged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

EarlyStopping = Literal[True, False, "never"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """How a checkpoint wants its text made; by default nothing is restricted.

    Lengths count the tokens made: the token that the decoder starts with is none.
    """

    beams: int = 1  # of a translation that is not told how many
    length_penalty: float = 1.0  # score of a hypothesis: sum log p / length ** penalty
    early_stopping: EarlyStopping = True  # see ``Beams`` in search.py
    max_tokens: int | None = None  # None: 2 S + 50
    min_tokens: int = 0  # no end of sentence before
    forbidden: tuple[tuple[int, ...], ...] = ()  # sequences that are never completed
    forbidden_first: tuple[int, ...] = ()  # not as the first token that is free
    forced_first: int | None = None  # the first token
    forced_last: tuple[int, ...] = ()  # one of these is the last token allowed
    ends: tuple[int, ...] = ()  # ids that end a sentence beside the tokenizer's eos
    no_repeat: int = 0  # n: no n tokens in a row occur twice; 0: they may
    repetition_penalty: float = 1.0  # of what was made already (Keskar et al. 2019)
    renormalise: bool = False  # make what is left a distribution again

    @property
    def restricts(self) -> bool:
        """Whether any rule touches the choice of a token."""
        return bool(
            self.forbidden
            or self.forced_last
            or self.forced_first is not None
            or self.forbidden_first
            or self.min_tokens
            or self.no_repeat
            or self.repetition_penalty != 1
        )

    def restrict(
        self, scores: Tensor, consumed: Tensor, last: Tensor, ends: tuple[int, ...]
    ) -> Tensor:
        """Apply the rules to ``scores`` [N, V], logits or log-probabilities, in place.

        ``consumed`` [N, t] are the ids consumed so far, the start token first; ``last``
        bool [N] marks rows at the last token allowed; ``ends`` are the ids that end a
        sentence. What may not be chosen becomes -inf, what must be 0.
        """
        length = consumed.shape[1] - 1
        if self.repetition_penalty != 1:
            seen = scores.gather(1, consumed)
            harder = seen * self.repetition_penalty
            scores.scatter_(
                1, consumed, harder.where(seen < 0, seen / self.repetition_penalty)
            )
        if self.no_repeat:
            _forbid_repeats(scores, consumed.tolist(), self.no_repeat)
        for *start, id in self.forbidden:
            if not start:
                scores[:, id] = -math.inf
            elif len(start) <= consumed.shape[1]:
                rows = (consumed[:, -len(start) :] == consumed.new_tensor(start)).all(1)
                scores[rows, id] = -math.inf
        if length < self.min_tokens:
            scores[:, ends] = -math.inf
        if length == 0 and self.forced_first is not None:
            scores.fill_(-math.inf)[:, self.forced_first] = 0
        if self.forced_last:
            scores[last] = -math.inf
            for id in self.forced_last:
                scores[last, id] = 0
        if self.forbidden_first and length == (self.forced_first is not None):
            scores[:, self.forbidden_first] = -math.inf
        return scores


def _forbid_repeats(scores: Tensor, consumed: list[list[int]], size: int) -> None:
    """Forbid what would make ``size`` tokens in a row occur twice."""
    for row, ids in enumerate(consumed):
        start = ids[len(ids) - size + 1 :]
        for at in range(len(ids) - size + 1):
            if ids[at : at + size - 1] == start:
                scores[row, ids[at + size - 1]] = -math.inf
