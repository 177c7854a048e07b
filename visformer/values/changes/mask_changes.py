"""What rows may read: the causal mask, cells, source tokens, the masked score."""

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from visformer.arguments import real_number
from visformer.language import _
from visformer.values.attention_heads import NO_WEIGHT
from visformer.values.changes.run_change import LocalChanges, RunChange
from visformer.values.changes.written_fields import (
    HEAD,
    LAYER,
    NUMBER,
    FieldText,
    KindField,
    LayerField,
    RowField,
    SwitchField,
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


@dataclass(frozen=True)
class Cell(RunChange):
    """Allow or forbid one query to read one key."""

    name = "cell"
    forms = ("cell {kind} {query} {key} {allowed}{layer}",)
    examples = ("cell cross 2 5 off",)
    point = "mask"

    kind: KindField
    query: RowField
    key: RowField
    allowed: SwitchField
    layer: LayerField = None

    def apply(self, x: Any, place: LocalChanges) -> Any:
        """Set the cell of a mask, bool [..., Q, K], if it is there yet."""
        if self.query < x.shape[-2] and self.key < x.shape[-1]:
            x[..., self.query, self.key] = self.allowed
        return x


@dataclass(frozen=True)
class HeadCell(RunChange):
    """Allow or forbid one query to read one key, in one head.

    It acts before the softmax: the row's other weights grow, and sum to 1 again.
    """

    name = "head cell"
    forms = ("cell {kind} {query} {key} {allowed}{layer}{head}",)
    examples = ("cell cross 2 5 off @ L2H5",)
    point = "head mask"

    kind: KindField
    query: RowField
    key: RowField
    allowed: SwitchField
    layer: Annotated[int, LAYER]
    head: Annotated[int, HEAD]

    def apply(self, x: Any, place: LocalChanges) -> Any:
        """Set the cell of a head's mask, bool [..., H, Q, K], if it is there yet."""
        x[place.at(self.query, self.head, self.key)] = self.allowed
        return x


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


def _value(name: str, value: object) -> float:
    return real_number(name, value, _("a number or -inf"))


@dataclass(frozen=True)
class MaskedScore(RunChange):
    """Replace masked scores by another value than the model's own.

    0 is what you get by multiplying the scores by the mask: masked keys keep a weight.
    """

    name = "masked score"
    forms = ("multiply", "masked score {masked_value}", "fill {masked_value}")
    examples = ("multiply", "masked score -1e4")
    point = "masked score"

    masked_value: Annotated[float, NUMBER._replace(check=_value)] = 0.0

    def apply(self, x: Any, place: LocalChanges) -> Any:
        """Return the value."""
        return self.masked_value

    def reaches_back(self, among: tuple[RunChange, ...]) -> bool:
        """Whether masked keys keep a weight, later ones as well.

        A large scale brings other scores down to any that is finite.
        """
        scaled = any(change.point == "scale" for change in among)
        return self.masked_value > (-math.inf if scaled else NO_WEIGHT)
