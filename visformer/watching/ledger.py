"""Ledger: what is known about each tensor of a pass, looked up by memory location.

The same memory may appear as another Python object or as another view, so entries
are keyed by storage, offset, shape and strides. Storages are referenced weakly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, UntypedStorage
from torch.nn import Module
from torch.utils._pytree import tree_leaves, tree_map

from visformer.watching.axes import (
    INPUT,
    MADE,
    WEIGHT,
    DataAxis,
    DataDimension,
    DataDimensions,
    elsewhere,
    fresh,
)

# marks: one bit per thing that a tensor depends on. The first two are for integers:
# ids that were chosen (an argmax), and ids of an input, unchanged but possibly moved.
# The others stand for the inputs and the attentions
CHOSEN, VERBATIM = 1, 2
CONSTANT, LEARNED, COMPUTED = range(3)
ViewKey = tuple[int, tuple[int, ...], tuple[int, ...]]
# single positions that were picked from axes of inputs: axis and index
Picked = tuple[tuple[DataAxis, int], ...]
Again = Callable[[Tensor], Tensor]
FOURIER = {"_fft_r2c", "_fft_c2c", "_fft_c2r"}
RECURRENT = ("lstm", "gru", "rnn")


@dataclass(frozen=True, slots=True)
class Known:
    """What is known about one view of a storage."""

    dimensions: DataDimensions
    state: int = CONSTANT  # LEARNED: a weight, or computed from weights only
    factor: float = 1.0  # the constant it was multiplied by since it was computed
    random: bool = False  # drawn at random, such as a dropout mask
    picked: Picked = ()
    trail: ScoreTrail | None = None  # how it follows from a product of activations
    weighs: SeenInstead | None = None  # it is the softmax of something else
    counts: bool = False  # consecutive integers, such as positions
    gives: bool = False  # the output of an attention, at most moved or scaled
    left_out: int = 0  # marks of the storage that do not apply to this view


@dataclass(slots=True)
class _Storage:
    """What is known about one storage: its marks and its views."""

    marks: int = 0
    given: bool = False  # an input of the model
    views: dict[ViewKey, Known] = field(default_factory=dict)


def storage_of(tensor: Tensor) -> UntypedStorage | None:
    """Return a tensor's storage; None for sparse, nested and meta tensors."""
    if tensor.is_nested:
        return None
    try:
        return tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):
        return None


def place_of(tensor: Tensor) -> ViewKey:
    """Return a tensor's offset, shape and strides in its storage."""
    return int(tensor.storage_offset()), tensor.shape, tensor.stride()


def _extents(place: ViewKey) -> list[tuple[int, int]]:
    return list(zip(place[1], place[2], strict=True))


