"""OutputFrom: what an attention returned to a token in another run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from visformer.errors import InputError
from visformer.values.arrays import Floats
from visformer.values.changes.head_from import HeadFrom
from visformer.values.changes.patch import Patch
from visformer.values.changes.written_fields import KindField, LayerField, RowField
from visformer.values.facts import ModelFacts


@dataclass(frozen=True)
class OutputFrom(Patch):
    """Take an attention's output for a query from another run of the same weights.

    It is taken before W_O, which makes the same output of it.
    """

    name = "output from"
    forms = ("output {kind} {query} from {run}{layer}",)
    examples = ("output cross 3 from clean.vis @ L2",)
    point = "output"

    kind: KindField
    query: RowField
    layer: LayerField = None

    def part(self, run: Any) -> Floats:
        """Return z of a query of a Trace, [layers, H, 1, d]; no row without it."""
        heads = HeadFrom(self.kind, self.layer, run=self.run).part(run)
        return heads[..., self.query : self.query + 1, :]

    def needs(self, model: ModelFacts) -> tuple[int, ...]:
        """Return how many layers it takes, the heads, and the width of z."""
        return HeadFrom(self.kind, self.layer, run=self.run).needs(model)

    def check(self, model: ModelFacts, source: int) -> None:
        """Raise InputError for what does not fit, and for a run of other weights."""
        super().check(model, source)
        if self.taken is not None and self.taken.model != model.digest:
            raise InputError(
                "“{change}” needs a run of the same weights, as another W_O makes "
                "another output.",
                change=self,
            )
