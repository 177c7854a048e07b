"""ScoreTrail: how numbers follow from a product of activations, to be done again."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from visformer.watching.axes import DataDimension, DataDimensions

if TYPE_CHECKING:
    from visformer.watching.ledger import Picked

Again = Callable[[Tensor], Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class ScoreProduct:
    """A product of two activations: perhaps of queries and keys."""

    left: Tensor  # [*shared, M, d]
    right: Tensor  # [*shared, d, J]
    shared: DataDimensions  # the better known of what both have
    own_shared: tuple[DataDimensions, DataDimensions]  # what left and right have
    summed: DataDimension  # d, as left and right have it
    left_rows: DataDimension  # M
    right_columns: DataDimension  # J: counted by axes of its own
    right_before: DataDimension  # J, as the right factor has it
    picked: tuple[Picked, Picked]  # of left and right
    factors: tuple[float, float]  # that left and right were multiplied by
    marks: tuple[int, int]
    module: str
    call: int


@dataclass(frozen=True, slots=True, eq=False)
class ScoreTrail:
    """The last of the operations that lead from a product to a tensor."""

    product: ScoreProduct
    before: ScoreTrail | None = None
    again: Again | None = None
    operation: str = ""
    # of the softmax: the dimension it runs over, and those of its input
    softmax: tuple[DataDimension, DataDimensions] | None = None
    random: bool = False
    others: tuple[ScoreTrail, ...] = ()  # of other softmaxes that went in as well

    def steps(self) -> list[ScoreTrail]:
        """Return all operations, the first one first."""
        steps: list[ScoreTrail] = []
        at: ScoreTrail | None = self
        while at is not None and at.before is not None:
            steps.append(at)
            at = at.before
        return steps[::-1]

    def normalised(self) -> bool:
        """Whether a softmax, or an exponential, is among the operations."""
        return any(step.softmax or step.operation == "exp" for step in self.steps())


def with_sum(
    trail: ScoreTrail, name: str, bias: Tensor, kwargs: dict[str, Any]
) -> ScoreTrail:
    """Return the trail of a product to which its own operation adds something."""
    beta, alpha = kwargs.get("beta", 1), kwargs.get("alpha", 1)

    def again(given: Tensor) -> Tensor:
        added: Tensor = beta * bias.to(given.dtype) + alpha * given
        return added

    return replace(trail, before=trail, again=again, operation=name)


VIEW_NAMES = {"view", "_unsafe_view"}  # done again on numbers that may lie otherwise
GIVEN = object()  # stands where the argument was that is on the trail


def safe_softmax(scores: Tensor, dimension: int) -> Tensor:
    """Return the softmax; zeros where all scores are -inf, not NaN."""
    nothing = (scores == -math.inf).all(dimension, keepdim=True)
    return torch.softmax(scores, dimension).masked_fill(nothing, 0.0)


def doing_again(
    operation: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    on_trail: Tensor,
) -> Again:
    """Return an operation as a function of the one argument that is on the trail.

    Numbers of the model's own type are done exactly as the model did them; numbers of
    another type keep it, whatever the model rounded its own to. The argument itself is
    not kept: else all scores of a pass would stay in memory.
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
    """Return arguments with a placeholder for one of them."""
    if isinstance(values, dict):
        return {name: _without(value, gone) for name, value in values.items()}
    if isinstance(values, list | tuple):
        return [_without(value, gone) for value in values]
    return GIVEN if values is gone else values


def walked(steps: list[ScoreTrail], numbers: Tensor) -> Tensor:
    """Do the operations again on other numbers of the product's shape."""
    for step in steps:
        if step.again is not None:
            numbers = step.again(numbers)
    return numbers
