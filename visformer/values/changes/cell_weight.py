"""CellWeight: one attention weight, set or multiplied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from visformer.values.changes.head_scale import LARGEST
from visformer.values.changes.run_change import LocalChanges, RunChange
from visformer.values.changes.written_fields import (
    FieldText,
    HeadField,
    KindField,
    LayerField,
    NumberField,
    RowField,
    one_word,
    truth,
)

_RAW = FieldText(" raw|", " raw".__eq__, lambda raw: " raw" if raw else "", truth)


@dataclass(frozen=True)
class CellWeight(RunChange):
    """Set one weight to ``amount`` ("="), or multiply it ("*"), after the softmax.

    The row's other weights are scaled so that it sums to 1, which limits the weight to
    1 and cannot be done where all others are 0; with ``raw`` they stay as they are.
    """

    name = "weight"
    forms = ("cell {kind} {query} {key} {how} {amount}{raw}{layer}{head}",)
    examples = ("cell cross 2 5 = 0.9 @ L2H5", "cell cross 2 5 * 0.5 raw")
    point = "weights"

    kind: KindField
    query: RowField
    key: RowField
    how: Annotated[Literal["=", "*"], one_word(("=", "*"))]
    amount: NumberField
    raw: Annotated[bool, _RAW] = False
    layer: LayerField = None
    head: HeadField = None

    def __post_init__(self) -> None:
        RunChange.__post_init__(self)
        low, high = -LARGEST, LARGEST
        if not self.raw:
            low, high = 0, 1 if self.how == "=" else LARGEST
        self.require(self.amount, low, high, whole=False)

    def apply(self, x: Any, place: LocalChanges) -> Any:
        """Change the cell of the weights, [..., H, Q, K], and the rest of its row."""
        if self.key >= x.shape[-1]:
            return x
        cell = place.at(self.query, self.head, self.key)
        row = x[place.at(self.query, self.head)]
        old = x[cell]
        new = self.amount * (old if self.how == "*" else old * 0 + 1)
        if not self.raw:
            new = new.clip(max=1)
            rest = row.sum(-1)[..., None] - old
            row *= (1 - new) / (rest + (rest == 0))
        x[cell] = new
        return x

    def reaches_back(self, among: tuple[RunChange, ...]) -> bool:
        """Whether it gives a decoder row a weight on a token that follows.

        Multiplying such a weight, 0 by the mask, leaves it 0.
        """
        pinned = self.how == "=" and self.amount != 0
        return pinned and self.kind == "decoder" and self.key > self.query
