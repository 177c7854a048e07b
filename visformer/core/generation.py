"""The generation rules of a checkpoint, which its usual output depends on.

The rules are those of transformers' ``generate()``, in its order. They restrict which
tokens are chosen; the probabilities in a Trace are the model's own, unchanged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from visformer.values.beam_search import EarlyStopping


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """A checkpoint's rules for generating text; by default nothing is restricted.

    Lengths count generated tokens, not the token that the decoder starts with.
    """

    beams: int = 1  # unless a translation is given another number
    length_penalty: float = 1.0  # score of a hypothesis: sum log p / length ** penalty
    early_stopping: EarlyStopping = True  # see ``SentenceSearch`` in search.py
    max_tokens: int | None = None  # None: 2 S + 50
    min_tokens: int = 0  # the sentence does not end before
    forbidden: tuple[tuple[int, ...], ...] = ()  # sequences that are never completed
    forbidden_first: tuple[int, ...] = ()  # not as the first free token
    forced_first: int | None = None  # the first token
    forced_last: tuple[int, ...] = ()  # the last allowed token is one of these
    ends: tuple[int, ...] = ()  # ids that end a sentence besides the tokenizer's eos
    no_repeat: int = 0  # n: no sequence of n tokens occurs twice; 0: any may
    repetition_penalty: float = 1.0  # of generated tokens (Keskar et al. 2019)
    renormalise: bool = False  # normalise the remaining probabilities
    in_turn: bool = False  # draws follow one another from one generator

    @property
    def restricts(self) -> bool:
        """Whether any rule affects the choice of a token."""
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
        self,
        scores: Tensor,
        consumed: Tensor,
        last: Tensor,
        ends: tuple[int, ...],
        *,
        given: int = 1,
    ) -> Tensor:
        """Apply the rules to ``scores`` [N, V], logits or log-probabilities, in place.

        ``consumed`` [N, t] are the ids consumed so far, of which the first ``given``
        were not generated: the start token, or a prompt; ``last``
        bool [N] marks rows at the last token allowed; ``ends`` are the ids that end a
        sentence. Forbidden tokens get -inf, forced ones 0.
        """
        length = consumed.shape[1] - given
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
    """Forbid tokens that would make a sequence of ``size`` tokens occur twice."""
    for row, ids in enumerate(consumed):
        start = ids[len(ids) - size + 1 :]
        for at in range(len(ids) - size + 1):
            if ids[at : at + size - 1] == start:
                scores[row, ids[at + size - 1]] = -math.inf
