"""OthersOff: in self-attention each row takes only its own value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from visformer.values.changes.run_change import LocalChanges, RunChange
from visformer.values.changes.written_fields import LayerField, one_word
from visformer.values.facts import STACKS, StackName


@dataclass(frozen=True)
class OthersOff(RunChange):
    """Make the values of all tokens zero but each row's own; weights stay.

    What is left of a row is what the token says of itself.
    """

    name = "others"
    forms = ("value {kind} others off{layer}",)
    examples = ("value decoder others off",)
    point = "heads"

    kind: Annotated[StackName, one_word(STACKS, where=True)]
    layer: LayerField = None

    def apply(self, x: Any, place: LocalChanges) -> Any:
        """Return each row's own weight times its own value, [..., H, Q, d]."""
        weights, values = place.beside  # [..., H, Q, K], [..., H, K, d]
        first, rows = place.first, x.shape[-2]
        own = weights.diagonal(first, -2, -1)[..., None]  # [..., H, Q, 1]
        return own * values[..., first : first + rows, :]
