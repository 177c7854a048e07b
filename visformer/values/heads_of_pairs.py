"""What heads do over the pairs of a file: numbers per head, their roles, examples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from visformer.language import N_
from visformer.values.arrays import Doubles, Floats
from visformer.values.scanned import PairLine

POSITIONAL = 0.9  # Voita et al. 2019, 5.1: the largest weight in 90 % of cases or more
RARE = 0.66  # the same, 5.3: their head points to the rarest token in 66 % of cases
TOP = 5  # sentences at each end of a measure


class HeadMeasure(NamedTuple):
    """A number of a head, as it is named on screen."""

    title: str
    tip: str


MEASURES: dict[str, HeadMeasure] = {
    "confidence": HeadMeasure(
        N_("confidence"),
        N_(
            "Mean of the rows' largest weights; rows and keys of the end token do not "
            "count (Voita et al. 2019)"
        ),
    ),
    "entropy": HeadMeasure(
        N_("entropy (nats)"),
        N_("Mean entropy of the rows; those of the end token do not count"),
    ),
    "distance": HeadMeasure(
        N_("distance (tokens)"),
        N_(
            "Mean of |i − j| weighted by attention; of self-attention alone, since "
            "cross-attention reads another text"
        ),
    ),
    "previous": HeadMeasure(
        N_("reads token before"),
        N_(
            "Share of rows whose largest weight is on the token before; from 90 % on "
            "the head is positional (Voita et al. 2019)"
        ),
    ),
    "next": HeadMeasure(
        N_("reads token after"),
        N_(
            "Share of rows whose largest weight is on the token after; from 90 % on "
            "the head is positional (Voita et al. 2019)"
        ),
    ),
    "rare": HeadMeasure(
        N_("reads rarest piece"),
        N_(
            "Share of rows whose largest weight is on the piece that the file has "
            "least often, where it is one piece; from 66 % on it is a rare-word head "
            "(Voita et al. 2019)"
        ),
    ),
    "sink": HeadMeasure(
        N_("end or start token"),
        N_(
            "Mean weight on the source's end token; in decoder self-attention on the "
            "first token"
        ),
    ),
    "sink norm": HeadMeasure(
        N_("end or start, by norm"),
        N_(
            "The token's share of the norms of α v Wₒ (Kobayashi et al. 2020): a large "
            "weight on a short vector moves little"
        ),
    ),
    "importance": HeadMeasure(
        N_("importance (nats)"),
        N_(
            "How much a token's log p changes without the head, estimated by gradient: "
            "the mean of the pairs' |change| (Michel et al. 2019)"
        ),
    ),
}
# alignment error rates, each target word aligned where it is read and where written
ERROR_RATES = "awi", "awo"
AT = {name: at for at, name in enumerate((*MEASURES, *ERROR_RATES))}  # along an axis
ROLES = {  # measure -> least share, and what the head is called then
    "previous": (POSITIONAL, N_("positional, −1: {share}")),
    "next": (POSITIONAL, N_("positional, +1: {share}")),
    "rare": (RARE, N_("rare word: {share}")),
}
MEAN = "mean"  # among the kinds: the mean of a cross layer's heads, as one head


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class HeadsOfSome:
    """What heads do in N pairs; axes are N, M measures, layers and heads from 0.

    A measure is a sum by a count, of rows, tokens or alignments: over pairs, sums and
    counts add up. A count of 0 is no data.
    """

    pairs: tuple[PairLine, ...]
    sums: Mapping[str, Floats]  # [N, M, L, H]
    counts: Mapping[str, Floats]  # [N, M, L, H]
    left_out: tuple[str, ...] = ()  # lines, a sentence for each


class HeadExample(NamedTuple):
    """A pair, and a head's measure in it."""

    pair: PairLine
    value: float


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class HeadsOfPairs:
    """The heads of a file of pairs, as far as it is read."""

    path: str
    model: str  # its name
    parts: tuple[HeadsOfSome, ...] = ()
    sums: Mapping[str, Doubles] = field(default_factory=dict)  # [M, L, H]
    counts: Mapping[str, Doubles] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()  # lines, a sentence for each

    def plus(self, part: HeadsOfSome) -> HeadsOfPairs:
        """Return it with more pairs."""
        return replace(
            self,
            parts=(*self.parts, part),
            sums=_added(self.sums, part.sums),
            counts=_added(self.counts, part.counts),
            left_out=(*self.left_out, *part.left_out),
        )

    def __len__(self) -> int:
        """Return how many pairs were read."""
        return sum(len(part.pairs) for part in self.parts)

    def mean(self, name: str, kind: str) -> Doubles:
        """Return a measure of a kind's heads, [L, H]; NaN without data."""
        return _shares(self.sums[kind][AT[name]], self.counts[kind][AT[name]])

    def shares(self, kind: str) -> dict[str, Doubles]:
        """Return what may give a kind's heads a role, [L, H] by the measure."""
        return {name: self.mean(name, kind) for name in ROLES}

    def examples(
        self, name: str, kind: str, layer: int, head: int
    ) -> list[HeadExample]:
        """Return the pairs with a head's largest and smallest measure, from the top."""
        at = AT[name], layer, head
        known = [
            HeadExample(pair, value)
            for part in self.parts
            for pair, value in zip(
                part.pairs,
                _shares(
                    part.sums[kind][:, *at].astype(np.float64),
                    part.counts[kind][:, *at].astype(np.float64),
                ).tolist(),
                strict=True,
            )
            if value == value
        ]
        known.sort(key=lambda one: (-one.value, one.pair.line))
        return known if len(known) <= 2 * TOP else [*known[:TOP], *known[-TOP:]]


def _added(
    known: Mapping[str, Doubles], more: Mapping[str, Floats]
) -> dict[str, Doubles]:
    sums = {kind: each.sum(0, dtype=np.float64) for kind, each in more.items()}
    return {**known, **{kind: known.get(kind, 0) + one for kind, one in sums.items()}}


def _shares(sums: Doubles, counts: Doubles) -> Doubles:
    with np.errstate(invalid="ignore", divide="ignore"):
        shares: Doubles = np.where(counts > 0, sums / counts, np.nan)
    return shares
