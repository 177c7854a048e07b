"""Which axes the result of an operation has: one rule per group of operations."""

import logging
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tag, Tensor
from torch._C import DispatchKey
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from visformer.errors import stack_words
from visformer.watching.axes import (
    INPUT,
    MADE,
    WEIGHT,
    DataAxis,
    DataDimension,
    DataDimensions,
    aligned,
    better,
    elsewhere,
    fresh,
    kept,
    positions_on,
    regrouped,
    size_of,
)
from visformer.watching.ledger import (
    COMPUTED,
    CONSTANT,
    LEARNED,
    RECURRENT,
    Again,
    Known,
    Ledger,
    Picked,
)

SCALINGS = {"mul", "div", "mul_", "div_"}
SUMS = 1e-3  # tolerance of the row sums of a hand-written softmax
KEEP_FACTOR = {  # operations that preserve a constant factor
    *("view", "_unsafe_view", "reshape", "unsqueeze", "squeeze", "transpose", "t"),
    *("permute", "select", "unbind", "slice", "expand", "clone", "_to_copy", "detach"),
    *("alias", "split", "split_with_sizes", "chunk", "cat", "stack", "neg", "add"),
    *("mul", "div", "mul_", "div_", "index_select", "contiguous"),
}
log = logging.getLogger(__name__)


def tensors_in(arguments: Iterable[Any]) -> list[Tensor]:
    """Return the tensors among an operation's arguments and inside lists of them."""
    found = []
    for one in arguments:
        if isinstance(one, Tensor):
            found.append(one)
        elif isinstance(one, list | tuple):
            found += [x for x in one if isinstance(x, Tensor)]
    return found


def leaves_of(output: Any) -> list[Tensor]:
    """Return the tensors of an output; nested tensors are split into sequences."""
    several = [x.detach() for x in tree_leaves(output) if isinstance(x, Tensor)]
    return [one for x in several for one in (x.unbind() if x.is_nested else [x])]


def sums_to_one(weights: Tensor, dimension: int) -> bool:
    """Whether the numbers along a dimension sum to one, as after a softmax."""
    if (weights < 0).any():
        return False
    return bool((weights.float().sum(dimension) - 1).abs().max() < SUMS)


def of_product(first: Known, second: Known) -> DataDimensions:
    """Return the dimensions of a matrix product."""
    left, right = first.dimensions, second.dimensions
    if second.state == LEARNED or _mixes(first, second):
        right = _features(right)
    elif first.state == LEARNED or _mixes(second, first):
        left = _features(left)
    return (*map(better, left[:-2], right[:-2]), left[-2], right[-1])


def _mixes(weights: Known, other: Known) -> bool:
    """Whether the heads of weights are mixed by activations."""
    normalised = weights.trail is not None and weights.trail.normalised()
    return normalised and other.state == CONSTANT


def _features(dimensions: DataDimensions) -> DataDimensions:
    """Return the dimensions of a weight's product."""
    return tuple(tuple(axis.feature() for axis in one) for one in dimensions)


@cache
def is_composite(func: Any) -> bool:
    """Whether an operation should be decomposed, so that its parts are seen."""
    key = DispatchKey.CompositeImplicitAutograd
    return torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), key)


@cache
def is_pointwise(func: Any) -> bool:
    """Whether torch says that each element depends on those at its index alone."""
    return Tag.pointwise in func.tags


def factor_of(
    name: str, args: tuple[Any, ...], ins: list[Tensor], knowns: list[Known]
) -> float:
    """Return the constant that a result was multiplied by since it was computed."""
    if name not in KEEP_FACTOR or not knowns:
        return 1.0
    computed = [k.factor for k in knowns if k.state == COMPUTED] or [1.0]
    factor = computed[0] if len(set(computed)) == 1 else 1.0
    if name in SCALINGS and len(args) > 1:
        by = args[1]
        if isinstance(by, Tensor):
            alone = by.numel() == 1 and not knowns[-1].random and by.dim() == 0
            number = float(by) if alone and knowns[-1].state != LEARNED else 1.0
        else:
            number = float(by)
        if number:
            factor *= number if name.startswith("mul") else 1 / number
    return factor


