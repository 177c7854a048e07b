"""Why the scores are divided by sqrt(d): the scale stage against plain numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.tiny_models import tiny_checkpoint
from tests.unit.pictures.computed import shown, state_of, traced
from visformer.core.decoding import Decoding
from visformer.pictures.selection import AttentionCell
from visformer.values.arrays import Floats, row_entropy
from visformer.values.intervention import parse
from visformer.values.trace import Trace


def by_hand(trace: Trace, scale: float) -> tuple[Floats, Floats]:
    """Return the decoder's second head's scores and weights under another scale."""
    q, k = trace.queries("decoder", 0, 1), trace.keys("decoder", 0, 1)
    scores = (q.astype(np.float64) @ k.astype(np.float64).T) * scale
    masked = np.where(np.tri(len(q), dtype=bool), scores, -np.inf)
    weights = np.exp(masked - masked.max(1, keepdims=True))
    weights /= weights.sum(1, keepdims=True)
    return scores.astype(np.float32), weights.astype(np.float32)


def test_both_scores_have_one_colour_range_and_both_weights() -> None:
    checkpoint, trace = traced()
    made = shown(state_of(checkpoint, trace, kind="decoder", head=1), "scale")
    products, scaled, without, weights = (one.make() for one in made.maps)
    assert products.ends == scaled.ends
    top = float(np.abs(products.values).max())
    for matrix in (products, scaled):
        assert matrix.shade == pytest.approx(matrix.values / (2 * top) + 0.5, abs=1e-6)
    for matrix, scale in ((without, 1.0), (weights, 1 / math.sqrt(8))):
        expected = by_hand(trace, scale)[1]
        assert matrix.values == pytest.approx(expected, abs=1e-5)
        assert matrix.ends == ("0", "1")
        assert matrix.shade == pytest.approx(matrix.values, abs=1e-6)
    assert weights.values == pytest.approx(
        np.asarray(trace.attention("decoder", 0, 1)), abs=1e-6
    )


def test_the_row_with_and_without_scale_is_a_table() -> None:
    checkpoint, trace = traced()
    cell = AttentionCell("decoder", 3, 1)
    state = state_of(checkpoint, trace, kind="decoder", head=1, locked=cell)
    made = shown(state, "scale")
    (scores, plain), (_scaled, own) = (by_hand(trace, s) for s in (1, 1 / math.sqrt(8)))
    rows = dict(zip(made.table.rows, made.table.values, strict=True))
    assert rows["weight without scale"] == pytest.approx(plain[3], abs=1e-5)
    assert rows["weight with scale"] == pytest.approx(own[3], abs=1e-5)
    assert made.table.full[:2] == pytest.approx([np.abs(scores[3]).max()] * 2)
    assert made.table.full[2:] == (1.0, 1.0)


def test_a_run_without_scale_is_compared_with_one_that_has_it() -> None:
    checkpoint = tiny_checkpoint()
    change = parse(["scale off @ L1"])
    trace = Decoding(checkpoint, "abcde", limit=5, intervention=change).finish()
    cell = AttentionCell("decoder", 3, 1)
    state = state_of(checkpoint, trace, kind="decoder", head=1, locked=cell)
    made = shown(state, "scale")
    weights = made.maps[2].make().values
    assert weights == pytest.approx(by_hand(trace, 1.0)[1], abs=1e-5)
    own = by_hand(trace, 1 / math.sqrt(8))[1]
    assert made.maps[3].make().values == pytest.approx(own, abs=1e-5)


def test_the_entropy_of_a_row_that_does_not_sum_to_one_is_that_of_its_shares() -> None:
    weights = np.array([[0.2, 0.2, 0, 0], [0.5, 0.5, 0, 0], [0, 0, 0, 0]], np.float32)
    found = row_entropy(weights)
    assert found[:2] == pytest.approx([1, 1])
    assert math.isnan(found[2])
