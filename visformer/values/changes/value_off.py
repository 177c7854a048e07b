"""ValueOff: a key whose value is zero."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from visformer.values.changes.run_change import LocalChanges, RunChange
from visformer.values.changes.written_fields import KindField, LayerField, RowField


@dataclass(frozen=True)
class ValueOff(RunChange):
    """Make a token's value zero in every head: its weights stay, it adds nothing."""

    name = "value"
    forms = ("value {kind} {key} off{layer}",)
    examples = ("value cross 5 off",)
    point = "values"

    kind: KindField
    key: RowField
    layer: LayerField = None

    def apply(self, x: Any, place: LocalChanges) -> Any:
        """Zero the token's row of the values, [..., H, K, d]."""
        x[place.at(self.key)] = 0
        return x
