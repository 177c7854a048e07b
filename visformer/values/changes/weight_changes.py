"""Scores and weights of attention: multiplied, set, made uniform; heads off."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from visformer.values.changes.run_change import LocalChanges, RunChange
from visformer.values.changes.written_fields import (
    NUMBER,
    FieldText,
    HeadField,
    KindField,
    LayerField,
    NumberField,
    RowField,
    one_word,
    or_none,
    truth,
)

_LARGEST = 1000.0


@dataclass(frozen=True)
class ScoreScale(RunChange):
    """Multiply the scores of every kind of attention by ``factor``.

    The factor comes on top of the model's own scale, 1/sqrt(d) in the paper; with None
    the products of queries and keys are not scaled at all.
    """

    name = "scale"
    forms = ("scale {factor}{layer}",)
    examples = ("scale off", "scale 2")
    point = "scale"

    factor: Annotated[float | None, or_none(NUMBER)]
    layer: LayerField = None

    def __post_init__(self) -> None:
        RunChange.__post_init__(self)
        self.require(self.factor or 0.0, -_LARGEST, _LARGEST, whole=False)

    def apply(self, x: Any, place: LocalChanges) -> Any:
        """Return the changed scale; of several the last one holds."""
        return 1.0 if self.factor is None else place.beside * self.factor


LARGEST = 1000.0  # factor
_FACTOR = NUMBER._replace(
    pattern=rf"off|\* ?(?:{NUMBER.pattern})",
    read=lambda text: 0.0 if text == "off" else float(text[1:]),
    write=lambda factor: f"* {NUMBER.write(factor)}" if factor else "off",
)


@dataclass(frozen=True)
class HeadScale(RunChange):
    """Multiply what a head reads by ``factor``, before W_O; 0 switches the head off.

    The bias of W_O stays. Switching a head off is zero ablation.
    """

    name = "head"
    forms = ("head {kind} {factor}{layer}{head}",)
    examples = ("head cross off @ L2H5", "head cross * 0.5")
    point = "heads"

    kind: KindField
    factor: Annotated[float, _FACTOR]
    layer: LayerField = None
    head: HeadField = None

    def __post_init__(self) -> None:
        RunChange.__post_init__(self)
        self.require(self.factor, -LARGEST, LARGEST, whole=False)

    def apply(self, x: Any, place: LocalChanges) -> Any:
        """Multiply z, [..., H, Q, d]."""
        here = place.at(None, self.head)
        x[here] = x[here] * self.factor if self.factor else 0
        return x


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


@dataclass(frozen=True)
class UniformRow(RunChange):
    """Give every key that the mask allows a query the same weight."""

    name = "row"
    forms = ("row {kind} {query} = uniform{layer}{head}",)
    examples = ("row cross 2 = uniform @ L2H5",)
    point = "weights"

    kind: KindField
    query: RowField
    layer: LayerField = None
    head: HeadField = None

    def apply(self, x: Any, place: LocalChanges) -> Any:
        """Replace the row of the weights, [..., H, Q, K], where it may read any key."""
        row = place.at(self.query, self.head)
        allowed = place.beside[row]
        count = allowed.sum(-1)[..., None]
        x[row] = x[row] * (count == 0) + allowed / (count + (count == 0))
        return x
