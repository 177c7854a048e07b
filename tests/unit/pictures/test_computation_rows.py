"""Which rows the Computation tab shows: kept rows, earlier rows, a block of many."""

from __future__ import annotations

import weakref
from dataclasses import replace

import pytest

from tests.states import showing
from tests.traces import make_trace, with_config
from tests.unit.pictures.computed import looked_at, shown, state_of, traced, values
from visformer.analysis.sublayers import LayerRows
from visformer.core.decoding import Decoding
from visformer.core.side_runs import layer_parameters
from visformer.pictures.computation.stages import STAGES, heading
from visformer.pictures.computation.subject import BLOCK, layer_rows
from visformer.pictures.picture import saved_labels
from visformer.pictures.selection import AttentionCell
from visformer.values.memo import same
from visformer.values.trace import Trace


def are_of(rows: LayerRows, trace: Trace | None) -> bool:
    """Tell whether rows are those of a Trace, as long as it is."""
    assert trace is not None
    return same(rows.trace.storage, trace.storage) and len(rows.trace) == len(trace)


def test_rows_of_an_earlier_step_are_those_of_the_whole_run() -> None:
    checkpoint, trace = traced()
    whole = looked_at(state_of(checkpoint, trace))
    early = replace(state_of(checkpoint, trace, step=3), parameters=())
    assert looked_at(early).layer_rows is None
    early = replace(early, parameters=(whole.rows().parameters,))
    assert looked_at(early).rows() is whole.rows()
    other = replace(early, parameters=(layer_parameters(checkpoint, "decoder", 0),))
    assert looked_at(other).rows().parameters is other.parameters[0]
    assert are_of(looked_at(other).rows(), trace)


def test_rows_of_the_layer_before_are_kept() -> None:
    checkpoint, trace = traced()
    layers = [layer_parameters(checkpoint, "decoder", layer) for layer in (0, 1)]
    rows = [layer_rows(trace, layer, 0) for layer in layers]
    assert [layer_rows(trace, layer, 0) for layer in layers] == rows


def test_two_runs_are_two_calls() -> None:
    checkpoint, trace = traced()
    other = Decoding(checkpoint, "edcba", limit=6).finish()
    pair = [state_of(checkpoint, run) for run in (trace, other)]
    for _ in range(2):
        for run, state in zip((trace, other), pair, strict=True):
            assert are_of(looked_at(state).rows(), run)
    kept = [looked_at(state).rows() for state in pair]
    assert [looked_at(state).rows() for state in pair] == kept


def test_a_step_of_rows_that_read_later_tokens_shows_those_too() -> None:
    checkpoint, trace = traced()
    leaking = replace(trace, model=with_config(trace.model, masked_value=0.0))
    state = state_of(checkpoint, leaking, step=3, kind="decoder")
    assert are_of(looked_at(state).rows(), leaking)
    weights, v, _ = values(state, "weighted")
    mine, _ = values(state, "concat")
    assert weights.shape == (6, 6)
    assert weights.sum(-1) == pytest.approx([1] * 6, abs=1e-5)
    assert mine == pytest.approx(weights @ v, abs=1e-5)
    said = heading(looked_at(state))
    assert said.endswith("rows read later tokens, so those of the whole pass are shown")
    assert "whole pass" not in heading(looked_at(state_of(checkpoint, trace, step=3)))


def test_rows_of_a_step_are_those_of_the_pass() -> None:
    """A row that may read nothing reads all keys of the pass alike."""
    checkpoint, trace = traced()
    parameters = layer_parameters(checkpoint, "decoder", 0)
    assert are_of(layer_rows(trace.until(3), parameters, 0), trace)
    mask = trace.mask("decoder", 0).copy()
    mask[1] = False
    early = replace(trace, masks={**trace.masks, "decoder": mask}).until(3)
    assert are_of(layer_rows(early, parameters, 0), early.whole)


def test_the_rows_kept_are_those_of_the_block_looked_at() -> None:
    checkpoint, _ = traced()
    parameters = layer_parameters(checkpoint, "encoder", 0)
    trace = make_trace(source=150, target=3)
    for query, first, last in ((70, 64, 128), (3, 0, 64), (149, 128, 150)):
        rows = layer_rows(trace, parameters, query)
        assert (rows.rows.start, rows.rows.stop) == (first, last)
        assert layer_rows(trace, parameters, first) is rows


def test_what_is_no_longer_looked_at_is_freed_at_once() -> None:
    """Without a collection: a layer's weights that come again, a run with its rows."""
    checkpoint, _ = traced()
    trace = make_trace(source=3, target=3)
    first = layer_parameters(checkpoint, "decoder", 0)
    gone = weakref.ref(first.feed_forward.w1.weight)
    layer_rows(trace, first, 0)
    del first
    layer_rows(trace, layer_parameters(checkpoint, "decoder", 0), 0)
    assert gone() is None
    run = weakref.ref(trace)
    del trace
    assert run() is None


def test_earlier_steps_show_fewer_rows_of_the_same_numbers() -> None:
    checkpoint, trace = traced()
    whole = values(state_of(checkpoint, trace), "feed_residual")
    early = values(state_of(checkpoint, trace, step=3), "feed_residual")
    for one, other in zip(early, whole, strict=True):
        assert len(one) == 3
        assert (one == other[:3]).all()


def test_a_long_sentence_is_drawn_a_block_of_rows_at_a_time() -> None:
    trace = make_trace(source=150, target=3)
    cell = AttentionCell("encoder", 70, 149)
    made = shown(showing(trace, kind="encoder", locked=cell), "product")
    matrices = [one.make() for one in made.maps]
    assert [m.values.shape for m in matrices] == [(BLOCK, 4), (4, 150), (BLOCK, 150)]
    assert matrices[0].title == "Q [150, 4], rows 65–128"
    assert saved_labels(matrices[0].rows) == trace.source[64:128]
    assert made.maps[0].first == (64, 0)
    own = trace.queries("encoder", 0, 0)[64:128]
    assert (matrices[0].values == own).all()
    assert made.table.values[1] == pytest.approx(trace.keys("encoder", 0, 0)[149])


def test_rows_of_the_feed_forward_network_are_tokens_that_ask_nothing() -> None:
    checkpoint, trace = traced()
    state = state_of(checkpoint, trace)
    for stage in STAGES:
        for one in shown(state, stage.name).maps:
            if one.axes[0] == "query":
                matrix = one.make()
                said = matrix.row_axis, matrix.row_role
                attends = stage.page == "attention"
                assert said == (
                    ("query: word being written", "query") if attends else ("token", "")
                )
                first = trace.steps[0].token if attends else trace.target[0]
                assert matrix.rows[0] == first


@pytest.mark.parametrize("bias", ["all", "none"])
def test_what_makes_queries_keys_and_values_has_its_biases(bias: str) -> None:
    state = state_of(*traced(encoder_bias=bias, decoder_bias=bias))
    formula = shown(state, "projections").formula
    added = [f" + b_{letter}" in formula for letter in "QKV"]
    assert added == [bias == "all"] * 3
    assert formula.startswith("Q = X W_Q")
    assert "K = M W_K" in formula


@pytest.mark.parametrize("stage", [stage.name for stage in STAGES])
def test_a_number_that_only_a_larger_model_had_is_not_looked_for(stage: str) -> None:
    """What is selected stays when another model is opened."""
    state = state_of(*traced())
    first = shown(state, stage)
    beyond = shown(state, stage, model=900, head=900, inner=900)
    assert (beyond.words, beyond.formula) == (first.words, first.formula)