class Ledger:
    """What is known about the tensors of one pass, or of several."""

    def __init__(self, model: Module) -> None:
        self._held: WeakKeyDictionary[object, _Storage] = WeakKeyDictionary()
        tensors = [*model.parameters(), *model.buffers()]
        self._weights = {id(s): s for s in map(storage_of, tensors) if s is not None}
        self.marked = 2  # the number of marks in use

    def forget(self) -> None:
        """Release all tensors: entries may refer to other tensors."""
        self._held.clear()
        self._weights.clear()

    def new_mark(self) -> int:
        """Return an unused mark."""
        self.marked += 1
        return 1 << (self.marked - 1)

    def is_weight(self, tensor: Tensor) -> bool:
        """Whether a tensor is a view of a parameter or a buffer."""
        storage = storage_of(tensor)
        return storage is not None and id(storage) in self._weights

    def known(self, tensor: Tensor) -> Known:
        """Return the entry of a tensor; a new tensor is entered as a constant."""
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
        else:  # possibly a new view of a known storage
            views = self.views(tensor).values()
            state = max((known.state for known in views), default=CONSTANT)
            known = Known(fresh(tensor.shape, MADE), state)
        self.learn(tensor, known, 0)
        return known

    def views(self, tensor: Tensor) -> dict[ViewKey, Known]:
        """Return the mutable entries of all views of a tensor's storage."""
        storage = storage_of(tensor)
        held = self._held.get(storage) if storage is not None else None
        return {} if held is None else held.views

    def learn(self, tensor: Tensor, known: Known, marks: int) -> None:
        """Enter a tensor, and add ``marks`` to its storage."""
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
        """Update all other views of a storage after an in-place edit of a part.

        ``before`` are the dimensions of the part before the edit; ``anew`` that its
        numbers were overwritten. Then the order of a larger view is unknown, unless the
        rest of it does not depend on an input (``blank``).
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
        """Return the combined marks of tensors."""
        together = 0
        for tensor in tensors:
            storage = storage_of(tensor)
            held = self._held.get(storage) if storage is not None else None
            if held:
                view = held.views.get(place_of(tensor))
                together |= held.marks & ~(view.left_out if view else 0)
        return together

    def mark_input(self, tensor: Tensor, mark: int) -> None:
        """Make a tensor an input of the model, with its own mark and new axes."""
        storage = storage_of(tensor)
        if storage is None:
            return
        self._held[storage] = _Storage(mark | VERBATIM, given=True)
        self.learn(tensor, Known(fresh(tensor.shape, INPUT), COMPUTED), 0)

    def is_made(self, tensor: Tensor) -> bool:
        """Whether a tensor was computed from inputs and is not an input itself."""
        storage = storage_of(tensor)
        held = self._held.get(storage) if storage is not None else None
        return held is not None and not held.given and held.marks != 0


# ---- ScoreTrail: the operations from a product of activations on, to be repeated -----


@dataclass(frozen=True, slots=True, eq=False)
class ScoreProduct:
    """A product of two activations, possibly queries and keys."""

    left: Tensor  # [*shared, M, d]
    right: Tensor  # [*shared, d, J]
    shared: DataDimensions  # the batch dimensions, from the more informative factor
    own_shared: tuple[DataDimensions, DataDimensions]  # those of left and right
    summed: DataDimension  # d, in left and right
    left_rows: DataDimension  # M
    right_columns: DataDimension  # J, with axes of its own
    right_before: DataDimension  # J, with the axes of the right factor
    picked: tuple[Picked, Picked]  # of left and right
    factors: tuple[float, float]  # that left and right were multiplied by
    marks: tuple[int, int]
    module: str
    call: int


@dataclass(frozen=True, slots=True, eq=False)
class ScoreTrail:
    """One operation between a product and a tensor; ``before`` is the previous one."""

    product: ScoreProduct
    before: ScoreTrail | None = None
    again: Again | None = None
    operation: str = ""
    # of a softmax: the dimension it runs over, and the dimensions of its input
    softmax: tuple[DataDimension, DataDimensions] | None = None
    random: bool = False
    others: tuple[ScoreTrail, ...] = ()  # other softmaxes that were combined with it

    def steps(self) -> list[ScoreTrail]:
        """Return all operations, the first one first."""
        steps: list[ScoreTrail] = []
        at: ScoreTrail | None = self
        while at is not None and at.before is not None:
            steps.append(at)
            at = at.before
        return steps[::-1]

    def normalised(self) -> bool:
        """Whether the operations include a softmax or an exponential."""
        return any(step.softmax or step.operation == "exp" for step in self.steps())


def with_sum(
    trail: ScoreTrail, name: str, bias: Tensor, kwargs: dict[str, Any]
) -> ScoreTrail:
    """Return the trail of a product whose operation also adds a bias (baddbmm)."""
    beta, alpha = kwargs.get("beta", 1), kwargs.get("alpha", 1)

    def again(given: Tensor) -> Tensor:
        added: Tensor = beta * bias.to(given.dtype) + alpha * given
        return added

    return replace(trail, before=trail, again=again, operation=name)


VIEW_NAMES = {"view", "_unsafe_view"}  # repeated as reshape: strides may differ
GIVEN = object()  # placeholder for the argument on the trail


def safe_softmax(scores: Tensor, dimension: int) -> Tensor:
    """Softmax that gives zeros, not NaN, where all scores are -inf."""
    nothing = (scores == -math.inf).all(dimension, keepdim=True)
    return torch.softmax(scores, dimension).masked_fill(nothing, 0.0)


def doing_again(
    operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any], on_trail: Tensor
) -> Again:
    """Turn an operation into a function of its argument ``on_trail``.

    In the model's dtype the operation is repeated exactly; other dtypes stay, without
    the model's roundings. The argument is not stored, or all scores of a pass would
    stay in memory.
    """
    name, dtype = operation._schema.name.removeprefix("aten::"), on_trail.dtype
    args, kwargs = _without(args, on_trail), _without(kwargs, on_trail)
    del on_trail

    def again(given: Tensor) -> Tensor:
        as_it_was = given.dtype == dtype

        def put(value: Any) -> Any:
            if value is GIVEN:
                return given
            if isinstance(value, Tensor) and value.is_floating_point():
                return value if as_it_was else value.to(given.dtype)
            return value

        def filled(values: Any) -> Any:
            return tree_map(put, values)

        if name in ("detach", "alias", "lift_fresh"):
            return given
        if name == "_to_copy":
            return operation(given, **kwargs) if as_it_was else given
        if name in VIEW_NAMES:
            return given.reshape(filled(args)[1])
        if name == "_softmax":
            given = given.float() if args[2] and as_it_was else given
            return torch.softmax(given, args[1])
        if name == "_safe_softmax":
            return safe_softmax(given, args[1])
        if name.endswith("_") and not name.endswith("__"):  # in place
            given = given.clone()
        made = operation(*filled(args), **filled(kwargs))
        result: Tensor = made[0] if isinstance(made, tuple | list) else made
        return result

    return again


def _without(values: Any, gone: Tensor) -> Any:
    """Replace one argument by the placeholder."""
    if isinstance(values, dict):
        return {name: _without(value, gone) for name, value in values.items()}
    if isinstance(values, list | tuple):
        return [_without(value, gone) for value in values]
    return GIVEN if values is gone else values


def walked(steps: list[ScoreTrail], numbers: Tensor) -> Tensor:
    """Apply the operations to other numbers of the product's shape."""
    for step in steps:
        if step.again is not None:
            numbers = step.again(numbers)
    return numbers


