"""Weights of one key alone: einsum multiplies the values by them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

from torch import Tensor

from visformer.watching.ledger import Known
from visformer.watching.score_trail import ScoreTrail


class OneKeyProduct(NamedTuple):
    """A multiplication as a product of matrices."""

    known: Known  # of the weights
    weights: Tensor  # [*shared, M, 1]
    values: Tensor  # [*shared, 1, J]
    result: Tensor  # [*shared, M, J]


def has_one_key(trail: ScoreTrail | None) -> bool:
    """Whether a trail has a softmax, and one side of its product one position."""
    if trail is None or not any(step.softmax for step in trail.steps()):
        return False
    return not trail.product.left_rows or not trail.product.right_columns


def one_key_product(
    known: Known, weights: Tensor, values: Tensor, result: Tensor
) -> OneKeyProduct | None:
    """Return ``weights * values`` as a product; None where no value is spread out.

    M counts what the weights alone have, as queries, J what the values alone have.
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
    )
