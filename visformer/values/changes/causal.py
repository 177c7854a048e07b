"""Causal: the causal mask moved or removed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from visformer.values.changes.run_change import LocalChanges, RunChange
from visformer.values.changes.written_fields import (
    FieldText,
    LayerField,
    or_none,
    whole,
)

FARTHEST = 1 << 20  # positions that a diagonal can be moved by
_OFFSET = FieldText(r"[+-]?\d+", int, "{:+d}".format, whole(-FARTHEST))


@dataclass(frozen=True)
class Causal(RunChange):
    """Move the diagonal of the decoder's causal mask, or remove the mask.

    Query t may read the keys up to t + ``offset``; with None, every key.
    """

    name = "causal"
    forms = ("causal {offset}{layer}",)
    examples = ("causal off", "causal +1")
    point = "mask"
    everywhere = ("decoder",)

    offset: Annotated[int | None, or_none(_OFFSET)]
    layer: LayerField = None

    def apply(self, x: Any, place: LocalChanges) -> Any:
        """Replace the causal part of a mask, bool [..., Q, K]."""
        if self.offset is None:
            return place.beside
        queries, keys = x.shape[-2:]
        return place.beside & np.tri(queries, keys, self.offset, dtype=bool)
