"""Step: what one decoder row predicts, how its token is chosen, and the logit lens."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Literal, NamedTuple, cast, get_args, overload

import msgspec
import numpy as np
from numpy.typing import NDArray

from visformer.arguments import one_of, real_number, whole_number, wrong_value
from visformer.errors import InputError
from visformer.files import short
from visformer.language import _
from visformer.text import visible
from visformer.values.arrays import Floats, Ids

StrategyName = Literal["greedy", "sample", "beam"]
MOST_BEAMS = 1000


@dataclass(frozen=True, slots=True)
class Strategy:
    """How tokens are chosen: the best, one drawn, or those of the best of some beams.

    Raises InputError or TypeError for a name that is not known, and for numbers that
    are out of range.
    """

    name: StrategyName = "greedy"
    _: KW_ONLY
    temperature: float = 1.0  # > 0
    top_k: int = 0  # keep the k most probable; 0 keeps all
    top_p: float = (
        1.0  # keep the smallest set with this share of probability, in (0, 1]
    )
    seed: int = 0
    beams: int = 4  # hypotheses that a beam search keeps

    def __post_init__(self) -> None:
        one_of("strategy", self.name, get_args(StrategyName))
        whole_number("top_k", self.top_k)
        whole_number("seed", self.seed, most=2**63 - 1)
        whole_number("beams", self.beams, least=1, most=MOST_BEAMS)
        for name, most in (("temperature", math.inf), ("top_p", 1.0)):
            value, allowed = getattr(self, name), _("a number greater than 0")
            if most == 1:
                allowed = _("a number greater than 0, at most 1")
            if not 0 < real_number(name, value, allowed) <= most:
                raise wrong_value(name, value, allowed)


GREEDY = Strategy()


def strategy_text(strategy: Strategy) -> str:
    """Return what ``read_strategy`` reads: what differs from the default of a name."""
    usual = Strategy(strategy.name)
    fields = "beams", "temperature", "top_k", "top_p", "seed"
    given = {name: getattr(strategy, name) for name in fields}
    written = [f"{n} {v}" for n, v in given.items() if v != getattr(usual, n)]
    return " ".join((strategy.name, *written))


def read_strategy(text: str) -> Strategy:
    """Read “greedy”, “beam beams 4” or “sample temperature 0.7 seed 3”.

    Raises InputError for anything else.
    """
    kinds: dict[str, Any] = {"temperature": float, "top_p": float}
    try:
        name, *words = text.split()
        pairs = zip(words[::2], words[1::2], strict=True)
        given: Any = {key: kinds.get(key, int)(value) for key, value in pairs}
        return Strategy(cast("StrategyName", name), **given)
    except (TypeError, ValueError) as error:
        raise InputError(
            "“{text}” is no strategy: write, for example, “beam beams 4” or “sample "
            "temperature 0.7 seed 3”.",
            text=short(text),
        ) from error


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
        best = (f"{visible(c.token)} {c.probability:.3g}" for c in self[:3])
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


TOP = 12  # best tokens of each layer that are kept


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LensRow:
    """One decoder row: index n is the stream that leaves layer n, 0 what enters.

    The last one, L, is the model's own prediction. Arrays are read-only.
    """

    ids: Ids  # [L + 1, k], best first
    tokens: tuple[tuple[str, ...], ...]  # L + 1 of k
    logits: Floats  # [L + 1, k], before any softmax of the model's own
    probabilities: Floats  # [L + 1, k]
    log_sums: Floats  # [L + 1]: log of the sum of exp of all logits
    chosen_logits: Floats  # [L + 1], of the token that the step chose
    chosen_probabilities: Floats  # [L + 1]
    chosen_ranks: Ids  # [L + 1], from 1; 0 of a token whose probability is NaN
    tempered_log_sum: float  # of the model's own logits divided by the temperature
    weight: Floats  # [D]: the output projection's column of the chosen token
    bias: float | None  # None where the projection has none


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LensRows:
    """The rows of one Trace that the engine has looked at so far."""

    of: tuple[object, ...]  # what the Trace is made of, compared by identity
    strategy: Strategy  # how tokens are chosen
    rows: Mapping[int, LensRow]
    asked: tuple[int, ...] = ()  # rows that are on their way, or were
    refused: bool = False  # the engine could not: it is not asked again
