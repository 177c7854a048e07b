"""HeadMean: a head that gives every query the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from visformer.values.changes.run_change import LocalChanges, RunChange
from visformer.values.changes.written_fields import HeadField, KindField, LayerField


@dataclass(frozen=True)
class HeadMean(RunChange):
    """Replace a head's z, before W_O, by its mean over the sentence's queries.

    The bias of W_O stays. This is mean ablation. The decoder's queries are those of the
    tokens so far, so each one that is added changes the others.
    """

    name = "head mean"
    forms = ("head {kind} mean{layer}{head}",)
    examples = ("head cross mean @ L2H5",)
    point = "heads"

    kind: KindField
    layer: LayerField = None
    head: HeadField = None

    def apply(self, x: Any, place: LocalChanges) -> Any:
        """Replace z, [..., H, Q, d]."""
        if x.shape[-2]:
            here = place.at(None, self.head)
            x[here] = x[here].mean(-2)[..., None, :]
        return x

    def reaches_back(self, among: tuple[RunChange, ...]) -> bool:
        """Whether later tokens are among the queries."""
        return self.kind != "encoder"
