"""What a change did to one step of a run."""

from __future__ import annotations

from typing import NamedTuple

from visformer.values.memo import same
from visformer.values.trace import Trace


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


class StepEffect(NamedTuple):
    """A step of a changed run, and what is known of the change there."""

    of: tuple[object, ...]  # what the Trace is made of, compared by identity
    step: int
    told: bool = False  # whether it was answered
    report: ChangeReport | None = None  # None: not yet known, or not available

    def is_of(self, trace: Trace, step: int) -> bool:
        """Tell whether it is of this step of this run."""
        return step == self.step and same(self.of, trace.storage)
