"""From a softmax whose result multiplies values to a Captured attention."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from visformer.values.attention_heads import NO_WEIGHT
from visformer.values.watched_attention import HALF_TOLERANCE, HIDING, TOLERANCE
from visformer.watching.axes import (
    WEIGHT,
    DataAxis,
    DataDimension,
    DataDimensions,
    size_of,
)
from visformer.watching.captured import (
    COARSE,
    COLUMNS,
    Apart,
    Captured,
    Replayed,
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
from visformer.watching.ledger import Known, ScoreProduct, ScoreTrail, walked
from visformer.watching.module_calls import ModuleCall

ARRANGING = {  # operations that change no weight
    *("view", "_unsafe_view", "reshape", "_reshape_alias", "unsqueeze", "squeeze"),
    *("transpose", "t", "permute", "expand", "clone", "_to_copy", "detach", "alias"),
}


class _AttentionParts(NamedTuple):
    """An attention in canonical axis order, on the CPU."""

    found: Roles  # the axes of the weights
    of_scores: Roles  # the axes of the product
    in_order: Callable[[Tensor], Tensor]  # brings what is as the result into its order
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
    bare: bool = False,
) -> Captured:
    """Return the attention whose ``result`` is ``weights`` times ``values``.

    ``left`` is False if the weights are the right factor; ``bare`` asks for what is
    added without masks. Raises Unclear if the roles of the axes are ambiguous.
    """
    product, (tensor, dimensions), turned = trail.product, weights, not left
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
        raise Unclear("some of the keys")  # values in chunks, but joined scores
    compared = Rounding(max(replayed.unit, unit_of(tensor)), unit_of(result))
    keys = grouped(parts.keys, parts.queries.shape[1])
    derived = formula(trail, parts.of_scores, replayed, parts.queries, keys)
    factors, marks = product.factors, product.marks
    if of_keys != COLUMNS:
        factors, marks = factors[::-1], marks[::-1]
    made = Captured(
        weights=parts.weights,
        queries=parts.queries / factors[0],
        keys=parts.keys / factors[1],
        values=parts.values,
        result=parts.result,
        scale=derived.scale * factors[0] * factors[1],
        bare=_without_masks(trail, parts.of_scores) if bare else None,
        **{name: getattr(derived, name) for name in ("added", "linear", "filled")},
        apart=Apart(math.inf, 0.0),
        multiplied=derived.multiplied,
        over=softmax_axis(trail, parts.of_scores),
        random=any(step.random for step in trail.steps()),
        mixed=_is_mixed(trail, parts.found, parts.of_scores),
        in_order=lambda x: parts.in_order(x.mT if turned else x),
        marks=(*marks, value_marks),
        mark=mark,
        **_place(product, call, parts.weights.shape[1]),
        **_axes(product, parts.of_scores, of_keys),
    )
    judged = compared.weights(own, derived.top.abs().max(), steps=1)
    others = compared.results(made), *_formula_apart(compared, made, derived, trail)
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

    def in_order(result: Tensor) -> Tensor:
        groups = found.batch, found.heads, found.queries, width
        return arranged(result, (*shared, rows, width), groups)

    several = (
        arranged(tensor, (*shared, rows, contracted), found.groups),
        queries,
        keys,
        arranged(
            values, (*shared, contracted, width), (found.batch, own, found.keys, width)
        ),
        in_order(result),
    )
    plain = [x.detach().to("cpu", torch.float32, copy=True) for x in several]
    return _AttentionParts(found, of_scores, in_order, *plain)


def _formula_apart(
    compared: Rounding, made: Captured, derived: ScoreFormula, trail: ScoreTrail
) -> list[Apart]:
    """Compare the weights with softmax(scale * q.k + added)."""
    _before, after = split_at_softmax(trail)
    plainly = made.over == "keys" and not made.mixed
    edited = any(step.operation not in ARRANGING for step in after[1:])
    if derived.scores is None or not plainly or edited:
        return []
    weights = torch.softmax(derived.scores, -1).float()
    # in a row that may read nothing, one softmax gives NaN and another one zeros
    if weights.isnan().any():
        weights = weights.masked_fill(weights.isnan() & (made.weights == 0), 0.0)
    return [compared.weights(rows_apart(weights, made.weights), derived.top)]


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


def _place(product: ScoreProduct, call: ModuleCall, heads: int) -> dict[str, Any]:
    """Return the fields of a Captured that identify its module and call."""
    module = product.module if call.number == product.call else call.path
    return {
        "module": module,
        "parts": ((module, heads),),
        "call": call.number,
        "parent": call.parent,
        "outermost": call.outermost,
    }


def _axes(product: ScoreProduct, found: Roles, of_keys: str) -> dict[str, Any]:
    """Return the fields of a Captured that hold axes."""
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
    """Return the batch axes of the queries and those of the keys."""

    def own_batch(several: DataDimensions) -> DataDimension:
        mine: list[DataAxis] = []
        for whole, own in zip(product.shared, several, strict=True):
            rest, left = list(whole), list(own)
            while rest:  # the same size may be split differently: (2, 3) for 6
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
    """Yield the parts that the keys of an axis were joined from; none for a slice."""
    parts = next((one.parts for one in axis.lineage() if one.parts), ())
    yield from parts if sum(size for _axes, size, _marks in parts) == axis.size else ()


LITTLE = 1e-3  # so small that a soft cap is linear
SILENT = 1e-9  # a slope below this is zero
MANY = 4093  # sampled scores; a prime, so that every column is sampled
CLOSE = 1e-4  # tolerance of scores, relative to their magnitude
FINE = 1e-7  # with a coarser rounding unit no formula can be derived


@dataclass(frozen=True, slots=True, eq=False)
class ScoreFormula:
    """The weights as softmax(scale * q.k + added), if they have this form.

    The operations between product and softmax are repeated on zeros, which gives what
    is added; comparing this with the actual scores gives the scale.
    """

    scale: float
    top: Tensor  # the largest score of each row, [B, H, Q, 1], or of all rows
    linear: bool = False
    added: Tensor | None = None  # [B or 1, H or 1, Q, K]
    filled: Tensor | None = None  # bool, same shape: ``added`` replaces the score
    multiplied: Tensor | None = None  # [B, H, Q, K]: multiplied by 0, not masked
    scores: Tensor | None = None  # [B, H, Q, K] by the formula; None where not linear


def formula(
    trail: ScoreTrail, found: Roles, replayed: Replayed, queries: Tensor, keys: Tensor
) -> ScoreFormula:
    """Derive the formula of a trail's scores, arranged like the weights.

    Queries [B, H, Q, d] and keys [B, H, K, d] are the factors of the product.
    """
    before, _after = split_at_softmax(trail)
    product, scores = replayed.product, replayed.scores
    if replayed.unit > FINE:  # too much rounding to derive a formula
        product = _wide(trail.product.left) @ _wide(trail.product.right)
        scores = walked(before, product)
    in_order = partial(_scores_in_order, trail, found)
    try:
        zero, real = (
            in_order(walked(before, torch.zeros_like(product))),
            in_order(scores),
        )
    except Unclear:
        top = scores.amax().nan_to_num(0, 0, 0).cpu()
        return ScoreFormula(_first_slope(before, product), top)
    flat = queries.to(real.dtype) @ keys.mT.to(real.dtype)
    scale = _scale(flat, zero, real)
    if scale is None:  # everything is masked
        scale = _first_slope(before, product)
    derived = torch.add(zero, flat, alpha=scale)
    apart = torch.sub(real, derived, out=flat).abs_()
    silent, multiplied = (real == zero) & (apart > 0), None
    if silent.any():  # rare: filled, or multiplied by zero
        ones = in_order(walked(before, torch.ones_like(product)))
        silent = (real == zero) & (ones == zero) & (zero > -torch.inf)
        multiplied = silent & (zero > HIDING) & in_order(_times_zero(before, product))
        silent &= ~multiplied
        derived = torch.where(silent, zero, derived)
        apart = (real - derived).abs_()
    off = apart > real.abs().clamp_(min=1).mul_(CLOSE)
    linear = not bool((off & (zero > NO_WEIGHT) & (real > NO_WEIGHT)).any())
    if not linear and multiplied is None:
        scale = _first_slope(before, product)
    return ScoreFormula(
        scale=scale,
        top=real.amax(-1, keepdim=True).nan_to_num(0, 0, 0).float(),
        linear=linear,
        added=_shared(zero.float()) if zero.any() else None,
        filled=_shared(silent) if silent.any() else None,
        multiplied=multiplied if multiplied is not None and multiplied.any() else None,
        scores=derived if linear else None,
    )


def _scores_in_order(trail: ScoreTrail, found: Roles, numbers: Tensor) -> Tensor:
    dimensions = next((s.softmax[1] for s in trail.steps() if s.softmax), None)
    if dimensions is None:
        raise Unclear("no softmax")
    return arranged(numbers, dimensions, found.groups).cpu()


def _without_masks(trail: ScoreTrail, found: Roles) -> Tensor | None:
    """Return what is added to the scores but by masks, [B, H, Q, K].

    None if one operation masks and adds, and without a softmax.
    """
    zeros = torch.zeros_like(trail.product.left @ trail.product.right)
    for step in split_at_softmax(trail)[0]:
        after = walked([step], zeros)
        if step.operation not in ARRANGING:
            if after.shape != zeros.shape:
                return None
            hidden = (after <= NO_WEIGHT) & (zeros > NO_WEIGHT)
            if hidden.any() and ((after != zeros) & ~hidden).any():
                return None
            after = zeros.where(hidden, after)
        zeros = after
    try:
        return _scores_in_order(trail, found, zeros).float()
    except Unclear:
        return None


def _wide(tensor: Tensor) -> Tensor:
    return tensor.to(torch.float32 if tensor.device.type == "mps" else torch.float64)


def _shared(tensor: Tensor) -> Tensor:
    """Drop copies of a tensor along the batch and head dimensions."""
    for at in (0, 1):
        first = tensor.narrow(at, 0, 1)
        if tensor.shape[at] > 1 and bool((tensor == first).all()):
            tensor = first
    return tensor.clone()


def _scale(product: Tensor, zero: Tensor, real: Tensor) -> float | None:
    """Return the factor of the products; None if it cannot be determined."""
    several = [x.reshape(-1) for x in (product, zero, real)]
    last = product.numel() - 1
    at = torch.linspace(0, last, MANY, dtype=torch.float64).long()
    for some in ([x[at] for x in several], several):
        product, zero, real = (x.double() for x in some)
        tells = (zero > NO_WEIGHT) & (real > NO_WEIGHT) & (real != zero)
        tells &= real.isfinite() & (product.abs() > SILENT)
        if tells.any():
            product, slope = product[tells], (real - zero)[tells] / product[tells]
            large = product.abs() >= product.abs().median()
            return float(slope[large].median())
    return None


def _first_slope(before: list[ScoreTrail], product: Tensor) -> float:
    """Return the slope of the operations at small scores, before any masking."""
    zeros = torch.zeros_like(_wide(product))
    little = torch.full_like(zeros, LITTLE)
    scale = 1.0
    for step in before:
        zeros, little = walked([step], zeros), walked([step], little)
        slope = ((little - zeros) / LITTLE)[zeros > NO_WEIGHT]
        slope = slope[slope.abs() > SILENT]
        if len(slope):
            scale = float(slope.median())
    return scale


def _times_zero(before: list[ScoreTrail], product: Tensor) -> Tensor:
    """Return which scores are multiplied by zero and not replaced later."""
    zeros, ones = torch.zeros_like(product), torch.ones_like(product)
    for step in before:
        differed = zeros != ones
        zeros, ones = walked([step], zeros), walked([step], ones)
        if step.operation in ("mul", "mul_"):
            gone = (zeros == ones) & differed
            zeros, ones = (x.masked_fill(gone, torch.nan) for x in (zeros, ones))
    return zeros.isnan()


STEPS = 3  # roundings of a score or a result: product, scale, mask
OF_SUMS = unit_of(torch.zeros(0))  # products are accumulated in float32


class Rounding(NamedTuple):
    """Relative rounding units of the weights and of the results.

    The error of a softmax grows with its largest scores, that of a sum with its terms.
    """

    of_weights: float
    of_results: float

    def weights(self, rows: Tensor, top: Tensor, steps: int = STEPS) -> Apart:
        """Judge differences of weights, [..., Q, 1].

        ``top`` is the largest score of each row, [..., Q, 1], or of all; ``steps``
        roundings may differ. An error x of the scores changes a weight w by at most
        2 x w (1 - w), and only scores near the largest have weights.
        """
        allowed = 0.5 * steps * self.of_weights * (top.abs() + 1)
        return _judged(rows, allowed.clamp(max=1.0), self.of_weights)

    def results(self, made: Captured) -> Apart:
        """Compare the results with weights times values, relative to their rows."""
        values = grouped(made.values, made.weights.shape[1])
        size, sums = _reach(made.result), made.weights.abs().sum(-1, keepdim=True)
        largest = values.abs().nan_to_num(0, 0, 0).amax((-2, -1), keepdim=True)
        unit = STEPS * self.of_results + math.sqrt(values.shape[2]) * OF_SUMS
        allowed = unit * sums.nan_to_num(0, 0, 0) * largest / size
        rows = rows_apart(made.weights @ values, made.result) / size
        return _judged(rows, allowed, self.of_results)


def _reach(numbers: Tensor) -> Tensor:
    """Return the largest magnitude of each row, at least 1; [..., 1]."""
    return numbers.abs().nan_to_num(0, 0, 0).amax(-1, keepdim=True).clamp_(min=1.0)


def _judged(rows: Tensor, allowed: Tensor, unit: float) -> Apart:
    """Return the difference that most exceeds its tolerance, else the largest one."""
    usual = HALF_TOLERANCE if unit > COARSE else TOLERANCE
    if not rows.numel():
        return Apart(0.0, usual)
    room = allowed.clamp(min=usual).expand(rows.shape)
    over = rows - room
    at = int((over if (over > 0).any() else rows).argmax())
    difference, most = float(rows.reshape(-1)[at]), float(room.reshape(-1)[at])
    return Apart(difference, usual if difference <= usual else most)


def rows_apart(again: Tensor, own: Tensor) -> Tensor:
    """Return the largest difference of each row, [..., 1], on the CPU.

    Values that are NaN in both count as equal.
    """
    if again.dtype == own.dtype and torch.equal(again, own):
        return torch.zeros((*own.shape[:-1], 1))
    again, own = again.float(), own.float()
    apart = (again - own).abs_()
    rows = (
        apart.amax(-1, keepdim=True) if apart.numel() else apart.sum(-1, keepdim=True)
    )
    if not rows.isfinite().all():
        same = (again == own) | (again.isnan() & own.isnan())
        rows = apart.masked_fill(same, 0.0).nan_to_num(torch.inf).amax(-1, keepdim=True)
    return rows.cpu()


# ---- Weights over a single key: einsum multiplies the values elementwise -------------


class OneKeyProduct(NamedTuple):
    """An elementwise multiplication, viewed as a matrix product."""

    known: Known  # about the weights
    weights: Tensor  # [*shared, M, 1]
    values: Tensor  # [*shared, 1, J]
    result: Tensor  # [*shared, M, J]
    arranged: Callable[[Tensor], Tensor]  # as the result is


def has_one_key(trail: ScoreTrail | None) -> bool:
    """Whether a trail has a softmax and its product has a side of one position."""
    if trail is None or not any(step.softmax for step in trail.steps()):
        return False
    return not trail.product.left_rows or not trail.product.right_columns


def one_key_product(
    known: Known, weights: Tensor, values: Tensor, result: Tensor
) -> OneKeyProduct | None:
    """View ``weights * values`` as a product; None if no value is broadcast.

    M counts the axes of the weights alone (queries), J those of the values alone.
    """
    many = result.dim()
    wide = [(1,) * (many - x.dim()) + tuple(x.shape) for x in (weights, values)]
    queries = [at for at in range(many) if wide[0][at] > 1 and wide[1][at] == 1]
    features = [at for at in range(many) if wide[1][at] > 1 and wide[0][at] == 1]
    shared = [at for at in range(many) if at not in (*queries, *features)]
    if not features:
        return None
    sizes = [result.shape[at] for at in shared]
    rows, columns = (
        math.prod(result.shape[at] for at in d) for d in (queries, features)
    )

    def matrix(tensor: Tensor, rows: int, columns: int) -> Tensor:
        whole = tensor.reshape((1,) * (many - tensor.dim()) + tuple(tensor.shape))
        ordered = whole.permute(*shared, *queries, *features)
        return ordered.reshape(*sizes, rows, columns)

    trail = known.trail
    assert trail is not None
    unknown = ((),) * (many - weights.dim())
    dimensions = (*unknown, *known.dimensions)
    of_queries = tuple(axis for at in queries for axis in dimensions[at])
    return OneKeyProduct(
        known=replace(
            known,
            dimensions=(*(dimensions[at] for at in shared), of_queries, ()),
            trail=replace(
                trail,
                before=trail,
                again=lambda given: matrix(given, rows, 1),
                operation="permute",
                softmax=None,
            ),
        ),
        weights=matrix(weights, rows, 1),
        values=matrix(values, 1, columns),
        result=matrix(result, rows, columns),
        arranged=lambda given: matrix(given, rows, columns),
    )
