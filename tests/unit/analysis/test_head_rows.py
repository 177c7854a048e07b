"""What rows of heads read, on weights whose measures can be worked out by hand."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from visformer.analysis.head_measures import measured_rows, rarest
from visformer.values.arrays import Bools, Floats

NAN = math.nan
# keys a, b, c, </s>; rows the same
HEAD = [
    [0.50, 0.25, 0.00, 0.25],
    [0.75, 0.00, 0.25, 0.00],
    [0.00, 0.40, 0.10, 0.50],
    [0.00, 0.00, 0.00, 1.00],
]
WORDS = np.array([True, True, True, False])
NOBODY = np.zeros(4, bool)


def measured(
    *, own: bool = True, rare: Bools = NOBODY, norms: list[float] | None = None
) -> dict[str, Floats]:
    weights = np.array([HEAD], np.float32)
    lengths = None if norms is None else np.array([norms], np.float32)
    made = measured_rows(
        weights, WORDS, WORDS, own=own, rare=rare, sink=~WORDS, norms=lengths
    )
    return {name: rows[0] for name, rows in made.items()}


def test_confidence_leaves_out_rows_and_keys_of_the_end() -> None:
    made = measured()
    assert made["confidence"] == pytest.approx([0.5, 0.75, 0.4, NAN], nan_ok=True)
    assert made["sink"] == pytest.approx([0.25, 0, 0.5, NAN], nan_ok=True)
    # -(2/4 ln 1/2 + 2/4 ln 1/4)
    assert made["entropy"][0] == pytest.approx(1.5 * math.log(2))


def test_distance_and_neighbours_are_of_self_attention() -> None:
    made = measured()
    assert made["distance"][:3] == pytest.approx([0.25 + 3 / 4, 1.0, 0.4 + 0.5])
    assert made["previous"] == pytest.approx([NAN, 1, 1, NAN], nan_ok=True)
    assert made["next"] == pytest.approx([0, 0, 0, NAN], nan_ok=True)
    assert not {"distance", "previous", "next"} & measured(own=False).keys()


def test_the_norm_of_what_is_read_counts() -> None:
    made = measured(norms=[1, 1, 1, 0.1])
    assert made["sink norm"][0] == pytest.approx(0.025 / 0.775)
    assert made["sink norm"][2] == pytest.approx(0.05 / 0.55)
    assert "sink norm" not in measured()


def test_the_rarest_piece_is_one_that_is_rarer_than_all_others() -> None:
    ids = [5, 6, 5, 2]
    counts = Counter({5: 9, 6: 3, 2: 1, 8: 3})
    there = rarest(ids, WORDS, counts)
    assert there.tolist() == [False, True, False, False]  # the end is no word
    made = measured(rare=there)
    assert made["rare"] == pytest.approx([0, 0, 1, NAN], nan_ok=True)
    assert "rare" not in measured()
    assert not rarest([6, 8, 5, 2], WORDS, counts).any()  # two are as rare
    assert not rarest([5, 5, 5, 2], WORDS, counts).any()  # it is all there is
    assert rarest([1, 6, 5, 2], WORDS, counts).tolist() == [False, True, False, False]


def test_a_row_of_nan_is_no_data() -> None:
    weights = np.array([[[NAN, NAN], [0.2, 0.8]]], np.float32)
    both = np.ones(2, bool)
    made = measured_rows(
        weights, both, both, own=True, rare=both, sink=~both, norms=None
    )
    assert {name for name, rows in made.items() if not np.isnan(rows[0, 0])} == set()
    assert made["confidence"][0, 1] == pytest.approx(0.8)
    assert np.isnan(made["sink"]).all()  # there is no end token
