from __future__ import annotations

import math

import pytest
import torch

from visformer.watching.captured import worst


@pytest.mark.parametrize(
    ("theirs", "expected"),
    [
        ([0.5, 0.25], 0.125),  # below 1 it is absolute
        ([8.0, 0.25], 0.125 / 8),  # a small number of a large row: what cancels
        ([8.0, math.inf], 0.125 / 8),
        ([8.0, math.nan], 0.125 / 8),
        ([8.0, -1e9], 0.125 / 8),  # a mask
    ],
)
def test_a_difference_is_told_relative_to_its_row(
    theirs: list[float], expected: float
) -> None:
    second = torch.tensor([theirs, [0.0, 0.0]])
    first = second.clone()
    at = 1 if theirs[1] == 0.25 else 0
    first[0, at] += 0.125
    assert worst(first, second) == pytest.approx(expected)
    first[1, 0] = 0.5  # another row is no excuse
    assert worst(first, second) == 0.5


def test_what_is_not_comparable_is_infinitely_far() -> None:
    one = torch.tensor([[1.0, 2.0]])
    assert worst(one, one.mT) == math.inf
    assert worst(one, torch.tensor([[1.0, math.nan]])) == math.inf
    assert worst(torch.tensor([[1.0, math.inf]]), one) == math.inf
    assert worst(one, one) == 0
