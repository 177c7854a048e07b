"""UniformRow: one query that reads all its keys alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from visformer.values.changes.run_change import LocalChanges, RunChange
from visformer.values.changes.written_fields import (
    HeadField,
    KindField,
    LayerField,
    RowField,
)


@dataclass(frozen=True)
class UniformRow(RunChange):
    """Give every key that the mask allows a query the same weight."""

    name = "row"
    forms = ("row {kind} {query} = uniform{layer}{head}",)
    examples = ("row cross 2 = uniform @ L2H5",)
    point = "weights"

    kind: KindField
    query: RowField
    layer: LayerField = None
    head: HeadField = None

    def apply(self, x: Any, place: LocalChanges) -> Any:
        """Replace the row of the weights, [..., H, Q, K], where it may read any key."""
        row = place.at(self.query, self.head)
        allowed = place.beside[row]
        count = allowed.sum(-1)[..., None]
        x[row] = x[row] * (count == 0) + allowed / (count + (count == 0))
        return x
