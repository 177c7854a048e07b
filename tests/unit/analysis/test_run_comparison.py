"""Two runs side by side, on small runs whose numbers are worked out by hand."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import pytest

from tests.traces import make_trace
from visformer.analysis import run_comparison
from visformer.analysis.run_comparison import (
    TokenAlignment,
    align_sources,
    align_targets,
    compare_runs,
    head_divergences,
    js_divergence,
    log_p_of,
    next_divergence,
    pair,
)
from visformer.values.arrays import Floats
from visformer.values.given_attention import traces_of_weights
from visformer.values.step import Candidates, Step
from visformer.values.trace import Trace

TRACE = make_trace(source=6, target=5)


def reading(text: str, *pieces: str, end: str = "</s>") -> Trace:
    """Return a run whose source is cut into these pieces, from left to right."""
    spans, at = [], 0
    for piece in pieces:
        start = text.index(piece, at)
        at = start + len(piece)
        spans.append((start, at))
    trace = make_trace(source=len(pieces) + 1, target=4)
    return replace(
        trace,
        source_text=text,
        source=(*pieces, end),
        source_spans=(*spans, (len(text), len(text))),
    )


def writing(*pieces: str, ids: Sequence[int] = (), p: float = 0.5) -> Trace:
    """Return a run that writes these pieces, each with probability ``p``, then ends.

    Of its candidates only the first is the piece; the other is the token "x".
    """
    trace = make_trace(source=4, target=len(pieces) + 1)
    steps, text = [], ""
    for at, piece in enumerate((*pieces, "</s>")):
        text = f"{text}{piece}" if piece != "</s>" else text
        id = ids[at] if ids else at
        best = Candidates(np.array([id, 40]), [piece, "x"], np.array([p, 1 - p]))
        steps.append(
            Step(
                id=id,
                token=piece,
                probability=p,
                rank=1,
                candidates=best,
                entropy=1.0,
                origin="model",
                text=text,
            )
        )
    return replace(trace, target=("<s>", *pieces), steps=tuple(steps))


# ---- divergences -------------------------------------------------------------------


def test_divergences_are_those_of_the_formula() -> None:
    rows = np.array([[1, 0], [0.5, 0.5], [0.25, 0.75], [1, 0]], np.float64)
    others = np.array([[0, 1], [1, 0], [0.25, 0.75], [np.nan, 1]], np.float64)
    found = js_divergence(rows, others)
    # the second: m = (3/4, 1/4), (log2(4/3) + (log2(2/3) + log2(2)) / 2) / 2
    second = (math.log2(4 / 3) + (math.log2(2 / 3) + 1) / 2) / 2
    np.testing.assert_allclose(found[:3], [1, second, 0], atol=1e-12)
    assert math.isnan(found[3])


def test_divergences_are_bounded_and_symmetric() -> None:
    random = np.random.default_rng(0)
    rows = random.dirichlet(np.ones(9) / 4, 200)
    others = random.dirichlet(np.ones(9) / 4, 200)
    found = js_divergence(rows, others)
    assert ((found >= 0) & (found <= 1)).all()
    np.testing.assert_allclose(found, js_divergence(others, rows), atol=1e-12)
    middle = (rows + others) / 2  # by entropies: H(m) - (H(p) + H(q)) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        entropies = [-np.nan_to_num(x * np.log2(x)).sum(-1) for x in (rows, others)]
        whole = -(middle * np.log2(middle)).sum(-1)
    np.testing.assert_allclose(found, whole - sum(entropies) / 2, atol=1e-9)


def test_what_only_one_step_keeps_counts_as_one() -> None:
    def step(tokens: Sequence[str], p: Sequence[float]) -> Step:
        kept = Candidates(np.arange(len(p)), tokens, np.array(p))
        return replace(TRACE.steps[0], candidates=kept)

    same = step(["a", "b"], [0.5, 0.25])
    other = step(["a", "c"], [0.5, 0.5])
    # "a" 0.5 and 0.5; all others 0.5 and 0.5: nothing is known to differ
    assert next_divergence(same, other) == 0
    far = step(["a", "b"], [0, 1])
    near = step(["a", "b"], [1, 0])
    assert next_divergence(far, near) == pytest.approx(1)
    assert math.isnan(next_divergence(step(["a"], [math.nan]), near))
    assert math.isnan(next_divergence(step([], []), near))


# ---- alignment ---------------------------------------------------------------------


def test_pieces_of_other_tokenizers_are_joined_where_both_end() -> None:
    text = "unhappy cats sat"
    one = reading(text, "un", "happy", "cats", "sat")
    other = reading(text, "unh", "appy", "cat", "s", "sat", end="[SEP]")
    found = align_sources(one, other)
    assert found == TokenAlignment(
        (((0, 1), (0, 1)), ((2,), (2, 3)), ((3,), (4,))), ((4,), (5,))
    )
    other = replace(other, source=(*other.source[:-1], "</s>"))
    assert align_sources(one, other).groups[-1] == ((4,), (5,))
    assert not align_sources(one, other).one_to_one
    assert align_sources(one, one).one_to_one


def test_of_other_sentences_the_words_of_both_are_aligned() -> None:
    one = reading("the old cat sat", "the", "old", "cat", "sat")
    other = reading("a cat sat down", "a", "cat", "sat", "down")
    found = align_sources(one, other)
    assert found.groups == (((2,), (1,)), ((3,), (2,)), ((4,), (4,)))
    assert found.rest == ((0, 1), (0, 3))
    placed = align_sources(one, other, "position")
    assert placed.groups == tuple(((at,), (at,)) for at in range(5))
    assert placed.rest == ((), ())
    longer = reading("the cat", "the", "cat")
    assert align_sources(one, longer, "position").rest == ((3, 4), ())


def test_characters_of_chinese_are_words() -> None:
    one = reading("我有一只猫", "我有", "一只", "猫")
    other = reading("我有两只猫", "我", "有两", "只猫")
    found = align_sources(one, other)
    assert found.groups == (((0,), (0, 1)), ((1, 2), (2,)), ((3,), (3,)))


def test_targets_are_aligned_as_far_as_both_read_the_same() -> None:
    one = writing("le", " chat", " dort")
    other = writing("le", " chat", " mange", " bien")
    found = compare_runs(one, other)
    assert found.target.groups == (((0,), (0,)), ((1,), (1,)), ((2,), (2,)))
    assert found.target.rest == ((3,), (3, 4))
    assert found.parted == (2, 2)
    assert not found.equal
    # another tokenizer: the third piece ends where the other's second does
    cut = writing("l", "e", " chat", " mange")
    joined = align_targets(one, cut)
    assert joined.groups == (((0,), (0,)), ((1,), (1, 2)), ((2,), (3,)))
    assert compare_runs(one, cut).parted == (2, 3)
    assert [step.steps for step in found.steps] == [(0, 0), (1, 1), (2, 2)]
    plain = found.plain()  # as the command prints it: from 1
    assert plain["parted"] == (3, 3)
    assert [step["steps"] for step in plain["steps"]] == [(1, 1), (2, 2), (3, 3)]
    assert compare_runs(one, one).parted is None
    short = replace(one.until(2), steps=one.steps[:2])
    assert compare_runs(one, short).parted is None  # it was stopped, and does not part


# ---- log p of a common reference -----------------------------------------------------


def test_log_p_of_what_was_written_is_that_of_both() -> None:
    one, other = writing("a", "b", p=0.5), writing("a", "b", p=0.25)
    found = compare_runs(one, other)
    assert [token.tokens for token in found.reference] == [("a",), ("b",), ("</s>",)]
    for token in found.reference:
        assert token.log_p == pytest.approx((math.log(0.5), math.log(0.25)))
    assert [step.log_p for step in found.steps] == [
        pytest.approx((math.log(0.5), math.log(0.25)))
    ] * 3


def test_log_p_is_known_up_to_where_they_part() -> None:
    one, other = writing("a", "b"), writing("a", "x")
    found = compare_runs(one, other)
    assert [token.tokens for token in found.reference] == [("a",), ("b",)]
    assert math.isnan(found.reference[1].log_p[1])  # "b" is no candidate there
    back = compare_runs(other, one)
    assert back.reference[1].log_p == pytest.approx((math.log(0.5), math.log(0.5)))
    assert log_p_of(one.steps[0], other.steps[0]) == pytest.approx(math.log(0.5))


def test_log_p_of_pieces_that_cover_the_same_is_added() -> None:
    one, other = writing("chat", "s"), writing("ch", "ats")
    found = compare_runs(one, other)
    assert found.target.groups == (((0,), (0,)), ((1, 2), (1, 2)))
    assert found.reference[0].tokens == ("chat", "s")
    both = 2 * math.log(0.5)
    assert found.reference[0].log_p == pytest.approx((both, both))


def test_a_reference_that_was_fed_is_known_to_its_end() -> None:
    one, other = writing("a", "b"), writing("c", "d")
    fed = writing("le", " chat"), writing("le", " chat", p=0.25)
    found = compare_runs(one, other, fed=fed)
    assert found.parted == (0, 0)
    assert [token.tokens for token in found.reference] == [
        ("le",),
        (" chat",),
        ("</s>",),
    ]
    assert found.reference[1].log_p == pytest.approx((math.log(0.5), math.log(0.25)))


# ---- heads -------------------------------------------------------------------------


def weighted(cross: Floats, decoder: Floats) -> Trace:
    """Return a run whose weights are given: [L, H, Q, K] of two kinds."""
    made = {"cross": [*cross], "decoder": [*decoder]}
    return traces_of_weights(made, None, None)[0]


def test_a_head_is_the_mean_of_its_rows() -> None:
    even = np.full((1, 2, 2, 2), 0.5, np.float32)
    moved = even.copy()
    moved[0, 1, 0] = (1, 0)  # of head 2, one of two rows
    first = np.array([[1, 0], [0.5, 0.5]], np.float32)
    causal = np.broadcast_to(first, (1, 2, 2, 2))
    one, other = weighted(even, causal), weighted(moved, causal)
    found = compare_runs(one, other).divergences
    row = (math.log2(4 / 3) + (math.log2(2 / 3) + 1) / 2) / 2
    np.testing.assert_allclose(found["cross"], [[0, row / 2]], atol=1e-6)
    assert not found["decoder"].any()
    assert not compare_runs(one, other).equal
    assert compare_runs(one, one).equal
    moved[0, 0, 1] = np.nan
    broken = compare_runs(one, weighted(moved, causal))
    assert math.isnan(broken.divergences["cross"][0, 0])
    assert not math.isnan(broken.divergences["cross"][0, 1])
    assert (broken.broken, broken.equal) == (True, False)


def test_weights_of_joined_keys_are_added_and_rows_averaged() -> None:
    one = reading("ab c", "a", "b", "c")
    other = reading("ab c", "ab", "c")
    pairing = pair(one, other)
    assert pairing.source.groups == (((0, 1), (0,)), ((2,), (1,)), ((3,), (2,)))
    mine, theirs = (trace.attention("encoder", 0) for trace in (one, other))
    rows = np.stack([mine[:, :2].mean(1), mine[:, 2], mine[:, 3]], 1)  # [H, G, K]
    joined = np.stack([rows[..., :2].sum(-1), rows[..., 2], rows[..., 3]], -1)
    wanted = js_divergence(joined, theirs).mean(-1)
    kind, layer, found = next(head_divergences(pairing, one, other))
    assert (kind, layer) == ("encoder", 0)
    np.testing.assert_allclose(cast(Floats, found), wanted, atol=1e-6)


def test_keys_without_a_counterpart_are_compared_as_one() -> None:
    one = reading("a b c", "a", "b", "c")
    other = reading("a d e f", "a", "d", "e", "f")
    pairing = pair(one, other)
    assert pairing.source.groups == (((0,), (0,)), ((3,), (4,)))
    rows = []
    for trace, rest in ((one, [1, 2]), (other, [1, 2, 3])):
        own = trace.attention("encoder", 0)[:, [0, len(trace.source) - 1]]
        left = own[..., rest].sum(-1, keepdims=True)
        rows.append(np.concatenate([own[..., :1], own[..., -1:], left], -1))
    _kind, _layer, found = next(head_divergences(pairing, one, other))
    wanted = js_divergence(*rows).mean(-1)
    np.testing.assert_allclose(cast(Floats, found), wanted, atol=1e-6)


@pytest.mark.parametrize("tokens", ["a b c", "ab c"])
def test_a_layer_compared_in_parts_has_the_same_divergences(
    tokens: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = reading("ab c", "a", "b", "c"), reading("ab c", *tokens.split())
    pairing = pair(one, other)
    whole = [*head_divergences(pairing, one, other)]
    monkeypatch.setattr(run_comparison, "PART", 1)
    parts = [*head_divergences(pairing, one, other)]
    breaks = sum(heads is None for _kind, _layer, heads in parts)
    assert breaks >= len(pairing.source.groups) - 1
    made = [part for part in parts if part[2] is not None]
    for (*place, found), (*wanted, heads) in zip(made, whole, strict=True):
        assert place == wanted
        np.testing.assert_allclose(cast(Floats, found), cast(Floats, heads), atol=1e-7)


def test_only_what_both_have_is_compared() -> None:
    small = make_trace(source=6, target=5, layers=1, heads=4)
    found = compare_runs(TRACE, small)
    assert {kind: grid.shape for kind, grid in found.divergences.items()} == {
        "encoder": (1, 2),
        "decoder": (1, 2),
        "cross": (1, 2),
    }
    assert found.sizes["cross"] == ((2, 2), (1, 4))
    assert not found.equal
    alone = traces_of_weights({"decoder": [np.eye(3)[None, None]]}, None, None)[0]
    nothing = compare_runs(TRACE, alone)
    assert nothing.sizes["encoder"] == ((2, 2), (0, 0))
    assert set(nothing.divergences) == {"decoder"}


def test_a_run_equals_itself_and_its_plain_form_is_json() -> None:
    found = compare_runs(TRACE, TRACE, names=("one", "other"))
    assert found.equal
    plain = json.loads(json.dumps(found.plain()))
    assert plain["equal"] is True
    assert plain["a"]["name"] == "one"
    assert plain["parted"] is None
    assert np.array(plain["divergences"]["cross"]).shape == (2, 2)
    assert len(plain["steps"]) == len(TRACE)
    other = compare_runs(TRACE, make_trace(source=6, target=5, seed=2))
    assert not other.equal
    assert all(
        0 <= grid.min() <= grid.max() <= 1 for grid in other.divergences.values()
    )
