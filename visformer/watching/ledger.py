"""Ledger: what is known of each tensor of a pass, kept by where its numbers lie.

The same numbers may be met as another Python object, or as another view; so what is
known is kept by storage, offset, shape and strides. Storages are held weakly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from torch import Tensor, UntypedStorage
from torch.nn import Module

from visformer.watching.axes import (
    INPUT,
    MADE,
    WEIGHT,
    DataAxis,
    DataDimensions,
    elsewhere,
    fresh,
)

if TYPE_CHECKING:
    from visformer.watching.score_trail import ScoreTrail
    from visformer.watching.seen_instead import SeenInstead

# marks: what numbers depend on, a bit each. The first two are of whole numbers: those
# that were chosen (the best token's id), and those that are an input's own, wherever
# they were moved to. The others are of inputs and of attentions
CHOSEN, VERBATIM = 1, 2
CONSTANT, LEARNED, COMPUTED = range(3)
ViewKey = tuple[int, tuple[int, ...], tuple[int, ...]]


# single positions of inputs' axes that numbers were picked at: which axis, and where
Picked = tuple[tuple[DataAxis, int], ...]


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of one view of numbers."""

    dimensions: DataDimensions
    state: int = CONSTANT  # LEARNED: a weight, or made of weights alone
    factor: float = 1.0  # numbers that it was multiplied by since it was computed
    random: bool = False  # drawn: the mask of a dropout
    picked: Picked = ()
    trail: ScoreTrail | None = None  # how it follows from a product of activations
    weighs: SeenInstead | None = None  # it is a softmax of other scores
    counts: bool = False  # whole numbers in order, as of positions
    gives: bool = False  # what an attention gave: moved, or multiplied, at most
    left_out: int = 0  # marks of the storage that this view has nothing of


@dataclass(slots=True)
class _Storage:
    """What is known of one storage: its marks, and its views."""

    marks: int = 0
    given: bool = False  # an input of the model
    views: dict[ViewKey, Known] = field(default_factory=dict)


def storage_of(tensor: Tensor) -> UntypedStorage | None:
    """Return the storage of a tensor; None of one that has none."""
    if tensor.is_nested:
        return None
    try:
        return tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):  # sparse, nested, meta
        return None


def place_of(tensor: Tensor) -> ViewKey:
    """Return where in its storage a tensor's numbers lie."""
    return int(tensor.storage_offset()), tuple(tensor.shape), tuple(tensor.stride())


def _extents(place: ViewKey) -> list[tuple[int, int]]:
    """Return size and stride of each dimension of a view."""
    return list(zip(place[1], place[2], strict=True))


class Ledger:
    """What is known of the tensors of one pass, or of several."""

    def __init__(self, model: Module) -> None:
        self._held: WeakKeyDictionary[object, _Storage] = WeakKeyDictionary()
        tensors = [*model.parameters(), *model.buffers()]
        self._weights = {id(s): s for s in map(storage_of, tensors) if s is not None}
        self.marked = 2  # how many marks there were

    def forget(self) -> None:
        """Let go of all tensors: what is known of one may hold others."""
        self._held.clear()
        self._weights.clear()

    def new_mark(self) -> int:
        """Return a mark that nothing has yet."""
        self.marked += 1
        return 1 << (self.marked - 1)

    def is_weight(self, tensor: Tensor) -> bool:
        """Whether a tensor is a parameter or a buffer, or a view of one."""
        storage = storage_of(tensor)
        return storage is not None and id(storage) in self._weights

    def known(self, tensor: Tensor) -> Known:
        """Return what is known of a tensor; of a new one, that it is a constant."""
        storage = storage_of(tensor)
        held = self._held.get(storage) if storage is not None else None
        if held is not None and (found := held.views.get(place_of(tensor))):
            return found
        if storage is not None and id(storage) in self._weights:
            axes = [
                DataAxis(n, WEIGHT, rows=at < tensor.dim() - 1)
                for at, n in enumerate(tensor.shape)
            ]
            dimensions = tuple((axis,) if axis.size > 1 else () for axis in axes)
            known = Known(dimensions, LEARNED)
        else:  # perhaps another view of numbers that are known
            views = self.views(tensor).values()
            state = max((known.state for known in views), default=CONSTANT)
            known = Known(fresh(tensor.shape, MADE), state)
        self.learn(tensor, known, 0)
        return known

    def views(self, tensor: Tensor) -> dict[ViewKey, Known]:
        """Return what is known of all views of a tensor's storage, to be changed."""
        storage = storage_of(tensor)
        held = self._held.get(storage) if storage is not None else None
        return {} if held is None else held.views

    def learn(self, tensor: Tensor, known: Known, marks: int) -> None:
        """Keep what is known of a tensor; its storage gets the marks as well."""
        storage = storage_of(tensor)
        if storage is None:
            return
        held = self._held.get(storage)
        if held is None:
            held = self._held[storage] = _Storage()
        held.marks |= marks
        held.views[place_of(tensor)] = known

    def rewrite(
        self, part: Tensor, before: DataDimensions, *, anew: bool, blank: bool
    ) -> None:
        """Follow an edit of a part in place, in all other views of its numbers.

        ``before`` are its dimensions as they were; ``anew`` tells that other numbers
        stand there now, so that the whole of an axis is no longer of one order. Nor is
        a larger one, unless its other numbers came from no input (``blank``).
        """
        views, own = self.views(part), place_of(part)
        now = dict(zip(_extents(own), views[own].dimensions, strict=True))
        was = dict(zip(_extents(own), before, strict=True))
        changed = {extent for extent in now if now[extent] != was[extent]}
        if not anew and not changed:
            return
        for place, known in [*views.items()]:
            if place == own or known.trail is not None:
                continue
            larger = math.prod(place[1]) > part.numel()
            dimensions = tuple(
                elsewhere((one,))[0]
                if larger and (extent not in now or (extent in changed and not blank))
                else (now[extent] if extent in changed else one)
                for extent, one in zip(_extents(place), known.dimensions, strict=True)
            )
            views[place] = replace(known, dimensions=dimensions)

    def marks(self, tensors: Iterable[Tensor]) -> int:
        """Return what tensors depend on, taken together."""
        together = 0
        for tensor in tensors:
            storage = storage_of(tensor)
            held = self._held.get(storage) if storage is not None else None
            if held:
                view = held.views.get(place_of(tensor))
                together |= held.marks & ~(view.left_out if view else 0)
        return together

    def mark_input(self, tensor: Tensor, mark: int) -> None:
        """Make a tensor an input of the model: its marks and axes begin here."""
        storage = storage_of(tensor)
        if storage is None:
            return
        self._held[storage] = _Storage(mark | VERBATIM, given=True)
        self.learn(tensor, Known(fresh(tensor.shape, INPUT), COMPUTED), 0)

    def is_made(self, tensor: Tensor) -> bool:
        """Whether a tensor was computed from inputs, and is none itself."""
        storage = storage_of(tensor)
        held = self._held.get(storage) if storage is not None else None
        return held is not None and not held.given and held.marks != 0