# Operations that take functions, such as flex_attention: decomposed where possible


def done_by_parts(
    mode: TorchDispatchMode, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Return an operation's result, decomposed so that ``mode`` sees every part.

    Returns None if this is impossible or not supported by this version of torch.
    """
    parts = _parts_of(name)
    if parts is None:
        return None
    try:
        with mode:
            return parts(*args, **kwargs)
    except Exception as error:
        log.debug("%s: %s", name, stack_words(error))
        return None


def _parts_of(name: str) -> Callable[..., Any] | None:
    if name != "flex_attention":
        return None
    try:  # how flex_attention runs on a CPU, in plain operations
        from torch._higher_order_ops.flex_attention import sdpa_dense
    except ImportError:
        return None
    found: Callable[..., Any] = sdpa_dense
    return found


REGROUPS = {"view", "_unsafe_view", "reshape", "_reshape_alias", "unsqueeze", "squeeze"}
TURNS = {"transpose", "t", "permute", "select", "unbind", "slice"}
REDUCTIONS = {
    *("sum", "mean", "amax", "amin", "max", "min", "argmax", "argmin", "logsumexp"),
    *("prod", "norm", "linalg_vector_norm", "var", "std", "any", "all"),
}
ARRANGES = {*REGROUPS, *TURNS, "cat", "stack", "expand"}
PIECES = {"split", "split_with_sizes", "chunk", "unsafe_split"}
MATRIX = {"mm", "bmm", "addmm", "baddbmm"}
MOVES = {"flip", "roll", "index_select", "index", "gather", "repeat"}
WRITES = {  # of some positions, wherever they come from
    *("index_copy", "index_copy_", "index_put", "index_put_", "scatter", "scatter_"),
    *("slice_scatter", "select_scatter", "masked_scatter", "masked_scatter_"),
    *("index_fill", "index_fill_"),
}
STANDING = re.compile(  # leave numbers or rows in place, besides torch's own list
    "norm|softmax|dropout|quantize|convolution|bernoulli|uniform|lift_fresh|detach"
    "|^(_to_copy|alias|copy|masked_fill|where|fill|zero|glu|prelu|complex|polar|_conj"
    "|hardswish|log_sigmoid_forward|view_as_real|view_as_complex|real|imag)_?$|"
    + "|".join(RECURRENT)
)
# what they give still has the contents of either in their places
ADDS = {"add", "sub", "rsub", "mul", "div", "addcmul"}


def results_of(
    name: str,
    args: tuple[Any, ...],
    ins: Sequence[Tensor],
    knowns: Sequence[Known],
    ledger: Ledger,
    out: Any,
    again: Again | None,
    *,
    pointwise: bool,
) -> list[tuple[Tensor, DataDimensions]]:
    """Return the tensors that an operation created, with their dimensions.

    ``knowns`` are those of ``ins``, from before the operation; ``again`` repeats it
    with another tensor as its first argument, and is asked for by MOVES alone;
    ``pointwise`` means that each element depends only on those at the same index.
    """
    outs = list(out) if isinstance(out, tuple | list) else [out]
    outs = [one for one in outs if isinstance(one, Tensor)]
    if not any(one.numel() for one in outs):  # empty: there is nothing to record
        return [(one, fresh(one.shape, MADE)) for one in outs]
    several = [known.dimensions for known in knowns]
    if name in PIECES:
        parts = enumerate(outs)
        return [(x, _picked(name, args, several[0], at)) for at, x in parts]
    outs = [one for one in outs if one.numel()]
    if (looked_up := ids_looked_up(name, args, ins, ledger)) is not None:
        ids = ledger.known(looked_up).dimensions
        if is_count(looked_up, ledger):  # rows in order, as for learned queries
            ids = (*ids[:-1], (DataAxis(looked_up.shape[-1], WEIGHT, rows=True),))
        return [(one, (*ids, *several[0][1:])) for one in outs]
    scores = any(known.trail for known in knowns)
    if name in WRITES and not scores:
        hides = _fills_given(ins, ledger)
        return [(one, several[0] if hides else elsewhere(several[0])) for one in outs]
    if name in MOVES and again is not None:
        return [(one, _moved(several[0], ins[0], again, one)) for one in outs]
    made = [(one, _dimensions(name, args, ins, several, one, ledger)) for one in outs]
    pointwise = pointwise or name in ARRANGES or name in REDUCTIONS or scores
    if pointwise or STANDING.search(name):
        return made
    return [(one, _without_places(dimensions)) for one, dimensions in made]


def _fills_given(ins: Sequence[Tensor], ledger: Ledger) -> bool:
    """Whether positions selected by an input (padding) are filled with a constant."""
    masks = [one for one in ins if one.dtype == torch.bool]
    values = [one for one in ins[1:] if one.dtype != torch.bool]
    told = all(ledger.marks([one]) for one in masks)
    return bool(masks) and told and not ledger.marks(values)


def _without_places(dimensions: DataDimensions) -> DataDimensions:
    """Return the dimensions with every axis of an input marked as of unknown order."""
    return tuple(
        elsewhere((one,))[0] if any(axis.origin == INPUT for axis in one) else one
        for one in dimensions
    )


def ids_looked_up(
    name: str, args: tuple[Any, ...], ins: Sequence[Tensor], ledger: Ledger
) -> Tensor | None:
    """Return the ids whose rows of a table an operation takes; None if it does not."""
    if name == "embedding":
        return ins[1]
    if name not in ("index", "index_select") or len(ins) != 2:
        return None
    first = args[1] == 0 if name == "index_select" else args[1][0] is not None
    of_table = ledger.is_weight(ins[0]) and ins[0].dim() > 1
    whole = ins[1].dtype in (torch.int64, torch.int32)
    return ins[1] if first and of_table and whole else None


def is_count(ids: Tensor, ledger: Ledger) -> bool:
    """Whether ids are consecutive and do not depend on the model's input."""
    counts = ledger.known(ids).counts and not ledger.marks([ids])
    return counts and ids.shape[-1:].numel() > 1 and bool((ids.diff() == 1).all())


def _moved(
    before: DataDimensions, given: Tensor, again: Again, out: Tensor
) -> DataDimensions:
    """Find where elements were moved to by moving their indices the same way."""
    places: dict[int, Tensor] = {}
    for at, dimension in enumerate(before):
        if dimension:
            shape = [-1 if at == one else 1 for one in range(given.dim())]
            here = torch.arange(given.shape[at], device=given.device).view(shape)
            places[at] = again(here.expand(given.shape))
    varies = {
        at: [to for to in range(out.dim()) if bool((x != x.narrow(to, 0, 1)).any())]
        for at, x in places.items()
    }
    result: list[DataDimension] = []
    for to, n in enumerate(out.shape):
        alone = [at for at, several in varies.items() if several == [to]]
        own = before[alone[0]] if len(alone) == 1 else ()
        if own:
            first = [slice(None) if at == to else 0 for at in range(out.dim())]
            along = places[alone[0]][tuple(first)].cpu()
            if torch.equal(along, torch.arange(size_of(own))):
                result.append(own)
                continue
            if len(own) == 1:
                result.append(own[0].moved(along))
                continue
        # the positions may differ from row to row
        several = [at for at, others in varies.items() if to in others]
        origin = max((x.origin for at in several for x in before[at]), default=MADE)
        result.append((DataAxis(n, origin, lost=True),) * (n > 1))
    return tuple(result)


def _dimensions(
    name: str,
    args: tuple[Any, ...],
    ins: Sequence[Tensor],
    several: Sequence[DataDimensions],
    out: Tensor,
    ledger: Ledger,
) -> DataDimensions:
    shape = tuple(out.shape)
    if not several:
        return fresh(shape, MADE)
    first = several[0]
    if name in REGROUPS:
        return regrouped(first, shape)
    if name in TURNS:
        return _picked(name, args, first)
    if name == "cat":
        return _joined(args, ins, several, shape, ledger)
    if name == "stack":
        at = (args[1] if len(args) > 1 else 0) % len(shape)
        others = shape[:at] + shape[at + 1 :]
        settled = _without_conflicts(several, ins, others, ledger, adds=True)
        rest = aligned(several, others, settled)
        return (*rest[:at], *fresh(shape[at : at + 1], MADE), *rest[at:])
    if name == "expand":
        return aligned([first], shape)
    if name in REDUCTIONS:
        return _reduced(args, first, shape)
    if name == "copy_" and not ledger.known(ins[0]).trail:  # overwritten entirely
        made = _combined(ins[1:], several[1:], shape, ledger)
        pairs = zip(made, elsewhere(first), strict=True)
        return tuple(map(better, *zip(*pairs, strict=True))) if made else made
    if shape == _broadcast(ins):
        made = _combined(ins, several, shape, ledger, adds=name.rstrip("_") in ADDS)
        return _without_erased(name, ins, made, ledger)
    return kept(first, shape) if len(shape) != len(first) else _where_same(first, shape)


def _combined(
    ins: Sequence[Tensor],
    several: Sequence[DataDimensions],
    shape: tuple[int, ...],
    ledger: Ledger,
    *,
    adds: bool = False,
) -> DataDimensions:
    """Dimensions of an elementwise operation on several tensors.

    A table of weights, such as position embeddings, does not determine the positions
    of what it is added to, but may determine its features.
    """
    knowns = [*map(ledger.known, ins)]
    scores = [one.dimensions for one in knowns if one.trail is not None]
    others = [x for x in knowns if x.trail is None and x.state == COMPUTED]
    last = [x.dimensions[-1] for x in others if x.dimensions]
    features = any(d and all(axis.origin == WEIGHT for axis in d) for d in last)
    if scores and not features:  # else a residual stream is added
        return aligned(several, shape, scores[:1])
    settled = _without_conflicts(several, ins, shape, ledger, adds=adds)
    ends = aligned([tuple(dimensions[-1:]) for dimensions in several], shape[-1:])
    return (*aligned(several, shape, settled)[:-1], *ends)


def _without_conflicts(
    several: Sequence[DataDimensions],
    ins: Sequence[Tensor],
    shape: tuple[int, ...],
    ledger: Ledger,
    *,
    adds: bool,
) -> list[DataDimensions]:
    """Record which axes of inputs were combined element by element.

    Where two different orders of the same positions meet, the order of the result is
    unknown, except for masks and factors. In a sum, a term of unknown order (a mixture
    of tokens, for example) takes the known order of the other term.
    """
    given = [(list(d), x) for d, x in zip(several, ins, strict=True)]
    given = [(d, x) for d, x in given if ledger.marks([x])]
    factors = {(1,)} if shape[-1:] != (1,) else set()
    alike = [
        d
        for d, x in given
        if x.dtype != torch.bool and tuple(x.shape[-1:]) not in factors
    ]
    for back, n in enumerate(reversed(shape), 1):
        there = [d for d in alike if len(d) >= back and size_of(d[-back]) == n > 1]
        there = [d for d in there if any(axis.origin == INPUT for axis in d[-back])]
        lost = [d for d in there if any(axis.lost for axis in d[-back])]
        if adds and len(lost) < len(there):
            known = next(d[-back] for d in there if d not in lost)
            for d in lost:
                d[-back] = known
        if not all(_stand_alike(there[0][-back], d[-back]) for d in there[1:]):
            for d in there:
                (d[-back],) = elsewhere((d[-back],))
    return [tuple(d) for d, _x in given]


def _stand_alike(first: DataDimension, second: DataDimension) -> bool:
    """Whether two dimensions have the same positions; joins axes of two inputs.

    Dimensions that are divided into axes of other sizes count as the same.
    """
    if [axis.size for axis in first] != [axis.size for axis in second]:
        return True
    for one, other in zip(first, second, strict=True):
        if one is other:
            continue
        at = other.positions_on(one)
        at = one.positions_on(other) if at is None else at
        if at is None and one.lost != other.lost:
            return False
        if at is None and one.origin == other.origin == INPUT:
            one.join(other)
        elif at is not None and not torch.equal(at, torch.arange(one.size)):
            return False
    return True


def _without_erased(
    name: str, ins: Sequence[Tensor], made: DataDimensions, ledger: Ledger
) -> DataDimensions:
    """Dimensions after positions were filled or cut out independently of any input.

    Those positions are lost. A mask that depends on an input, such as a padding mask,
    only hides them.
    """
    if name.removesuffix("_") not in ("mul", "masked_fill", "where") or len(ins) < 2:
        return made
    if any(known.trail or known.random for known in map(ledger.known, ins)):
        return made
    given = [bool(ledger.marks([one])) for one in ins]
    if len(ins) == 3:  # where: a scalar branch overwrites the other one
        both = given[1] and given[2]
        gone = ~ins[0] if given[1] else ins[0]
        told = ins[1].shape == ins[2].shape if both else given[0]
    else:
        at = 1 if given[0] else 0
        gone = ins[at] if name.startswith("masked_fill") else ins[at] == 0
        told = given[at] or ledger.is_weight(ins[at])
    if told or not any(given) or not bool(gone.any()):
        return made
    if gone.dim() and gone.shape[-1] > 1:  # features
        gone = gone.all(-1, keepdim=True)
    result = list(made)
    for at in range(-gone.dim(), 0) if bool(gone.any()) else ():
        if gone.shape[at] > 1:
            (result[at],) = _without_places((result[at],))
    return tuple(result)


def _broadcast(ins: Sequence[Tensor]) -> tuple[int, ...] | None:
    """Return the broadcast shape; torch.broadcast_shapes is slow."""
    shape: list[int] = []
    for one in ins:
        own = one.shape
        shape = [1] * (len(own) - len(shape)) + shape
        for at in range(1, len(own) + 1):
            n = own[-at]
            if n != shape[-at] and n != 1:
                if shape[-at] != 1:
                    return None
                shape[-at] = n
    return tuple(shape)


def _where_same(before: DataDimensions, shape: tuple[int, ...]) -> DataDimensions:
    """Keep the dimensions whose size did not change."""
    new = aligned([before], shape)
    return tuple(
        (DataAxis(n, max((a.origin for a in old), default=MADE), lost=True),)
        if n > 1 and now[0].origin == MADE and not now[0].parent
        else now
        for now, old, n in zip(new, before, shape, strict=True)
    )


def _picked(
    name: str, args: tuple[Any, ...], before: DataDimensions, index: int = 0
) -> DataDimensions:
    many = len(before)
    if name == "permute":
        return tuple(before[at % many] for at in args[1])
    if name in ("transpose", "t"):
        first, second = (args[1] % many, args[2] % many) if name != "t" else (0, -1)
        order = list(before)
        if many > 1:
            order[first], order[second] = before[second], before[first]
        return tuple(order)
    at, positions = _place(name, args, before, index)
    own = () if name in ("select", "unbind") else (_stretch(before[at], positions),)
    return (*before[:at], *own, *before[at + 1 :])


def _place(
    name: str, args: tuple[Any, ...], before: DataDimensions, index: int
) -> tuple[int, range]:
    """Return the dimension that a slice or index acts on, and its positions."""
    more = [*args[1:]]
    each = more.pop(0) if name in PIECES else ()
    at = (more.pop(0) if more else 0) % len(before)
    whole = range(size_of(before[at]))
    if name == "slice":
        return at, whole[slice(*more)]
    if name in PIECES:
        sizes = each if isinstance(each, list | tuple) else [each] * len(whole)
        start = sum(sizes[:index])
        return at, whole[start : start + sizes[index]]
    one = whole[more[0] if more else index]
    return at, range(one, one + 1)


def _stretch(before: DataDimension, positions: range) -> DataDimension:
    """Return a range of positions of a dimension."""
    size = len(positions)
    if size == size_of(before):
        return before
    if len(before) == 1 and positions.step == 1:
        return before[0].slice(positions.start, size)
    if len(before) == 1:
        return before[0].moved(torch.tensor(positions))
    origin = max((axis.origin for axis in before), default=MADE)
    return (DataAxis(size, origin, lost=True),) * (size > 1)


def picks(
    name: str, args: tuple[Any, ...], ins: Sequence[Tensor], ledger: Ledger, at: int
) -> Picked:
    """Return the single positions of input axes that a result was picked from."""
    if name not in ("slice", "select", "unbind", *PIECES):
        return ()
    before = ledger.known(ins[0]).dimensions
    where, positions = _place(name, args, before, at)
    axes = before[where]
    if len(positions) != 1 or len(axes) != 1 or axes[0].origin != INPUT:
        return ()
    return ((axes[0], positions.start),)


def _joined(
    args: tuple[Any, ...],
    ins: Sequence[Tensor],
    several: Sequence[DataDimensions],
    shape: tuple[int, ...],
    ledger: Ledger,
) -> DataDimensions:
    at = (args[1] if len(args) > 1 else 0) % len(shape)
    whole = [i for i, one in enumerate(ins) if one.dim() == len(shape)]
    around = [(*several[i][:at], (), *several[i][at + 1 :]) for i in whole]
    settled = []
    if at == len(shape) - 1:  # features
        those = [ins[i] for i in whole]
        settled = _without_conflicts(around, those, shape, ledger, adds=True)
    rest = aligned(around, shape, settled)
    parts = [(several[i][at], ins[i].shape[at], ledger.marks([ins[i]])) for i in whole]
    outer: DataDimension
    parts = [part for part in parts if part[1]]  # an empty cache adds nothing
    if len(parts) == 1:
        outer = parts[0][0]
    elif len(parts) > 1 and len({axes for axes, _n, _m in parts}) == 1 and parts[0][0]:
        # the same positions repeated, as for heads put side by side
        outer = (DataAxis(len(parts), MADE), *parts[0][0])
    else:
        origin = max((a.origin for axes, _n, _m in parts for a in axes), default=MADE)
        joined = DataAxis(shape[at], origin, parts=parts, lost=True)
        outer = (joined,) if shape[at] > 1 else ()
    return (*rest[:at], outer, *rest[at + 1 :])


def _reduced(
    args: tuple[Any, ...], before: DataDimensions, shape: tuple[int, ...]
) -> DataDimensions:
    if len(shape) == len(before):
        return aligned([before], shape)
    which = args[1] if len(args) > 1 else None
    dims = [which] if isinstance(which, int) else list(which or ())
    gone = {at % len(before) for at in dims}
    left = tuple(d for at, d in enumerate(before) if at not in gone)
    return left if len(left) == len(shape) else fresh(shape, MADE)


def puts_anew(
    name: str, args: tuple[Any, ...], ins: Sequence[Tensor], ledger: Ledger
) -> bool:
    """Whether an in-place operation overwrites the numbers instead of changing them."""
    if name == "copy_" or not ins[0].is_floating_point():
        return name == "copy_"
    if name in ("fill_", "zero_", "masked_fill_"):
        return not ledger.marks(ins[1:])
    nothing = name == "mul_" and not isinstance(args[1], Tensor) and args[1] == 0
    other = any(x.shape == ins[0].shape and ledger.marks([x]) for x in ins[1:])
    return nothing or (other and name.removesuffix("_") not in ADDS)


def left_out(name: str, knowns: Sequence[Known], made: DataDimensions) -> int:
    """Return the marks of the joined tensors that a view of the result leaves out."""
    if not knowns or not (name in TURNS or name in REGROUPS or name in PIECES):
        return 0
    gone = knowns[0].left_out
    for before, after in zip(knowns[0].dimensions, made, strict=False):
        lineage = before[0].lineage() if len(before) == 1 and after else ()
        joined = next((one for one in lineage if one.parts), None)
        if joined is None or before == after:
            continue
        where, at, marks = positions_on(after, joined), 0, [0, 0]
        for axes, size, own in joined.parts:
            inside = where is not None and ((where >= at) & (where < at + size)).any()
            marks[bool(inside) or axes == after] |= own
            at += size
        gone |= marks[0] & ~marks[1] if marks[1] else 0
    return gone
