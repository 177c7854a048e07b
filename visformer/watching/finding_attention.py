"""From a softmax's result that multiplies values to a Captured attention."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from visformer.watching.axes import (
    WEIGHT,
    DataAxis,
    DataDimension,
    DataDimensions,
    size_of,
)
from visformer.watching.captured import (
    COLUMNS,
    Apart,
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
    unit_of,
)
from visformer.watching.module_calls import ModuleCall
from visformer.watching.rounding import Rounding, rows_apart
from visformer.watching.score_formula import ScoreFormula, formula
from visformer.watching.score_trail import ScoreProduct, ScoreTrail

ARRANGING = {  # operations that leave every weight as it is
    *("view", "_unsafe_view", "reshape", "_reshape_alias", "unsqueeze", "squeeze"),
    *("transpose", "t", "permute", "expand", "clone", "_to_copy", "detach", "alias"),
}


class _AttentionParts(NamedTuple):
    """An attention in one order of axes, on the CPU."""

    found: Roles  # the axes of the weights
    of_scores: Roles  # those of the product
    weights: Tensor  # [B, H, Q, K]
    queries: Tensor  # [B, H', Q, d]
    keys: Tensor  # [B, H', K, d]
    values: Tensor  # [B, H', K, e]
    result: Tensor  # [B, H, Q, e]


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
    mark: int,
) -> Captured:
    """Return an attention: ``result`` is ``weights`` times ``values``, or the reverse.

    ``left`` tells whether the weights are the left factor. Raises Unclear where it
    cannot be told which axis is which.
    """
    product, (tensor, dimensions) = trail.product, weights
    replayed = again(trail)
    own = rows_apart(replayed.weights.reshape(tensor.shape), tensor)
    if not left:
        tensor, values, result = tensor.mT, values.mT, result.mT
        dimensions = (*dimensions[:-2], dimensions[-1], dimensions[-2])
    of_keys = side_of_keys(product, dimensions[-1])
    parts = _arranged(
        product, of_keys, (tensor, dimensions), values, result, batch_size
    )
    if parts.keys.shape[2] != parts.values.shape[2]:
        raise Unclear("some of the keys")  # values in chunks, scores put together
    compared = Rounding(max(replayed.unit, unit_of(tensor)), unit_of(result))
    keys = grouped(parts.keys, parts.queries.shape[1])
    told = formula(trail, parts.of_scores, replayed, parts.queries, keys)
    factors, marks = product.factors, product.marks
    if of_keys != COLUMNS:
        factors, marks = factors[::-1], marks[::-1]
    made = Captured(
        weights=parts.weights,
        queries=parts.queries / factors[0],
        keys=parts.keys / factors[1],
        values=parts.values,
        result=parts.result,
        scale=told.scale * factors[0] * factors[1],
        added=told.added,
        linear=told.linear,
        filled=told.filled,
        apart=Apart(math.inf, 0.0),
        multiplied=told.multiplied,
        over=softmax_axis(trail, parts.of_scores),
        random=any(step.random for step in trail.steps()),
        mixed=_is_mixed(trail, parts.found, parts.of_scores),
        marks=(*marks, value_marks),
        mark=mark,
        **_place(product, call),
        **_axes(product, parts.of_scores, of_keys),
    )
    judged = compared.weights(own, told.top.abs().max(), steps=1)
    others = compared.results(made), *_told(compared, made, told, trail)
    made.apart = Apart.worse([judged, *others])
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
    return _AttentionParts(found, of_scores, *map(_plain, several))


def _told(
    compared: Rounding, made: Captured, told: ScoreFormula, trail: ScoreTrail
) -> list[Apart]:
    """Compare weights with what follows from queries, keys, scale and what is added."""
    _before, after = split_at_softmax(trail)
    plainly = made.over == "keys" and not made.mixed
    edited = any(step.operation not in ARRANGING for step in after[1:])
    if told.scores is None or not plainly or edited:
        return []
    weights = torch.softmax(told.scores, -1).float()
    # a row that may read nothing: NaN of one softmax, zeros of another
    if weights.isnan().any():
        weights = weights.masked_fill(weights.isnan() & (made.weights == 0), 0.0)
    return [compared.weights(rows_apart(weights, made.weights), told.top)]


def _is_mixed(trail: ScoreTrail, found: Roles, of_scores: Roles) -> bool:
    """Whether heads were mixed, or the softmax ran over more than the keys."""
    softmax = next((step.softmax for step in trail.steps() if step.softmax), None)
    if any(step.others for step in trail.steps()):
        return True
    if size_of(found.heads) != size_of(of_scores.heads):
        return True
    more = softmax is not None and size_of(softmax[0]) not in (
        *(size_of(of_scores.keys), size_of(found.keys), size_of(found.queries)),
    )
    before = {one for axis in of_scores.heads for one in axis.lineage()}
    same = all(any(a in before for a in axis.lineage()) for axis in found.heads)
    return more or not same


def _plain(tensor: Tensor) -> Tensor:
    return tensor.detach().to(device="cpu", dtype=torch.float32, copy=True)


def _place(product: ScoreProduct, call: ModuleCall) -> dict[str, Any]:
    """Return the fields of a Captured that say where it was computed."""
    return {
        "module": product.module if call.number == product.call else call.path,
        "call": call.number,
        "parent": call.parent,
        "outermost": call.outermost,
    }


def _axes(product: ScoreProduct, found: Roles, of_keys: str) -> dict[str, Any]:
    """Return the fields of a Captured that say what is counted by what."""
    key_axes = product.right_before if of_keys == COLUMNS else product.left_rows
    parts = [part for axis in key_axes[:1] for part in _parts_of(axis)]
    return {
        "query_axes": found.queries,
        "query_picked": product.picked[0 if of_keys == COLUMNS else 1],
        "key_axes": key_axes,
        "batch_axes": _batch_axes(product, found, of_keys),
        "key_parts": tuple((size, marks) for _own, size, marks in parts),
    }


def _batch_axes(
    product: ScoreProduct, found: Roles, of_keys: str
) -> tuple[DataDimension, DataDimension]:
    """Return the axes that count the batch of the queries, and that of the keys."""

    def own_batch(several: DataDimensions) -> DataDimension:
        mine: list[DataAxis] = []
        for whole, own in zip(product.shared, several, strict=True):
            rest, left = list(whole), list(own)
            while rest:  # own may count them by others: (2, 3) for 6, or 6
                group, taken = [rest.pop(0)], list[DataAxis]()
                while (n := size_of(tuple(taken))) != size_of(tuple(group)):
                    more = left if n < size_of(tuple(group)) else rest
                    if not more:
                        break
                    (taken if more is left else group).append(more.pop(0))
                mine += taken if all(axis in found.batch for axis in group) else []
        return tuple(mine)

    left, right = map(own_batch, product.own_shared)
    return (left, right) if of_keys == COLUMNS else (right, left)


def _parts_of(axis: DataAxis) -> Iterator[tuple[object, int, int]]:
    """Yield what the keys of an axis were joined of; nothing of a stretch of it."""
    parts = next((one.parts for one in axis.lineage() if one.parts), ())
    yield from parts if sum(size for _axes, size, _marks in parts) == axis.size else ()
