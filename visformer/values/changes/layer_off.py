"""LayerOff: a layer that is skipped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from visformer.values.changes.run_change import LocalChanges, RunChange
from visformer.values.changes.written_fields import LayerField, one_word
from visformer.values.facts import STACKS, StackName


@dataclass(frozen=True)
class LayerOff(RunChange):
    """Skip a layer: the residual stream leaves it as it entered."""

    name = "layer"
    forms = ("layer {stack} off{layer}",)
    examples = ("layer encoder off @ L2",)
    point = "stream"

    stack: Annotated[StackName, one_word(STACKS, where=True)]
    layer: LayerField = None

    def apply(self, x: Any, place: LocalChanges) -> Any:
        """Return the stream as it entered, [..., T, D]."""
        return place.beside
