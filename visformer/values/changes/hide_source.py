"""HideSource: a source token that nobody reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from visformer.values.changes.run_change import LocalChanges, RunChange
from visformer.values.changes.written_fields import LayerField, RowField


@dataclass(frozen=True)
class HideSource(RunChange):
    """Hide a source token from the queries of the encoder and of the decoder."""

    name = "hide"
    forms = ("hide {token}{layer}",)
    examples = ("hide 3",)
    point = "mask"
    everywhere = ("encoder", "cross")

    token: RowField
    layer: LayerField = None

    def apply(self, x: Any, place: LocalChanges) -> Any:
        """Mask the token's column, bool [..., Q, K]."""
        x[..., self.token] = False
        return x
