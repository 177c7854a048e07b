"""HeadOnly: every other head of a layer off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from visformer.values.changes.run_change import LocalChanges, RunChange
from visformer.values.changes.written_fields import HEAD, LAYER, KindField


@dataclass(frozen=True)
class HeadOnly(RunChange):
    """Switch off the heads of a layer that no such change names; W_O keeps its bias."""

    name = "head only"
    forms = ("head {kind} only{layer}{head}",)
    examples = ("head cross only @ L2H1,L2H5",)
    point = "heads"

    kind: KindField
    layer: Annotated[int, LAYER]
    head: Annotated[int, HEAD]

    def concerns_head(self, head: int) -> bool:
        """Return True: it is the other heads that it switches off."""
        return True

    def apply(self, x: Any, place: LocalChanges) -> Any:
        """Zero z, [..., H, Q, d], of all heads that are not named."""
        kept = {one.head for one in place.changes if isinstance(one, HeadOnly)}
        for head in range(x.shape[-3]):
            if head + place.head not in kept:
                x[..., head, :, :] = 0
        return x
