"""Scores, masks and weights of heads: right, and of the same digits however asked."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.traces import grown, make_trace
from visformer.values.arrays import softmax
from visformer.values.attention_heads import ADDED, BLOCK, AttentionHeads
from visformer.values.facts import KINDS, Kind
from visformer.values.memo import Memo


def test_every_stage_by_hand() -> None:
    """Two queries, three keys, heads of width 4: products are divided by 2."""
    queries = np.array([[[1, 0, 2, 0]], [[0, 1, 0, -1]]], np.float32)
    keys = np.array([[[2, 0, 1, 0]], [[0, 4, 0, 0]], [[0, 0, 0, 0]]], np.float32)
    mask = np.array([[True, True, True], [True, False, False]])
    heads = AttentionHeads(queries, keys, mask, -1e9, 1 / 2)
    assert heads.products().tolist() == [[[4, 0, 0], [0, 4, 0]]]
    assert heads.scores().tolist() == [[[2, 0, 0], [0, 2, 0]]]
    assert heads.masked().tolist() == [[[2, 0, 0], [0, -1e9, -1e9]]]
    e = np.exp(2)
    expected = [[[e / (e + 2), 1 / (e + 2), 1 / (e + 2)], [1, 0, 0]]]
    np.testing.assert_allclose(heads.weights(), expected, rtol=1e-6)
    assert heads.weights(slice(1, 2)).tolist() == [[[1, 0, 0]]]


@pytest.mark.parametrize("width", [3, 8, 64])
def test_a_rows_digits_hang_on_nothing_that_it_does_not_read(width: int) -> None:
    random = np.random.default_rng(0)
    length = 9 * ADDED + BLOCK + 7  # numpy adds up to 7 numbers as they come
    q, k = random.standard_normal((2, length, 2, width)).astype(np.float32)
    mask, scale = np.tri(length, dtype=bool), width**-0.5
    whole = AttentionHeads(q, k, mask, -np.inf, scale).weights()
    for count in (1, 2, BLOCK - 1, BLOCK, BLOCK + 1, ADDED, 200, 300, length):
        cut = AttentionHeads(q[:count], k[:count], mask[:count, :count], -np.inf, scale)
        assert np.array_equal(cut.weights(), whole[:, :count, :count])
        last = cut.weights(slice(count - 1, None))
        assert np.array_equal(last, whole[:, count - 1 : count, :count])
    one = AttentionHeads(q[:, 1:], k[:, 1:], mask, -np.inf, scale).weights(
        slice(40, 50)
    )
    assert np.array_equal(one, whole[1:, 40:50])
    alone = AttentionHeads(q[:, 1:], k[:, 1:], mask, -np.inf, scale).weights(
        slice(length - 1, length)
    )
    assert np.array_equal(alone, whole[1:, -1:])


@pytest.mark.parametrize("kind", KINDS)
def test_a_trace_derives_what_the_formula_says(kind: Kind) -> None:
    trace = make_trace(masked_value=-1e9)
    for layer in (0, 1):
        for head in (0, 1):
            q, k = (get(kind, layer, head) for get in (trace.queries, trace.keys))
            scores = (q.astype(np.float64) @ k.T) / 2  # heads of width 4
            np.testing.assert_allclose(
                trace.scores(kind, layer, head), scores, atol=1e-6
            )
            masked = np.where(trace.mask(kind, layer), scores, -1e9)
            made = trace.attention(kind, layer, head)
            np.testing.assert_allclose(made, softmax(masked), atol=1e-6)
            assert np.array_equal(trace.attention(kind, layer)[head], made)
            assert np.array_equal(
                trace.scores(kind, layer)[head], trace.scores(kind, layer, head)
            )


def test_no_row_and_a_row_that_may_attend_to_nothing() -> None:
    trace = make_trace()
    assert trace.until(0).attention("decoder", 0).shape == (2, 0, 0)
    assert trace.until(0).attention("cross", 0, 0).shape == (0, 5)
    blind = {**trace.masks, "cross": np.zeros((4, 5), bool)}
    assert np.isnan(replace(trace, masks=blind).attention("cross", 0)).all()
    finite = make_trace(masked_value=-1e9)
    weights = replace(finite, masks=blind).attention("cross", 0)
    np.testing.assert_allclose(weights, 0.2, rtol=1e-6)


# ---- what is kept with a run -------------------------------------------------------


def test_a_memo_keeps_by_identity_and_forgets_the_longest_unused() -> None:
    memo, one, other = Memo(most=10), [1], [1]
    memo.keep((one,), "a", "A", 5)
    assert memo.find((one,), "a") == "A"
    assert memo.find((other,), "a") is None
    assert memo.find((one,), "b") is None
    memo.keep((one,), "b", "B", 5)
    assert memo.find((one,), "a") == "A"  # used last
    memo.keep((one,), "c", "C", 5)
    assert memo.find((one,), "b") is None
    assert memo.find((one,), "a") == "A"
    memo.keep((one,), "a", "A2", 5)
    assert (memo.find((one,), "a"), memo.find((one,), "c")) == ("A2", "C")
    assert pickle.loads(pickle.dumps(memo)).find((one,), "a") is None


def test_the_traces_of_one_run_share_a_memo_and_know_the_whole() -> None:
    trace = make_trace()
    cut = trace.until(3).until(2)
    assert cut.memo is trace.memo
    assert cut.whole is trace
    assert trace.whole is trace
    assert all(a is b for a, b in zip(cut.storage, trace.storage, strict=True))
    other = replace(cut, masks={**cut.masks, "cross": np.ones((2, 5), bool)})
    assert other.whole is other  # it is made of something else
    assert make_trace().memo is not trace.memo
    copied = pickle.loads(pickle.dumps(cut))
    assert copied.whole is copied
    assert copied.memo is not cut.memo


def test_the_traces_of_a_growing_recording_share_a_memo() -> None:
    first, *_, last = grown(make_trace())
    assert first.memo is last.memo
    assert all(a is b for a, b in zip(first.storage, last.storage, strict=True))


def test_a_file_holds_nothing_of_the_memo(tmp_path: Path) -> None:
    trace = make_trace()
    trace.save(tmp_path / "before.vis")
    trace.memo.keep(trace.storage, "x", np.zeros(1000), 1000)
    trace.until(4).save(tmp_path / "after.vis")
    before, after = (tmp_path / f"{name}.vis" for name in ("before", "after"))
    assert before.read_bytes() == after.read_bytes()
