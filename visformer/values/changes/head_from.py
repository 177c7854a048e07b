"""HeadFrom: a head as it was in another run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from visformer.values.arrays import Floats
from visformer.values.changes.patch import Patch
from visformer.values.changes.written_fields import HeadField, KindField, LayerField
from visformer.values.facts import ModelFacts


@dataclass(frozen=True)
class HeadFrom(Patch):
    """Take a head's z, before W_O, from another run: resample ablation, or patching.

    The bias of W_O stays.
    """

    name = "head from"
    forms = ("head {kind} from {run}{layer}{head}",)
    examples = ("head cross from clean.vis @ L2H5",)
    point = "heads"

    kind: KindField
    layer: LayerField = None
    head: HeadField = None

    def part(self, run: Any) -> Floats:
        """Return z of a Trace, [layers, heads, Q, d]."""
        layers = range(run.layers(self.kind)) if self.layer is None else [self.layer]
        heads = range(run.heads(self.kind)) if self.head is None else [self.head]
        each = [np.stack([run.z(self.kind, at, h) for h in heads]) for at in layers]
        return np.stack(each)

    def needs(self, model: ModelFacts) -> tuple[int, ...]:
        """Return how many layers and heads it takes, and the width of z."""
        facts = model.attention[self.kind]
        layers = facts.layers if self.layer is None else 1
        return layers, facts.heads if self.head is None else 1, facts.value_size
