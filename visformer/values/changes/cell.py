"""Cell: one cell of a mask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from visformer.values.changes.run_change import LocalChanges, RunChange
from visformer.values.changes.written_fields import (
    KindField,
    LayerField,
    RowField,
    SwitchField,
)


@dataclass(frozen=True)
class Cell(RunChange):
    """Allow or forbid one query to read one key."""

    name = "cell"
    forms = ("cell {kind} {query} {key} {allowed}{layer}",)
    examples = ("cell cross 2 5 off",)
    point = "mask"

    kind: KindField
    query: RowField
    key: RowField
    allowed: SwitchField
    layer: LayerField = None

    def apply(self, x: Any, place: LocalChanges) -> Any:
        """Set the cell of a mask, bool [..., Q, K], if it is there yet."""
        if self.query < x.shape[-2] and self.key < x.shape[-1]:
            x[..., self.query, self.key] = self.allowed
        return x
