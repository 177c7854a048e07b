"""MaskedScore: what masked scores are replaced by."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

from visformer.arguments import real_number
from visformer.language import _
from visformer.values.changes.run_change import LocalChanges, RunChange
from visformer.values.changes.written_fields import NUMBER
from visformer.values.score_bias import NO_WEIGHT


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
