"""What flows through the layers: other words, a layer skipped, rows of another run."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from visformer.errors import InputError
from visformer.values.arrays import Floats
from visformer.values.changes.head_changes import HeadFrom
from visformer.values.changes.patch import Patch
from visformer.values.changes.run_change import LocalChanges, RunChange
from visformer.values.changes.written_fields import (
    QUOTED,
    KindField,
    LayerField,
    RowField,
    one_word,
)
from visformer.values.facts import STACKS, ModelFacts, SentenceSide, StackName


@dataclass(frozen=True)
class Embedding(RunChange):
    """Embed another word in the place of a token; its position stays.

    The word must be one token of the vocabulary, as it is shown or as it is typed.
    """

    name = "embedding"
    forms = ("embedding {side} {row} = {word}",)
    examples = ('embedding source 2 = "dog"',)
    point = "embedding"

    side: Annotated[SentenceSide, one_word(("source", "target"), where=True)]
    row: RowField
    word: Annotated[str, QUOTED]

    def looked_up(self, find: Callable[[SentenceSide, str], int]) -> RunChange:
        """Return it with the word's id; raises InputError if it is not one token."""
        return _EmbeddedId(self.side, self.row, self.word, find(self.side, self.word))


@dataclass(frozen=True)
class _EmbeddedId(Embedding):
    id: int

    def apply(self, x: Any, place: LocalChanges) -> Any:
        """Replace the token's row, [..., T, D]."""
        x[place.at(self.row)] = place.beside([self.id])
        return x


@dataclass(frozen=True)
class LayerOff(RunChange):
    """Skip a layer: the residual stream leaves it as it entered."""

    name = "layer"
    forms = ("layer {stack} off{layer}",)
    examples = ("layer encoder off @ L2",)
    point = "stream"

    stack: Annotated[StackName, one_word(STACKS, where=True)]
    layer: LayerField = None

    def apply(self, x: Any, place: LocalChanges) -> Any:
        """Return the stream as it entered, [..., T, D]."""
        return place.beside


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
