"""What is said of every token of a vocabulary: its probability, the nearest ones."""

from __future__ import annotations

from dataclasses import dataclass

from visformer.values.arrays import Floats, Ids
from visformer.values.facts import SentenceSide
from visformer.values.memo import same
from visformer.values.trace import Trace


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class WholeDistribution:
    """All V tokens, best first; of equal ones the lowest id first."""

    ids: Ids  # [V]
    tokens: tuple[str, ...]  # V of them
    probabilities: Floats  # [V], in [0, 1]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RowDistribution:
    """The distribution over the next token that one row of a run predicts."""

    of: tuple[object, ...]  # what the Trace is made of, compared by identity
    row: int  # of the decoder; of an encoder alone, the masked token
    told: bool = False  # whether it was answered
    whole: WholeDistribution | None = None  # None: not yet known, or not available

    def is_of(self, trace: Trace | None, row: int | None) -> bool:
        """Tell whether it is of this row of this run."""
        return trace is not None and row == self.row and same(self.of, trace.storage)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class NearWords:
    """N tokens of one side: the one asked for, then its nearest, best first.

    ``cosines`` are of the angles between its embedding row and theirs, in [-1, 1].
    ``places`` [N, 2] are the rows, each scaled to length 1, on their first two
    principal components, which hold the ``shares`` of their variance.
    """

    side: SentenceSide
    ids: Ids  # [N]
    tokens: tuple[str, ...]
    cosines: Floats  # [N]
    places: Floats  # [N, 2]
    shares: tuple[float, float]  # in [0, 1]
    vocabulary: int
    width: int  # numbers in a row
