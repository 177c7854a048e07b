"""Changes of a watched pass: results of the operations that were found, edited.

What is left as it was keeps its bits: only numbers that differ are written.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from visformer.errors import InputError
from visformer.language import N_
from visformer.values.arrays import Bools, equal
from visformer.values.attention_heads import NO_WEIGHT, AttentionHeads
from visformer.values.changes.run_change import ActingPoint, LocalChanges, RunChange
from visformer.values.facts import Kind, ModelFacts, StackName
from visformer.values.intervention import Intervention
from visformer.values.watched_attention import TOLERANCE
from visformer.watching.captured import Captured, grouped

# points before the softmax: the scores are made again, by their formula
SCORES: tuple[ActingPoint, ...] = ("mask", "scale", "scores", "head mask")
ATTENTION: tuple[ActingPoint, ...] = (
    *SCORES,
    *("weights", "values", "heads", "output"),
)
AttentionPlace = tuple[Kind, int, int]  # kind, layer, and the first head
_OUT_OF_REACH = {
    "attention": N_(
        "“{change}” cannot be made: this model computes that attention in a way that "
        "cannot be changed from outside."
    ),
    "scores": N_(
        "“{change}” cannot be made: the scores of this model are not a multiple of q·k "
        "plus a mask, so they cannot be made again."
    ),
    "stream": N_(
        "“{change}” cannot be made: it was not found what enters and leaves the layers "
        "of this model."
    ),
    "embedding": N_(
        "“{change}” cannot be made: it was not found from which table this model reads "
        "such a word."
    ),
    "": N_(
        "“{change}” cannot be made: of a model that is watched, neither positions nor "
        "the value of a mask can be changed."
    ),
}
_OPENED = N_(
    "“{change}” cannot be made: what this model adds to the scores of masked keys is "
    "not known, as it adds that and its mask at once."
)


@dataclass(frozen=True, kw_only=True)
class ChangePlaces:
    """Where the runs of a model can be changed, as one pass of it has shown."""

    facts: ModelFacts
    # by the path of a module, in order of execution; None: of no Trace
    attention: Mapping[str, Sequence[AttentionPlace | None]]
    formulas: frozenset[tuple[Kind, int]]  # whose scores can be made again
    # by the path of its layers: a stack, and whether the sequence axis comes first
    stacks: Mapping[str, tuple[StackName, bool]]
    sides: frozenset[str]  # whose words are looked up in a table

    def check(self, change: Intervention, source: int) -> None:
        """Raise InputError for a change that does not fit, or cannot be made."""
        change.check(self.facts, source)
        for one in change:
            if (reason := self._refused(one)) is not None:
                raise InputError(_OUT_OF_REACH[reason], change=one)

    def _refused(self, one: RunChange) -> str | None:
        """Return why a change cannot be made; None if it can."""
        if one.point in ATTENTION:
            layers = {*self.concerned(one)}
            known = {place[:2] for place in self.all_attention()}
            if not layers <= known:
                return "attention"
            return "scores" if one.point in SCORES and layers - self.formulas else None
        if one.point == "stream":
            stacks = {stack for stack, _first in self.stacks.values()}
            return None if {*one.kinds} <= stacks else "stream"
        if one.point == "embedding":
            return None if {*one.kinds} <= self.sides else "embedding"
        return ""

    def concerned(self, one: RunChange) -> Iterator[tuple[Kind, int]]:
        """Yield the layers of attention that a change concerns."""
        for kind, facts in self.facts.attention.items():
            for layer in range(facts.layers):
                if one.concerns(kind, layer):
                    yield kind, layer

    def all_attention(self) -> list[AttentionPlace]:
        """Return every attention that can be changed."""
        return [one for each in self.attention.values() for one in each if one]


class PassChanges:
    """The changes of one pass; it counts what was done."""

    def __init__(self, places: ChangePlaces, change: Intervention) -> None:
        self._places, self._change = places, change
        self._seen = Counter[str]()  # attentions, by module
        self._problem = ""
        # what is to be done: each attention and each side
        self._left: set[object] = {
            place
            for place in places.all_attention()
            if change.at(*place[:2]).acts(*ATTENTION)
        } | {one.kinds for one in change.acting("embedding")}

    def finish(self) -> None:
        """Raise InputError if it was not made as it should.

        The pass may have taken another way than the one that was tried.
        """
        each = self._places.attention.items()
        if self._left or any(self._seen[path] > len(several) for path, several in each):
            self._problem = self._problem or _OUT_OF_REACH["attention"]
        if self._problem:
            raise InputError(self._problem, change=self._change[0])

    # ---- words and streams -----------------------------------------------------------

    def embed(self, side: str, table: Tensor, ids: Tensor, out: Tensor) -> None:
        """Look up other words in the place of a side's, in ``out`` [..., D]."""
        here = self._change.at(side)
        if not here.acts("embedding") or side not in self._places.sides:
            return
        first = ids.dim() > 1 and ids.shape[-1] == 1  # the sequence axis comes first

        def looked_up(others: Sequence[int]) -> Tensor:
            return table[torch.as_tensor(others, device=table.device)].to(out)

        made = here.apply("embedding", _turned(out, first), beside=looked_up)
        out.copy_(_turned(made, first))
        self._left.discard((side,))

    def stream(
        self, path: str, layer: int
    ) -> Callable[[Tensor, Tensor], Tensor] | None:
        """Return what makes another output of a layer; None where nothing does.

        It is given what leaves the layer and what entered it.
        """
        stack, time_first = self._places.stacks.get(path, ("", False))
        here = self._change.at(stack, layer)
        if not here.acts("stream"):
            return None

        def changed(left: Tensor, entered: Tensor) -> Tensor:
            rows, beside = (_turned(x, time_first) for x in (left, entered))
            return _turned(here.apply("stream", rows, beside=beside), time_first)

        return changed

    # ---- attention -------------------------------------------------------------------

    def attend(self, found: Captured, out: Tensor, spots: Tensor) -> None:
        """Change an attention as it was found, and ``out``, which its result is in.

        ``spots``, int64 [B, H, Q, e], is where each number of the result lies in it.
        """
        several, at = self._places.attention.get(found.module, ()), found.module
        place = dict(enumerate(several)).get(self._seen[at])
        self._seen[at] += 1
        if place is None or place not in self._left:
            return
        self._left.remove(place)
        kind, layer, head = place
        here = replace(self._change.at(kind, layer), head=head)
        heads = found.weights.shape[1]
        found.keys, found.values = (
            grouped(several, heads) for several in (found.keys, found.values)
        )
        before = found.result.clone()
        for row in range(len(before)):
            self._change_row(found, row, kind, here)
        moved = ~equal(found.result.numpy(), before.numpy())
        numbers = found.result[torch.from_numpy(moved)].to(out)
        flat = out.reshape(-1).clone()
        flat[spots[torch.from_numpy(moved)].to(out.device)] = numbers
        out.copy_(flat.view(out.shape))

    def _change_row(
        self, found: Captured, row: int, kind: Kind, here: LocalChanges
    ) -> None:
        """Change the weights, the mask and the result of one sentence."""
        one = _ChangedRow(found, row)
        mask = self._change.mask(kind, here.layer, one.mask, one.opened)
        own, values = found.weights[row].numpy(), found.values[row].numpy()
        if here.acts(*SCORES):
            low = self._places.facts.attention[kind].masked_value
            scale = self._change.scale(found.scale, kind, here.layer)
            before = one.heads(one.mask, low, found.scale, LocalChanges())
            after = one.heads(mask, low, scale, here)
            made, as_it_was = after.weights(), before.weights()
            if not np.allclose(as_it_was, own, rtol=0, atol=TOLERANCE, equal_nan=True):
                self._problem = _OUT_OF_REACH["scores"]
            if found.bare is None and (after.allowed() & ~one.mask).any():
                self._problem = _OPENED
            still = equal(made, as_it_was).all(-1, keepdims=True)  # [H, Q, 1]
            weights = np.where(still, own, made)
            if (mask != one.mask).any():
                found.added = one.masked_by(mask, low)
        else:
            allowed = np.broadcast_to(one.mask, own.shape)
            weights = here.apply("weights", own, beside=allowed)
        others = here.apply("values", values)
        made, as_it_was = weights @ others, own @ values
        z = np.where(equal(made, as_it_was), found.result[row].numpy(), made)
        z = here.apply("output", here.apply("heads", z))
        found.weights[row] = torch.from_numpy(np.ascontiguousarray(weights))
        found.result[row] = torch.from_numpy(np.ascontiguousarray(z))


