"""What is told of an operation's result from its numbers."""

from __future__ import annotations

import pytest
import torch

from visformer.watching.axis_rules import sums_to_one


@pytest.mark.parametrize(
    ("rows", "normalised"),
    [
        ([[0.5, 0.5], [0.25, 0.75]], True),
        ([[0.5, 0.4995], [0.25, 0.75]], True),  # as in half precision
        ([[0.5, 0.498], [0.25, 0.75]], False),
        ([[0.5, 0.45], [0.25, 0.75]], False),  # one row that is none is enough
        ([[0.5, 0.55], [0.25, 0.75]], False),
        ([[1.5, -0.5], [0.25, 0.75]], False),
    ],
)
def test_weights_of_a_softmax_sum_to_one_within_a_thousandth(
    rows: list[list[float]], normalised: bool
) -> None:
    weights = torch.tensor(rows)
    assert sums_to_one(weights, 1) is normalised
    assert sums_to_one(weights.mT, 0) is normalised
