"""HeadMeanOf: a head that gives every query what it gives on average in a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from visformer.values.changes.head_from import HeadFrom
from visformer.values.changes.patch import TakenRows
from visformer.values.changes.run_change import LocalChanges


@dataclass(frozen=True)
class HeadMeanOf(HeadFrom):
    """Replace a head's z, before W_O, by its mean over all queries of a file's pairs.

    The bias of W_O stays. The model that is run fills in the mean, one row that every
    query is given; what was filled in is no part of what the change is.
    """

    name = "head mean of"
    forms = ("head {kind} mean of {run}{layer}{head}",)
    examples = ("head cross mean of pairs.tsv @ L2H5",)

    taken: TakenRows | None = field(
        default=None, repr=False, kw_only=True, compare=False
    )

    def filled(self, runs: Mapping[str, Any]) -> HeadMeanOf:
        """Return it as it is: its numbers are of no run."""
        return self

    def apply(self, x: Any, place: LocalChanges) -> Any:
        """Replace z, [..., H, Q, d]."""
        if self.taken is None:
            return x
        layer, head = self.place
        mean = self.taken.array[place.layer if layer is None else 0]  # [H, 1, d]
        if head is None:
            mean = mean[place.head : place.head + x.shape[-3]]
        x[place.at(None, head)] = getattr(x, "new_tensor", np.asarray)(mean)
        return x

    def lacking(self, rows: int) -> int:
        """Return 0: every row is given the mean."""
        return 0