def _turned(x: Tensor, turn: bool) -> Tensor:
    return x.transpose(0, 1) if turn else x


class _ChangedRow:
    """One sentence of an attention: what its scores follow from."""

    def __init__(self, found: Captured, row: int) -> None:
        self._found, self._row = found, row
        shape = found.weights.shape[2:]
        added = np.zeros((1, *shape), np.float32)
        if found.added is not None:
            added = found.added[row if len(found.added) > 1 else 0].numpy()
        self._added, hidden = added, np.all(~(added > NO_WEIGHT), 0)
        self.mask: Bools = ~hidden  # [Q, K]
        self._bias = np.where(hidden, np.float32(0), added)
        if found.bare is not None:
            self._bias = found.bare[row if len(found.bare) > 1 else 0].numpy()
        # without its causal part: a key that no query may read is padding
        self.opened = np.broadcast_to(self.mask.any(0), shape).copy()

    def heads(
        self, mask: Bools, low: float, scale: float, changes: LocalChanges
    ) -> AttentionHeads:
        """Return its heads under another mask and scale."""
        queries, keys = (
            np.swapaxes(part[self._row].numpy(), 0, 1)
            for part in (self._found.queries, self._found.keys)
        )
        return AttentionHeads(
            queries, keys, mask, low, scale, self._bias, changes=changes
        )

    def masked_by(self, mask: Bools, low: float) -> Tensor:
        """Return what is added in the batch, with another mask in this sentence."""
        other = np.where(mask, self._bias, np.float32(low))
        made = np.where(mask == self.mask, self._added, other)
        batch = self._found.weights.shape[0]
        whole = torch.zeros(batch, *made.shape)
        if self._found.added is not None:
            whole = whole + self._found.added
        whole[self._row] = torch.from_numpy(made)
        return whole
