"""ScoreScale: the scores of a layer, multiplied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from visformer.values.changes.run_change import LocalChanges, RunChange
from visformer.values.changes.written_fields import NUMBER, LayerField, or_none

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
