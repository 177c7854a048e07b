"""What heads give: their mean, that of another run or of a file, without a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np

from visformer.values.arrays import Floats
from visformer.values.changes.patch import Patch, TakenRows
from visformer.values.changes.run_change import LocalChanges, RunChange
from visformer.values.changes.written_fields import (
    HEAD,
    LAYER,
    HeadField,
    KindField,
    LayerField,
    RowField,
)
from visformer.values.facts import ModelFacts


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


@dataclass(frozen=True)
class HeadOnly(RunChange):
    """Switch off the heads of a layer that no such change names; W_O keeps its bias."""

    name = "head only"
    forms = ("head {kind} only{layer}{head}",)
    examples = ("head cross only @ L2H1,L2H5",)
    point = "heads"

    kind: KindField
    layer: Annotated[int, LAYER]
    head: Annotated[int, HEAD]

    def concerns_head(self, head: int) -> bool:
        """Return True: it is the other heads that it switches off."""
        return True

    def apply(self, x: Any, place: LocalChanges) -> Any:
        """Zero z, [..., H, Q, d], of all heads that are not named."""
        kept = {one.head for one in place.changes if isinstance(one, HeadOnly)}
        for head in range(x.shape[-3]):
            if head + place.head not in kept:
                x[..., head, :, :] = 0
        return x


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


@dataclass(frozen=True)
class HeadMeanOf(HeadFrom):
    """Replace a head's z, before W_O, by its mean over all queries of a file's pairs.

    The bias of W_O stays. The model that is run fills in the mean, one row that every
    query is given; what was filled in is no part of what the change is.
    """

    name = "head mean of"
    forms = ("head {kind} mean of {run}{layer}{head}",)
    examples = ("head cross mean of pairs.tsv @ L2H5",)

    taken: TakenRows | None = field(
        default=None, repr=False, kw_only=True, compare=False
    )

    def filled(self, runs: Mapping[str, Any]) -> HeadMeanOf:
        """Return it as it is: its numbers are of no run."""
        return self

    def apply(self, x: Any, place: LocalChanges) -> Any:
        """Replace z, [..., H, Q, d]."""
        if self.taken is None:
            return x
        layer, head = self.place
        mean = self.taken.array[place.layer if layer is None else 0]  # [H, 1, d]
        if head is None:
            mean = mean[place.head : place.head + x.shape[-3]]
        x[place.at(None, head)] = getattr(x, "new_tensor", np.asarray)(mean)
        return x

    def lacking(self, rows: int) -> int:
        """Return 0: every row is given the mean."""
        return 0


@dataclass(frozen=True)
class ValueOff(RunChange):
    """Make a token's value zero in every head: its weights stay, it adds nothing."""

    name = "value"
    forms = ("value {kind} {key} off{layer}",)
    examples = ("value cross 5 off",)
    point = "values"

    kind: KindField
    key: RowField
    layer: LayerField = None

    def apply(self, x: Any, place: LocalChanges) -> Any:
        """Zero the token's row of the values, [..., H, K, d]."""
        x[place.at(self.key)] = 0
        return x
