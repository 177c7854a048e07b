"""HeadScale: a head off, or multiplied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from visformer.values.changes.run_change import LocalChanges, RunChange
from visformer.values.changes.written_fields import (
    NUMBER,
    HeadField,
    KindField,
    LayerField,
)

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
