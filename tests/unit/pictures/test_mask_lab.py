"""The mask lab's arithmetic and words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.existing import existing
from tests.general_traces import Shape, any_trace
from tests.states import showing
from tests.tiny_models import tiny_checkpoint
from tests.traces import make_trace
from visformer.core.decoding import Decoding
from visformer.pictures.comparison import (
    Runs,
    candidate_numbers,
    compare,
    compared_pictures,
    difference_picture,
    difference_words,
)
from visformer.pictures.mask_lab import (
    paint_picture,
    row_numbers,
    row_words,
    toggled,
    turned,
)
from visformer.pictures.selection import AttentionCell, Selection
from visformer.pictures.words.leak_words import (
    batch_words,
    empty_row_words,
    leak_words,
    leaking_cells,
)
from visformer.session.state import State
from visformer.values.changes.mask_changes import Causal, Cell, HideSource
from visformer.values.intervention import NO_CHANGES, Intervention, parse
from visformer.values.trace import Trace


def runs_of(state: State) -> Runs | None:
    return compare(state.baseline, state.visible)


def clicked(state: State, query: int, key: int, field: int | None) -> Intervention:
    """Return what a click on a cell asks for."""
    assert state.visible is not None
    change = turned(state.visible, state.selection, (query, key), field)
    return toggled(state.intervention, state.baseline, change)


def both(*, tokens: tuple[str, ...] = ()) -> State:
    """Return two runs; the altered one reads other ``tokens`` from row 3 on."""
    plain = make_trace(source=3, target=4)
    other = make_trace(source=3, target=4, seed=5)
    ids = plain.target_ids.copy()
    if tokens:
        ids[2:] += 1
        other = replace(other, target=(*other.target[:2], *tokens))
    modified = replace(other, intervention=parse(["hide 1"]), target_ids=ids)
    change = modified.intervention
    return showing(modified, baseline=plain, intervention=change, kind="cross", head=1)


def test_the_difference_is_altered_minus_untouched() -> None:
    state = both()
    assert state.baseline is not None
    assert state.trace is not None
    picture = existing(difference_picture(runs_of(state), state.selection))
    expected = state.trace.attention("cross", 0, 1) - state.baseline.attention(
        "cross", 0, 1
    )
    np.testing.assert_array_equal(picture.values, expected)
    reach = np.abs(expected).max()
    np.testing.assert_allclose(picture.shade, 0.5 + expected / (2 * reach), atol=1e-6)
    assert difference_words(runs_of(state)) == ""


def test_only_rows_that_read_the_same_tokens_are_compared() -> None:
    state = both(tokens=("other", "last"))
    runs = existing(runs_of(state))
    assert runs[2] == 2
    picture = existing(difference_picture(runs_of(state), state.selection))
    assert picture.values.shape == (2, 3)
    assert candidate_numbers(runs_of(state)) is not None
    assert "follow different beginnings" in difference_words(runs_of(state))
    state = replace(state, kind="decoder")
    picture = existing(difference_picture(runs_of(state), state.selection))
    assert picture.values.shape == (2, 2)


def test_nothing_is_compared_with_an_untouched_run() -> None:
    state = showing(make_trace())
    assert difference_picture(runs_of(state), state.selection) is None
    assert candidate_numbers(runs_of(state)) is None


def test_a_row_from_score_to_weight() -> None:
    trace = make_trace(source=3, target=3, masked_value=-1e9)
    state = showing(trace, kind="decoder", locked=AttentionCell("decoder", 1, 0))
    numbers = existing(row_numbers(state.visible, None, state.selection))
    score, allowed, masked, weight = numbers.values
    assert numbers.rows == ("score", "may attend", "masked score", "weight")
    np.testing.assert_array_equal(score, trace.scores("decoder", 0, 0)[1])
    assert allowed.tolist() == [1, 1, 0]
    assert numbers.flags == (1,)
    assert masked.tolist() == [*score[:2].tolist(), -1e9]
    e = np.exp(score[:2] - score[:2].max())
    np.testing.assert_allclose(weight, [*(e / e.sum()), 0], atol=1e-6)
    assert "(token 2): a hidden score is replaced by −1e9" in row_words(
        state.visible, state.selection
    )
    assert row_words(state.visible, state.selection).endswith("add up to 1.0000.")


def test_multiplying_shows_the_mask_as_a_factor() -> None:
    trace = make_trace(source=3, target=3, masked_value=0.0)
    state = showing(trace, kind="decoder", locked=AttentionCell("decoder", 0, 0))
    numbers = existing(row_numbers(trace, None, state.selection))
    score, factor, masked, weight = numbers.values
    assert factor.tolist() == [1, 0, 0]
    np.testing.assert_array_equal(masked, score * factor)
    e = np.exp(masked)
    np.testing.assert_allclose(weight, e / e.sum(), rtol=1e-5)
    leaky = showing(trace, kind="decoder", locked=AttentionCell("decoder", 0, 0))
    assert "e⁰ = 1 still gets a weight" in row_words(leaky.visible, leaky.selection)


def test_candidates_of_both_runs() -> None:
    state = both()
    numbers = existing(candidate_numbers(runs_of(state)))
    before, after, difference = numbers.values
    there = ~np.isnan(before) & ~np.isnan(after)
    np.testing.assert_allclose(difference[there], (after - before)[there], atol=1e-7)
    assert state.trace is not None
    best = state.trace.steps[-1].candidates[0]
    assert after[numbers.columns.index(best.token.removeprefix("▁"))] == np.float32(
        best.probability
    )
    assert numbers.kept is not None
    assert (numbers.kept == ~np.isnan(numbers.values)).all()


def test_cells_and_fields() -> None:
    state = showing(make_trace(), kind="decoder")
    assert clicked(state, 0, 2, None).masks == (Cell("decoder", 0, 2, True),)
    assert clicked(state, 2, 0, 1).masks == (Cell("decoder", 2, 0, False, 1),)
    made = parse(["causal +1 @ L2; hide 1; hide 3"])
    assert made.one(Causal, layer=1) == Causal(1, 1)
    assert made.one(Causal, layer=None) is None
    hidden = made.of(HideSource, layer=None)
    assert {one.token for one in hidden} == {0, 2}
    assert made.of(HideSource, layer=0) == ()
    assert made.without(HideSource(0)).without(HideSource(2)) == parse(
        ["causal +1 @ L2"]
    )
    assert NO_CHANGES.without(Causal(None)) == NO_CHANGES


def test_leaks_are_named() -> None:
    trace = make_trace(source=3, target=3, layers=1, masked_value=0.0)
    words = leak_words(trace)
    assert words.startswith(
        "2 leaks, at most one for each layer and query. decoder self: “"
    )
    assert "reads the later token" in words
    assert leak_words(make_trace()).startswith("No leak: no target token")
    alone = any_trace(Shape(kinds=("encoder",)))  # whose tokens may read later ones
    assert leak_words(alone) == "No leak: no token reads a pad."
    assert leak_words(make_trace().until(0)) == ""  # nothing has read anything


def test_of_a_step_before_a_leak_no_leak_is_said_and_why() -> None:
    checkpoint, change = tiny_checkpoint(), "cell decoder 1 3 on"
    trace = Decoding(checkpoint, "abcde", limit=5, intervention=change).finish()
    assert leak_words(trace).split()[1].startswith("leak")
    words = leak_words(trace.until(2))
    weights = trace.attention("decoder")[:, :, :2, 2:]  # of layers and heads
    share = f"{weights.sum(-1).max():.1%}"
    assert words == (
        f"Rows read later tokens, which are not shown, with up to {share} of their "
        "weight."
    )
    causal = np.tri(5, dtype=bool)
    causal[3, 4] = True  # the fourth row reads the fifth token
    later = replace(trace, masks={**trace.masks, "decoder": causal}).until(2)
    assert leak_words(later).startswith("No leak up to this step: only rows of later")


def test_rows_that_attend_to_nothing_are_named() -> None:
    trace = make_trace(source=3, target=3, masked_value=-1e9)
    mask = np.zeros((3, 3), bool)
    blind = replace(trace, masks={**trace.masks, "decoder": mask})
    empty = empty_row_words(blind, 0)
    assert empty.startswith("decoder self: 3 queries, “<s>” (token 1) first, may")
    assert "gets the same weight, 0.3333." in empty
    words = leak_words(blind)
    assert "3 leaks" not in words
    # equal weights over all keys: what comes later is read as well
    assert "reads the later token" in words


def test_a_row_of_a_batch_is_searched_for_leaks() -> None:
    trace = make_trace(source=3, target=3)
    ids = trace.source_ids.copy()
    ids[2] = trace.model.pad
    padded = replace(trace, source_ids=ids)
    words = batch_words(padded, 0, modified=False)
    assert "reads the pad" in words
    assert batch_words(padded, 0, modified=True) == (
        f"{words} A batch is run without your changes."
    )


def altered_by(trace: Trace, change: Cell) -> Trace:
    """Return the trace as if run with one cell changed in every layer of a kind."""
    mask = trace.mask(change.kind, 0).copy()
    mask[change.query, change.key] = change.allowed
    made = NO_CHANGES.with_change(change)
    return replace(trace, intervention=made, masks={**trace.masks, change.kind: mask})


def test_a_cell_painted_twice_leaves_no_change() -> None:
    plain = make_trace(source=3, target=4)
    painted = Cell("decoder", 0, 2, True)
    modified = altered_by(plain, painted)
    kept = modified.intervention.with_change(HideSource(0))
    for intervention in (modified.intervention, kept):
        state = showing(
            modified, baseline=plain, kind="decoder", intervention=intervention
        )
        assert clicked(state, 0, 2, None) == intervention.without(painted)
    # what a moved diagonal leaves of the cell is not known here: it is said outright
    moved = modified.intervention.with_change(Causal(1))
    state = showing(modified, baseline=plain, kind="decoder", intervention=moved)
    assert Cell("decoder", 0, 2, False) in clicked(state, 0, 2, None).masks


def test_the_layer_in_the_field_is_painted() -> None:
    plain = make_trace(source=3, target=4, layers=2)
    own = plain.mask("decoder", 0)
    opened = own.copy()
    opened[0, 2] = True
    by_layer = replace(plain, masks={**plain.masks, "decoder": np.stack([own, opened])})
    state = showing(by_layer, kind="decoder", layer=0)
    assert clicked(state, 0, 2, 1).masks == (Cell("decoder", 0, 2, False, 1),)
    assert clicked(state, 0, 2, 0).masks == (Cell("decoder", 0, 2, True, 0),)
    picture = existing(paint_picture(state.visible, state.selection, 1))
    assert "layer 2" in picture.title
    np.testing.assert_array_equal(picture.values, opened)


def test_rows_that_attend_to_nothing_are_found_in_every_layer() -> None:
    trace = make_trace(source=3, target=3, masked_value=-1e9)
    own, empty = trace.mask("decoder", 0), np.zeros((3, 3), bool)
    by_layer = {**trace.masks, "decoder": np.stack([own, empty])}
    words = empty_row_words(replace(trace, masks=by_layer), 0)
    assert words.startswith("decoder self, layer 2: 3 queries, “<s>” (token 1) first")
    assert empty_row_words(trace, 0) == ""
    assert empty_row_words(None, 0) == ""


def test_the_untouched_weights_of_the_row_stand_below_the_altered_ones() -> None:
    state = both()
    runs = existing(runs_of(state))
    for query in (3, 1):
        selection = replace(state.selection, cell=AttentionCell("cross", query, 0))
        numbers = existing(row_numbers(state.visible, runs, selection))
        assert numbers.rows[-2:] == ("weight", "original weight")
        modified, plain = (run.attention("cross", 0, 1) for run in runs[1::-1])
        np.testing.assert_array_equal(numbers.values[-2], modified[query])
        np.testing.assert_array_equal(numbers.values[-1], plain[query])
    other = runs._replace(rows=3)  # the last row read another token
    last = replace(state.selection, cell=AttentionCell("cross", 3, 0))
    numbers = existing(row_numbers(state.visible, other, last))
    assert "original weight" not in numbers.rows


def leaking(tokens: int) -> Trace:
    made = parse(["causal off @ L2"])
    return Decoding(tiny_checkpoint(), "abc", limit=tokens, intervention=made).finish()


def test_what_leaks_is_painted_on_the_mask_and_on_the_head() -> None:
    trace = leaking(5)
    later = ~np.tri(len(trace), dtype=bool)
    assert later.any()
    for layer, cells in ((0, None), (1, later)):
        found = leaking_cells(trace, "decoder", layer)
        assert (found is None) == (cells is None)
        if cells is not None:
            assert found is not None
            weights = np.asarray(trace.attention("decoder", layer))
            assert (found == (cells & (weights.max(0) > 1e-6))).all()
            assert (found & later).any()
    assert leaking_cells(trace, "cross", 1) is None
    selection = Selection(kind="decoder", layer=1, head=0)
    painted = existing(paint_picture(trace, selection, 1))
    assert painted.alarms is not None
    whole = compared_pictures(trace, None, selection)
    assert len(whole) == 1
    assert whole[0].alarms is not None


def test_one_token_cannot_show_that_nothing_leaks() -> None:
    made = parse(["causal off @ L2"])
    first = Decoding(tiny_checkpoint(), "abc", limit=5, intervention=made).step(1)
    assert "step forward to see what leaks" in leak_words(first)
    trace = leaking(5)
    assert "read later tokens, which are not shown" in leak_words(trace.until(1))
    assert "reads the later token" in leak_words(trace)
    plain = Decoding(tiny_checkpoint(), "abc", limit=5).finish()
    assert leak_words(plain.until(1)).startswith("No leak")


def test_queries_and_keys_keep_their_hues_on_every_map() -> None:
    trace = leaking(4)
    original = Decoding(tiny_checkpoint(), "abc", limit=4).finish()
    selection = Selection(kind="decoder", layer=1, head=0)
    pictures = [
        paint_picture(trace, selection, 1),
        difference_picture(compare(original, trace), selection),
        *compared_pictures(trace, original, selection),
    ]
    for picture in pictures:
        assert picture is not None
        assert (picture.row_role, picture.column_role) == ("query", "key")
