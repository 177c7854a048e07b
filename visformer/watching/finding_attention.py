"""From a softmax's result that multiplies values to a Captured attention."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from visformer.watching.axes import WEIGHT, DataAxis, DataDimensions, size_of
from visformer.watching.captured import (
    COLUMNS,
    Captured,
    Roles,
    Unclear,
    again,
    arranged,
    flat,
    grouped,
    product_arranged,
    roles,
    side_of_keys,
    softmax_axis,
    split_at_softmax,
    worst,
)
from visformer.watching.ledger import SOURCE, TARGET
from visformer.watching.module_calls import ModuleCall
from visformer.watching.score_formula import computed, formula
from visformer.watching.score_trail import ScoreProduct, ScoreTrail

ARRANGING = {  # operations that leave every weight as it is
    *("view", "_unsafe_view", "reshape", "_reshape_alias", "unsqueeze", "squeeze"),
    *("transpose", "t", "permute", "expand", "clone", "_to_copy", "detach", "alias"),
}


class _AttentionParts(NamedTuple):
    """An attention in one order of axes, on the CPU."""

    weights: Tensor  # [B, H, Q, K]
    queries: Tensor  # [B, H', Q, d]
    keys: Tensor  # [B, H', K, d]
    values: Tensor  # [B, H', K, e]
    result: Tensor  # [B, H, Q, e]
    found: Roles  # the axes of the weights
    of_scores: Roles  # those of the product


def captured(
    trail: ScoreTrail,
    weights: tuple[Tensor, DataDimensions],
    values: Tensor,
    value_marks: int,
    result: Tensor,
    *,
    left: bool,
    batch_size: int,
    call: ModuleCall,
    number: int,
) -> Captured:
    """Return an attention: ``result`` is ``weights`` times ``values``, or the reverse.

    ``left`` tells whether the weights are the left factor. Raises Unclear where it
    cannot be told which axis is which.
    """
    product, (tensor, dimensions) = trail.product, weights
    _scores, own = again(trail, tensor.dtype)
    if not left:
        tensor, values, result, own = tensor.mT, values.mT, result.mT, own.mT
        dimensions = (*dimensions[:-2], dimensions[-1], dimensions[-2])
    of_keys = side_of_keys(product, dimensions[-1])
    parts = _arranged(
        product, of_keys, (tensor, dimensions), values, result, batch_size
    )
    if parts.keys.shape[2] != parts.values.shape[2]:
        raise Unclear("some of the keys")  # values in chunks, scores put together
    told = formula(trail, parts.of_scores)
    factors = product.factors if of_keys == COLUMNS else product.factors[::-1]
    marks = product.marks if of_keys == COLUMNS else product.marks[::-1]
    made = Captured(
        weights=parts.weights,
        queries=parts.queries / factors[0],
        keys=parts.keys / factors[1],
        values=parts.values,
        result=parts.result,
        scale=told.scale * factors[0] * factors[1],
        added=told.added,
        linear=told.linear,
        difference=worst(own.reshape(tensor.shape), tensor),
        multiplied=told.multiplied,
        over=softmax_axis(trail, parts.of_scores),
        random=any(step.random for step in trail.steps()),
        mixed=_is_mixed(trail, parts.found, parts.of_scores),
        marks=(*marks, value_marks),
        border=_border(product, of_keys),
        module=product.module if call.number == product.call else call.path,
        call=call.number,
        parent=call.parent,
        outermost=call.outermost,
        number=number,
        half=_is_half(tensor) or _is_half(result),
        query_axes=parts.of_scores.queries,
        query_picked=product.picked[0 if of_keys == COLUMNS else 1],
        key_axes=product.right_before if of_keys == COLUMNS else product.left_rows,
    )
    made.difference = max(made.difference, *_checks(made, trail))
    return made


def _arranged(
    product: ScoreProduct,
    of_keys: str,
    weights: tuple[Tensor, DataDimensions],
    values: Tensor,
    result: Tensor,
    batch_size: int,
) -> _AttentionParts:
    tensor, dimensions = weights
    shared, rows, contracted = dimensions[:-2], dimensions[-2], dimensions[-1]
    queries, keys, of_scores = product_arranged(product, of_keys, batch_size)
    found = roles(product, flat(shared), rows, contracted, batch_size)
    width = (DataAxis(values.shape[-1], WEIGHT),)
    own = tuple(axis for axis in flat(shared) if axis in found.heads)
    several = (
        arranged(tensor, (*shared, rows, contracted), found.groups),
        queries,
        keys,
        arranged(
            values, (*shared, contracted, width), (found.batch, own, found.keys, width)
        ),
        arranged(
            result,
            (*shared, rows, width),
            (found.batch, found.heads, found.queries, width),
        ),
    )
    plain = [_plain(one) for one in several]
    return _AttentionParts(
        plain[0], plain[1], plain[2], plain[3], plain[4], found, of_scores
    )


def _checks(made: Captured, trail: ScoreTrail) -> list[float]:
    """Return how far weights and results are from what follows from the parts."""
    heads = made.weights.shape[1]
    apart = [worst(made.weights @ grouped(made.values, heads), made.result)]
    _before, after = split_at_softmax(trail)
    plainly = made.linear and made.over == "keys" and not made.mixed
    if plainly and all(step.operation in ARRANGING for step in after[1:]):
        keys = grouped(made.keys, made.queries.shape[1])
        told = computed(made.queries, keys, made.scale, made.added)
        # a row that may read nothing: NaN of one softmax, zeros of another
        told = told.masked_fill(told.isnan() & (made.weights == 0), 0.0)
        apart.append(worst(told, made.weights))
    return apart


def _is_mixed(trail: ScoreTrail, found: Roles, of_scores: Roles) -> bool:
    """Whether heads were mixed, or the softmax ran over more than the keys."""
    softmax = next((step.softmax for step in trail.steps() if step.softmax), None)
    if any(step.several for step in trail.steps()):
        return True
    more = softmax is not None and size_of(softmax[0]) not in (
        *(size_of(of_scores.keys), size_of(found.keys), size_of(found.queries)),
    )
    before = {one for axis in of_scores.heads for one in axis.lineage()}
    same = all(any(a in before for a in axis.lineage()) for axis in found.heads)
    return more or not same


def _plain(tensor: Tensor) -> Tensor:
    return tensor.detach().to(device="cpu", dtype=torch.float32, copy=True)


def _is_half(tensor: Tensor) -> bool:
    tf32 = torch.backends.cuda.matmul.fp32_precision == "tf32"
    return tensor.dtype in (torch.float16, torch.bfloat16) or (tf32 and tensor.is_cuda)


def _border(product: ScoreProduct, of_keys: str) -> int | None:
    """Return how many of the keys are of the first side, where they are of two."""
    axes = product.right_before if of_keys == COLUMNS else product.left_rows
    if len(axes) != 1:
        return None
    parts = [
        (size, marks & (SOURCE | TARGET)) for _axes, size, marks in _parts_of(axes[0])
    ]
    if not parts or not all(marks for _size, marks in parts):
        return None
    sides = [bool(marks & TARGET) for _size, marks in parts]
    if len(set(sides)) != 2:
        return None
    first = itertools.takewhile(lambda part: bool(part[1] & TARGET) == sides[0], parts)
    return sum(size for size, _marks in first)


def _parts_of(axis: DataAxis) -> Iterator[tuple[object, int, int]]:
    return iter(next((one.parts for one in axis.lineage() if one.parts), ()))
