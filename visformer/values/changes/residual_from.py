"""ResidualFrom: a row of the residual stream as it was in another run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from visformer.errors import InputError
from visformer.values.arrays import Floats
from visformer.values.changes.patch import Patch
from visformer.values.changes.written_fields import LayerField, RowField, one_word
from visformer.values.facts import STACKS, ModelFacts, StackName


@dataclass(frozen=True)
class ResidualFrom(Patch):
    """Take a token's residual stream, as it leaves a layer, from another run."""

    name = "residual from"
    forms = ("residual {stack} {row} from {run}{layer}",)
    examples = ("residual decoder 3 from clean.vis @ L2",)
    point = "stream"

    stack: Annotated[StackName, one_word(STACKS, where=True)]
    row: RowField
    layer: LayerField = None

    def part(self, run: Any) -> Floats:
        """Return a Trace's streams, [layers, 1, D]; no row without that token."""
        after = slice(1, None) if self.layer is None else [self.layer + 1]
        streams = run.hidden(self.stack, after)
        return np.asarray(streams[:, self.row : self.row + 1])

    def needs(self, model: ModelFacts) -> tuple[int, ...]:
        """Return how many layers it takes, and the width of the stream."""
        facts = model.stacks.get(self.stack)
        if facts is None or not facts.hidden:
            raise InputError(
                "“{change}” cannot be made: it is not known what leaves this model's "
                "layers.",
                change=self,
            )
        return facts.hidden - 1 if self.layer is None else 1, facts.d_model
