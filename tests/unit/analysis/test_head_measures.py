from __future__ import annotations

import math

import numpy as np
import pytest

from visformer.analysis.head_measures import (
    agreement,
    entropy,
    maximum,
    neighbour,
    offset_mass,
    place_correlation,
)
from visformer.values.arrays import Floats, row_entropy

EYE = np.eye(4, dtype=np.float32)
BLIND = np.array([[np.nan, np.nan], [0.5, 0.5]], np.float32)


def test_entropy_of_n_equal_weights_is_log2_n_bits() -> None:
    for n in (1, 2, 5, 64):
        row = np.full((1, n), 1 / n, np.float32)
        assert row_entropy(row)[0] == pytest.approx(math.log2(n), abs=1e-5)


def test_entropy_of_one_weight_is_nothing() -> None:
    assert row_entropy(EYE).tolist() == [0, 0, 0, 0]
    assert entropy(np.array([[1, 0], [0.5, 0.5]], np.float32)) == 0.5


def test_entropy_of_all_heads_at_once() -> None:
    weights = np.array([[[0.5, 0.5]], [[1, 0]]], np.float32)
    assert row_entropy(weights).tolist() == [[1], [0]]


def test_a_row_of_nan_stays_nan_and_is_left_out_of_a_head() -> None:
    assert np.isnan(row_entropy(BLIND)).tolist() == [True, False]
    assert entropy(BLIND) == 1
    assert maximum(BLIND) == 0.5
    assert offset_mass(BLIND, 0) == 0.5


def test_nothing_at_all_is_nan() -> None:
    empty = np.zeros((0, 3), np.float32)
    for measure in (entropy, maximum, place_correlation):
        assert math.isnan(measure(empty))
    assert math.isnan(entropy(np.full((2, 2), np.nan, np.float32)))


def test_maximum_is_the_mean_of_the_rows_largest() -> None:
    weights = np.array([[0.75, 0.25], [0.5, 0.5]], np.float32)
    assert maximum(weights) == 0.625


def moved(by: int) -> Floats:
    made: Floats = np.eye(5, k=by, dtype=np.float32)
    return made


@pytest.mark.parametrize(("by", "name"), [(-1, "previous"), (0, "itself"), (1, "next")])
def test_a_shifted_head_reads_its_neighbour(by: int, name: str) -> None:
    assert neighbour(moved(by)) == (name, 1)


def test_one_token_has_only_itself() -> None:
    assert neighbour(np.ones((1, 1), np.float32)) == ("itself", 1)
    assert math.isnan(offset_mass(np.ones((1, 1), np.float32), -1))


def test_reading_along_backwards_and_nowhere() -> None:
    assert place_correlation(EYE) == pytest.approx(1)
    assert place_correlation(EYE[::-1].copy()) == pytest.approx(-1)
    assert math.isnan(place_correlation(np.full((3, 4), 0.25, np.float32)))
    assert math.isnan(place_correlation(EYE[:1]))


def test_place_correlation_is_pearsons_of_mean_places() -> None:
    weights = np.array([[1, 0, 0], [0, 0.5, 0.5], [0, 1, 0]], np.float32)
    expected = np.corrcoef([0, 1, 2], [0, 1.5, 1])[0, 1]
    assert place_correlation(weights) == pytest.approx(expected)
    blind = np.insert(weights, 1, np.nan, axis=0)
    expected = np.corrcoef([0, 2, 3], [0, 1.5, 1])[0, 1]
    assert place_correlation(blind) == pytest.approx(expected)
    # of captured weights, whose rows may have another sum
    scaled = weights * np.array([[2], [0.5], [0.1]], np.float32)
    assert place_correlation(scaled) == pytest.approx(place_correlation(weights))


def test_agreement_is_the_weight_on_what_most_heads_read() -> None:
    """Two of three heads read key 1 in row 1; all read key 2, which is no content."""
    weights = np.array(
        [
            [[0.1, 0.9, 0.0], [0.0, 0.0, 1.0]],
            [[0.2, 0.6, 0.2], [0.0, 0.2, 0.8]],
            [[0.7, 0.3, 0.0], [0.3, 0.1, 0.6]],
        ],
        np.float32,
    )
    content = np.array([True, True, False])
    assert agreement(weights, content) == pytest.approx([0.9, 0.6, 0.3])
    # with key 2 counted: row 1 has a share of 2/3, row 2 of 1
    both = [(2 / 3 * a + b) / (5 / 3) for a, b in ((0.9, 1.0), (0.6, 0.8), (0.3, 0.6))]
    assert agreement(weights, np.ones(3, bool)) == pytest.approx(both)
    assert np.isnan(agreement(weights, np.zeros(3, bool))).all()
