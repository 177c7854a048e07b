"""What the engine measures of a run beside its steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from visformer.values.arrays import Doubles, Floats, Ids
from visformer.values.facts import Kind, SentenceSide, StackName

AttributionName = Literal["zeroing", "norms", "gradient"]
ATTRIBUTIONS: tuple[AttributionName, ...] = ("zeroing", "norms", "gradient")


class AttributionPlace(NamedTuple):
    """What is asked: a measure, and the attention that it is of."""

    how: AttributionName
    kind: Kind
    layer: int  # 0 of a gradient, which goes through all layers


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Attribution:
    """The answer: a number of each key for each query; arrays are read-only.

    Rows of "zeroing" and "norms" sum to 1, or are 0 where nothing counts; "gradient" is
    signed, in nats.
    """

    values: Floats | None = None  # [Q, K]; None where the model cannot tell
    reason: str = ""  # why it cannot
    share: Floats | None = None  # [T], of the source, in [0, 1], where it was asked for


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Attributions:
    """All that is known of one run."""

    of: tuple[object, ...]  # what its Trace is made of, compared by identity
    known: Mapping[AttributionPlace, Attribution]

    @property
    def share(self) -> Floats | None:
        """The source's share of each choice, [T], once it is known."""
        shares = (one.share for one in self.known.values())
        return next((share for share in shares if share is not None), None)


NOTHING = 0.01  # nats: what is less makes the sentence at most 1 % more or less likely


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Patched:
    """One place after another of the residual stream, taken from another run.

    Both runs read the same target, and sources of one length. Changes are of the sum of
    log p of the target's tokens, in nats, by stack: [layers, tokens].
    """

    other: float  # the sum of log p in the other run
    into_other: Mapping[StackName, Doubles]  # this run's stream there: denoising
    from_other: Mapping[StackName, Doubles]  # the other's stream here: noising


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Importance:
    """How the log p of a run's tokens changes without each of its parts.

    Changes are of the sum over the tokens, in nats: below 0 where the run needs the
    part, above 0 where it is better off without; float64, layers and heads from 0.
    """

    log_p: Doubles  # [T], of each token that the run chose, or of its reference
    heads: Mapping[Kind, Doubles]  # [layers, heads]: a head off, exact
    layers: Mapping[Kind, Doubles]  # [layers]: all heads of a layer off, exact
    source: Doubles | None = None  # [S]: a token hidden from every query; exact
    # first-order estimate of ``heads``, and Michel's measure; {} where unknown
    gradient: Mapping[Kind, Doubles]  # [layers, heads], nats
    sensitivity: Mapping[Kind, Doubles]  # [layers, heads], each layer's length is 1
    patched: Patched | None = None  # where there is a run to take streams from
    reasons: tuple[str, ...] = ()  # why something is not known

    @property
    def total(self) -> float:
        """The sum of log p, in nats."""
        return float(self.log_p.sum())

    def mean(self, kind: Kind) -> Doubles:
        """Return the change of the mean log p without each head, [layers, heads]."""
        changes: Doubles = self.heads[kind] / len(self.log_p)
        return changes

    def agreement(self, kind: Kind) -> float:
        """Return the rank correlation of exact changes and estimates, in [-1, 1].

        Spearman's rho over the heads of a kind; NaN where one of both is constant or
        there is no estimate.
        """
        if kind not in self.gradient:
            return np.nan
        one, other = (_ranks(of[kind].ravel()) for of in (self.heads, self.gradient))
        one, other = one - one.mean(), other - other.mean()
        with np.errstate(invalid="ignore"):
            return float(one @ other / np.sqrt((one @ one) * (other @ other)))


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ImportanceOfPairs:
    """The change of the mean log p of references without each head, over pairs."""

    pairs: int
    mean: Mapping[Kind, Doubles]  # [layers, heads], nats per token
    spread: Mapping[Kind, Doubles]  # standard deviation among these pairs


def _ranks(values: Doubles) -> Doubles:
    """Return the rank of each number, equal ones at the mean of their places."""
    _found, at, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = counts.cumsum()
    ranks: Doubles = (last - (counts - 1) / 2)[at]
    return ranks


class ChangeReport(NamedTuple):
    """One step of a changed run against the original; pairs are (original, changed).

    ``token`` is what the changed run chose there, ``other`` the original's best token
    beside it. Logarithms are natural.
    """

    token: str
    other: str
    log_p: tuple[float, float]  # of the token
    logit_difference: tuple[float, float]  # of the token to the other
    divergence: float  # KL(original || changed), in nats
    rank: tuple[int, int]  # of the token, from 1
    row_sums: float  # how far a row of weights is from 1 at most, where changes act
    independent: int  # rows of residual streams that cannot depend on the changes
    equal: int  # how many of these are the original's to the last bit
    moved: bool  # whether any row of a stream, or the distribution, is another
    reason: str  # why nothing moved, where that is known
    lacking: int  # rows that stay, since the run that is taken from has no such row


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class WholeDistribution:
    """All V tokens, best first; of equal ones the lowest id first."""

    ids: Ids  # [V]
    tokens: tuple[str, ...]  # V of them
    probabilities: Floats  # [V], in [0, 1]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class NearWords:
    """N tokens of one side: the one asked for, then its nearest, best first.

    ``cosines`` are of the angles between its embedding row and theirs, in [-1, 1].
    """

    side: SentenceSide
    ids: Ids  # [N]
    tokens: tuple[str, ...]
    cosines: Floats  # [N]
    vocabulary: int
    width: int  # numbers in a row


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SeriesPoint:
    """What a run of the sentence measures at one point of a training."""

    name: str  # of its file or folder
    step: int  # the last number in that name; the place in the series without one
    path: str  # of its checkpoint; "" for a recorded run
    loss: float  # mean -log p of the target's tokens, in nats
    # of each head [L, H], by the measure's name; {} where it is not known
    heads: Mapping[str, Mapping[Kind, Floats]]
