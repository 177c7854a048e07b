"""Attribution: what tokens do to a run; attention says only what is read of them.

Letters: ``Q`` queries, ``K`` keys, ``T`` decoder rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from visformer.values.arrays import Floats
from visformer.values.facts import Kind

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
