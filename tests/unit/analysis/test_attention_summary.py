from __future__ import annotations

import numpy as np
import pytest

from visformer.analysis.attention_summary import (
    chosen,
    fewest_keys,
    running_maximum,
    running_mean,
)
from visformer.values.arrays import Floats

NAN = np.nan


def floats(values: object) -> Floats:
    return np.array(values, np.float32)


def test_the_mean_so_far_ends_with_the_mean_of_all() -> None:
    parts = [floats([[1, 0]]), floats([[0, 1]]), floats([[0.5, 0.5]])]
    means = list(running_mean(parts))
    assert [mean.tolist() for mean in means] == [[[1, 0]], [[0.5, 0.5]], [[0.5, 0.5]]]
    assert parts[0].tolist() == [[1, 0]]  # unchanged


def test_the_maximum_is_of_each_cell() -> None:
    parts = [floats([[0.75, 0.25]]), floats([[0.5, 0.5]])]
    assert list(running_maximum(parts))[-1].tolist() == [[0.75, 0.5]]


def test_a_row_of_nan_stays_one_in_mean_and_maximum() -> None:
    parts = [floats([[NAN, NAN], [1, 0]]), floats([[1, 0], [0, 1]])]
    for last in (list(running_mean(parts))[-1], list(running_maximum(parts))[-1]):
        assert np.isnan(last).tolist() == [[True, True], [False, False]]


def test_rows_and_columns_are_chosen_as_they_are() -> None:
    weights = floats([[0.5, 0.25, 0.25], [0, 0, 1], [0.25, 0.5, 0.25]])
    assert chosen(weights, [0, 2], [1, 2]).tolist() == [[0.25, 0.25], [0.5, 0.25]]


def test_renormalised_rows_sum_to_one_where_something_is_left() -> None:
    weights = floats([[0.5, 0.125, 0.375], [1, 0, 0], [NAN, NAN, NAN]])
    made = chosen(weights, [0, 1, 2], [1, 2], renormalise=True)
    assert made[0].tolist() == [0.25, 0.75]
    assert made[1].tolist() == [0, 0]
    assert np.isnan(made[2]).all()


@pytest.mark.parametrize(("queries", "keys"), [([], [0]), ([0], [])])
def test_nothing_left_is_an_empty_matrix(queries: list[int], keys: list[int]) -> None:
    made = chosen(floats([[1]]), queries, keys, renormalise=True)
    assert made.shape == (len(queries), len(keys))


@pytest.mark.parametrize(
    ("share", "marked"),
    [
        (0.5, [[0, 1, 0, 0]]),
        (0.7, [[1, 1, 0, 0]]),
        (0.75, [[1, 1, 0, 0]]),
        (0.76, [[1, 1, 1, 0]]),
        (1.0, [[1, 1, 1, 0]]),
    ],
)
def test_the_fewest_keys_carry_the_share(share: float, marked: list[int]) -> None:
    weights = floats([[0.25, 0.5, 0.25, 0]])
    assert fewest_keys(weights, share).tolist() == np.array(marked, bool).tolist()


def test_the_share_is_of_what_the_row_has() -> None:
    # a row that was not renormalised: 0.9 of its 0.5 are carried by both keys
    weights = floats([[0.3, 0.2, 0], [0.5, 0, 0]])
    assert fewest_keys(weights, 0.9).sum(axis=1).tolist() == [2, 1]


def test_no_key_is_marked_in_a_row_of_nan_or_zeros() -> None:
    assert not fewest_keys(floats([[NAN, NAN], [0, 0]]), 1.0).any()
    assert fewest_keys(np.zeros((0, 3), np.float32), 0.9).shape == (0, 3)


def test_the_fewest_keys_carry_at_least_the_share_and_one_less_does_not() -> None:
    random = np.random.default_rng(0)
    weights = random.dirichlet(np.full(20, 0.3), 50).astype(np.float32)
    marked = fewest_keys(weights, 0.9)
    carried = np.where(marked, weights, 0).sum(axis=1)
    weakest = np.where(marked, weights, 1).min(axis=1)
    assert (carried >= 0.9 - 1e-5).all()
    assert (carried - weakest < 0.9).all()
