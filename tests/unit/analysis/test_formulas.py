from __future__ import annotations

import math

import numpy as np
import pytest

from visformer.analysis.sublayers import (
    ACTIVATIONS,
    batch_standard,
    cosine,
    layer_standard,
    size,
)

X = np.array([[1, 2], [2, 3]], np.float32)


def test_layer_norm_goes_along_rows_batch_norm_along_columns() -> None:
    layer, batch = layer_standard(X, 1e-5), batch_standard(X, 1e-5)
    exact = 0.5 / math.sqrt(0.25 + 1e-5)  # 0.99998
    assert layer.values == pytest.approx(exact * np.array([[-1, 1], [-1, 1]]), abs=1e-7)
    assert batch.values == pytest.approx(exact * np.array([[-1, -1], [1, 1]]), abs=1e-7)
    assert layer.mean.ravel().tolist() == [1.5, 2.5]
    assert batch.mean.ravel().tolist() == [1.5, 2.5]
    assert layer.deviation == pytest.approx(0.50001, abs=1e-6)


def test_the_unbiased_variance_divides_by_one_less() -> None:
    row = np.array([[1, 2, 3]], np.float32)  # deviations 1, 0, 1: variance 2/3 or 2/2
    assert layer_standard(row, 0.0, unbiased=True).values.tolist() == [[-1, 0, 1]]
    assert layer_standard(row, 0.0).values[0, 2] == pytest.approx(math.sqrt(1.5))


def test_a_row_of_equal_numbers_becomes_zeros_with_eps() -> None:
    row = np.full((1, 4), 7, np.float32)
    assert layer_standard(row, 1e-5).values.tolist() == [[0, 0, 0, 0]]


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("relu", lambda x: max(0.0, x)),
        ("gelu", lambda x: x * 0.5 * (1 + math.erf(x / math.sqrt(2)))),
        ("silu", lambda x: x / (1 + math.exp(-x))),
        ("tanh", math.tanh),
    ],
)
def test_activations_are_their_formulas(name: str, formula: object) -> None:
    x = np.linspace(-9, 9, 2001, dtype=np.float32)
    expected = [formula(float(value)) for value in x]  # type: ignore[operator]
    assert ACTIVATIONS[name](x) == pytest.approx(np.array(expected), abs=2e-6)
    assert ACTIVATIONS[name](x).dtype == np.float32


def test_size_and_direction() -> None:
    x = np.array([[3, 4], [1, 0], [0, 0]], np.float32)
    y = np.array([[-4, 3], [5, 5], [1, 1]], np.float32)
    assert size(x).tolist() == [5, 1, 0]
    assert cosine(x, y)[:2] == pytest.approx([0, math.sqrt(0.5)])
    assert np.isnan(cosine(x, y)[2])
