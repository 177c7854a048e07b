"""HeadCell: one cell of one head's mask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from visformer.values.changes.run_change import LocalChanges, RunChange
from visformer.values.changes.written_fields import (
    HEAD,
    LAYER,
    KindField,
    RowField,
    SwitchField,
)


@dataclass(frozen=True)
class HeadCell(RunChange):
    """Allow or forbid one query to read one key, in one head.

    It acts before the softmax: the row's other weights grow, and sum to 1 again.
    """

    name = "head cell"
    forms = ("cell {kind} {query} {key} {allowed}{layer}{head}",)
    examples = ("cell cross 2 5 off @ L2H5",)
    point = "head mask"

    kind: KindField
    query: RowField
    key: RowField
    allowed: SwitchField
    layer: Annotated[int, LAYER]
    head: Annotated[int, HEAD]

    def apply(self, x: Any, place: LocalChanges) -> Any:
        """Set the cell of a head's mask, bool [..., H, Q, K], if it is there yet."""
        x[place.at(self.query, self.head, self.key)] = self.allowed
        return x