# In-place edits of a part: the trails of the whole follow them


def follow_edit(
    ledger: Ledger, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Append an in-place edit to the trails of all views that contain its part."""
    part, views = args[0], ledger.views(args[0])
    edited = place_of(part)
    wholes = {
        place: known
        for place, known in views.items()
        if known.trail is not None and place != edited and _reaches(place, edited)
    }
    if not wholes:
        return
    # other parts of the same storage may be edited later
    own = [
        x.clone() if isinstance(x, Tensor) and ledger.views(x) is views else x
        for x in args[1:]
    ]
    edit = doing_again(func, (part, *own), kwargs, part)
    for place, known in wholes.items():
        assert known.trail is not None
        trail = ScoreTrail(
            product=known.trail.product,
            before=known.trail,
            again=_in_part(edit, place, edited),
            operation=func._schema.name.rpartition("::")[2],
            random=any(ledger.known(x).random for x in own if isinstance(x, Tensor)),
        )
        views[place] = replace(known, trail=trail)


def _span(place: ViewKey) -> int:
    """Return how many elements a view spans in memory."""
    _offset, shape, strides = place
    return 1 + sum((n - 1) * by for n, by in zip(shape, strides, strict=True))


def _reaches(whole: ViewKey, part: ViewKey) -> bool:
    """Whether a part lies within the memory that a view spans."""
    start = part[0] - whole[0]
    return 0 not in part[1] and start >= 0 and start + _span(part) <= _span(whole)


def _in_part(edit: Again, whole: ViewKey, part: ViewKey) -> Again:
    """Turn an edit of a part into a function of the whole."""

    def again(given: Tensor) -> Tensor:
        numbers = given.new_zeros(_span(whole))  # the original memory layout
        numbers.as_strided(*whole[1:]).copy_(given.reshape(whole[1]))
        inner = numbers.as_strided(*part[1:], part[0] - whole[0])
        inner.copy_(edit(inner))
        return numbers.as_strided(*whole[1:])

    return again


# ---- Operations that are not attention, but mix positions or weigh choices like it ---


@dataclass(frozen=True, slots=True)
class SeenInstead:
    """An operation that is not attention, but looks like part of one."""

    # "no product", "other scores", "no softmax", "mixing", "kernel", "axes", "outside",
    # "pieces", "together", "nested", "unknown"
    reason: str
    module: str
    size: int  # number of choices of a softmax
    name: str = ""  # of the operation


def mixes_positions(
    name: str, args: Sequence[Any], ins: Sequence[Tensor], ledger: Ledger
) -> bool:
    """Whether an operation mixes positions (convolution, FFT, cumsum, recurrence)."""
    if name == "convolution" and len(ins) > 1:
        return any(n > 1 for n in ins[1].shape[2:])
    if name == "cumsum" or name in FOURIER:
        along = args[1] if isinstance(args[1], list) else [args[1]]
        dimensions = ledger.known(ins[0]).dimensions
        axes = [axis for at in along for axis in dimensions[at]]
        floats = ins[0].is_floating_point() or ins[0].is_complex()
        of_inputs = any(axis.origin == INPUT for axis in axes)
        return floats and ins[0].dim() > 1 and of_inputs
    return any(word in name for word in RECURRENT)


def is_from_outside(name: str, tensor: Tensor, ledger: Ledger, rows: int) -> bool:
    """Whether a batch of features entered from outside torch, from numpy for example.

    ``torch.from_numpy`` shares memory that torch cannot resize; ``tensor`` copies.
    """
    of_batch = tensor.dim() > 2 and rows in tensor.shape[:2]
    if not of_batch or not tensor.is_floating_point():
        return False
    if ledger.views(tensor) or ledger.is_weight(tensor):
        return False
    if tensor.unique().numel() < 3:  # a mask
        return False
    storage = storage_of(tensor)
    return name == "lift_fresh" or (storage is not None and not storage.resizable())


def is_attribute(tensor: Tensor, modules: Iterable[Module]) -> bool:
    """Whether a module had this tensor before the pass as a plain attribute."""
    storage = storage_of(tensor)
    kept = (x for one in modules for x in tree_leaves(vars(one)))
    return any(isinstance(x, Tensor) and storage_of(x) is storage for x in kept)
