"""Properties of single tensor operations."""

import logging
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch._C import DispatchKey
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from visformer.errors import stack_words
from visformer.watching.axes import DataDimensions, better
from visformer.watching.ledger import COMPUTED, CONSTANT, LEARNED, Known

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
