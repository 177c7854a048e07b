"""Step: what one decoder row predicts, and the choice made from it (numpy only)."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, overload

import msgspec
import numpy as np
from numpy.typing import NDArray

Origin = Literal["model", "rule", "forced", "reference", "drawn", "beam"]
# what a file may hold
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 31)]
Positive = Annotated[float, msgspec.Meta(gt=0)]
Share = Annotated[float, msgspec.Meta(gt=0, le=1.001)]  # as rounding leaves it
CANDIDATES = 50  # how many of the best tokens a step keeps


class Draw(NamedTuple):
    """The distribution that a token was drawn from; not the softmax of its row."""

    probability: Share  # of the token, once others are cut off
    temperature: Positive
    top_k: Count  # 0: all
    top_p: Share


class Choice(NamedTuple):
    """A token id, who chose it, and from what distribution where it was drawn."""

    id: Count
    origin: Origin
    drawn: Draw | None = None

    def under_rules(self, free: Choice) -> Choice:
        """Return it as the rules' where they have changed the choice from ``free``."""
        return self if self.id == free.id else self._replace(origin="rule")


class Candidate(NamedTuple):
    """One token that a step might have chosen."""

    id: int
    token: str
    probability: float  # in [0, 1]


class Candidates(Sequence[Candidate]):
    """A step's most probable tokens, best first: a sequence of ``Candidate``.

    They are stored as arrays, which take a tenth of the memory of tuples.
    """

    __slots__ = ("_ids", "_probabilities", "_tokens")

    def __init__(
        self, ids: NDArray[Any], tokens: Iterable[str], probabilities: NDArray[Any]
    ) -> None:
        """``ids`` and ``probabilities`` [n] are copied."""
        self._ids = ids.astype(np.int32)
        self._tokens = tuple(map(sys.intern, tokens))  # steps share their strings
        self._probabilities = probabilities.astype(np.float32)

    def __repr__(self) -> str:
        best = (f"{c.token} {c.probability:.3g}" for c in self[:3])
        return f"<{len(self)} Candidates: {', '.join(best)}, …>"

    def __reduce__(self) -> tuple[type[Candidates], tuple[Any, ...]]:
        return Candidates, (self._ids, self._tokens, self._probabilities)

    def __len__(self) -> int:
        return len(self._tokens)

    @property
    def numbers(self) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Their ids and probabilities, best first."""
        return self._ids, self._probabilities

    @property
    def tokens(self) -> tuple[str, ...]:
        """Their tokens, best first."""
        return self._tokens

    @overload
    def __getitem__(self, at: int) -> Candidate: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Candidate, ...]: ...
    def __getitem__(self, at: int | slice) -> Candidate | tuple[Candidate, ...]:
        if isinstance(at, slice):
            return tuple(self[i] for i in range(*at.indices(len(self))))
        id, probability = self._ids[at], self._probabilities[at]
        return Candidate(int(id), self._tokens[at], float(probability))

    def __iter__(self) -> Iterator[Candidate]:
        ids, probabilities = self._ids.tolist(), self._probabilities.tolist()
        return map(Candidate, ids, self._tokens, probabilities)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))


@dataclass(frozen=True, slots=True)
class Step:
    """One row's distribution over the next token, and the choice made from it."""

    id: int
    token: str
    probability: float  # of the choice, in [0, 1]
    rank: int  # of the choice, from 1
    candidates: Candidates
    entropy: float  # of the whole distribution, in bits
    # who chose: the model as its best, its rules of generation where they changed that,
    # the user, the reference target, a draw, or a beam search
    origin: Origin
    text: str  # the translation so far, this choice included
    drawn: Draw | None = None  # known of draws, those under rules included

    @property
    def choice(self) -> Choice:
        """What another decoding is given to make the same choice."""
        return Choice(self.id, self.origin, self.drawn)

    @property
    def loss(self) -> float:
        """Minus the logarithm of the choice's probability, in nats; ∞ where that is 0.

        NaN where the probability is.
        """
        return -math.log(self.probability) if self.probability != 0 else math.inf

    @property
    def computed(self) -> bool:
        """Whether the model computed logits here; else its numbers are NaN."""
        return bool(self.candidates) or not math.isnan(self.probability)


def chosen_tokens(steps: Sequence[Step]) -> tuple[str, ...]:
    """Return the token of each step; of steps in a file without reading them."""
    known: tuple[str, ...] | None = getattr(steps, "chosen", None)
    return tuple([step.token for step in steps]) if known is None else known


def step_origins(steps: Sequence[Step]) -> tuple[Origin, ...]:
    """Return who chose at each step; of steps in a file, only that is read."""
    known: tuple[Origin, ...] | None = getattr(steps, "origins", None)
    return tuple([step.origin for step in steps]) if known is None else known
