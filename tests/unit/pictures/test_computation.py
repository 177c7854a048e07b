"""The Computation tab's pictures against plain numpy, on small real models."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.existing import existing
from tests.opened import opened_model
from tests.states import showing
from tests.tiny_models import tiny_checkpoint
from tests.traces import make_trace
from tests.unit.pictures.computed import looked_at, shown, state_of, traced, values
from visformer import words
from visformer.core.decoding import Decoding
from visformer.core.side_runs import layer_parameters
from visformer.pictures.computation import stages
from visformer.pictures.computation.stage_picture import StagePicture
from visformer.pictures.computation.stages import (
    STAGES,
    WAITING,
    Stage,
    heading,
    neighbour,
    picture,
    stage_names,
    stages_on,
)
from visformer.pictures.computation.subject import Subject, missing, subject
from visformer.pictures.picture import Numbers
from visformer.pictures.selection import AttentionCell, Selection
from visformer.session.state import State
from visformer.values.facts import StackName

MODELS: dict[str, dict[str, Any]] = {
    "post-norm": {},
    "pre-norm": {"norm_first": True, "final_norm": True},
    "scaling norms": {"norm_bias": False, "norm_first": True},
    "norms without mean": {"norm": "rms"},
    "gated": {"gated": True, "activation": "silu", "norm": "unbiased"},
    "no biases": {
        "encoder_bias": "none",
        "decoder_bias": "none",
        "w1_bias": False,
        "w2_bias": False,
    },
}


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
@pytest.mark.parametrize("name", MODELS)
def test_every_stage_follows_from_the_one_before(name: str, kind: str) -> None:
    """Each matrix is the result of the sign before it, applied to those on its left."""
    checkpoint, trace = traced(**MODELS[name])
    state = state_of(checkpoint, trace, kind=kind, layer=1, head=1)
    close = pytest.approx
    made = layer_parameters(
        checkpoint, "encoder" if kind == "encoder" else "decoder", 1
    )
    part = existing(made.cross_attention if kind == "cross" else made.self_attention)
    for stage in ("query", "key", "value"):
        x, weight, result = values(state, stage)
        linear = getattr(part, stage)
        bias = 0 if linear.bias is None else linear.bias[8:16]
        assert weight == close(linear.weight[:, 8:16])
        assert x @ weight + bias == close(result, abs=2e-5)
    q, k_t, product = values(state, "product")
    assert q @ k_t == close(product, abs=1e-4)
    assert product / math.sqrt(8) == close(values(state, "scale")[1], abs=1e-5)
    scores, mask, masked = values(state, "mask")
    assert (masked == np.where(mask == 1, scores, np.float32(-1e9))).all()
    weights, v, z = values(state, "weighted")
    assert weights == close(trace.attention(kind, 1, 1), abs=1e-6)  # type: ignore[arg-type]
    assert weights @ v == close(z, abs=1e-5)
    mine, joined = values(state, "concat")
    assert mine == close(z, abs=1e-5)
    assert joined[:, 8:] == close(mine)
    bias = 0 if part.output.bias is None else part.output.bias
    concat, w_o, output = values(state, "output")
    assert concat @ w_o + bias == close(output, abs=1e-4)
    x, added, total, *_ = values(state, "residual")
    assert added == close(output)
    assert x + added == close(total)


@pytest.mark.parametrize("name", MODELS)
def test_the_feed_forward_ends_in_the_models_own_stream(name: str) -> None:
    checkpoint, trace = traced(**MODELS[name])
    state = state_of(checkpoint, trace, layer=1)
    x, w, product = values(state, "w1")
    bias = layer_parameters(checkpoint, "decoder", 1).feed_forward.w1.bias
    assert x @ w + (0 if bias is None else bias) == pytest.approx(product, abs=1e-4)
    inner = values(state, "activation")[-1]
    assert inner == pytest.approx(values(state, "w2")[0])
    last = values(state, "feed_residual")[-1]
    own = trace.hidden("decoder", 2)
    assert last == pytest.approx(own, abs=2e-5 * max(1, float(np.abs(own).max())))


def test_the_chain_says_that_it_adds_up_to_the_weight() -> None:
    checkpoint, trace = traced()
    cell = AttentionCell("encoder", 2, 1)
    state = state_of(checkpoint, trace, kind="encoder", locked=cell)
    said = shown(state, "softmax").words
    weight = words.probability(float(trace.attention("encoder", 0, 0)[2, 1]))
    assert f"this is {weight}. The weight on the Attention tab is {weight} " in said
    found = existing(re.search(r"difference (\S+)\)", said))
    assert float(found[1].replace("−", "-")) < 1e-6


def test_places_count_from_one_and_dimensions_from_zero() -> None:
    checkpoint, trace = traced()
    query, key = trace.target[3], trace.source[1]  # of cross-attention: written there
    state = state_of(checkpoint, trace, head=1, locked=AttentionCell("cross", 2, 1))
    pair = f"“{query}” (token 4) reads “{key}” (token 2)"
    assert heading(looked_at(state)) == pair
    state = replace(state, locked=None)
    assert heading(looked_at(state)).startswith(f"“{trace.steps[-1].token}” (token 7) ")
    made = shown(state, "query", head=3)
    assert "q[dim 3] = " in made.words
    assert "head 2 of 2 has dim 8 to dim 15 of W_Q" in made.formula
    assert made.table.columns[:2] == ("dim 0", "dim 1")
    matrix = made.maps[0].make()
    assert matrix.columns[:2] == ("0", "1")
    assert matrix.column_names[:2] == ("dim 0", "dim 1")
    assert matrix.row_names[1] == f"“{trace.target[2]}” after “{trace.target[1]}”"
    assert matrix.column_axis == "model dimension (dim)"
    assert "z of head 1" in shown(state, "concat").table.rows
    assert "fills dim 8 to dim 15." in shown(state, "concat").words
    assert shown(state, "w1").table.columns[0] == "unit 0"


def test_q_times_k_is_written_term_by_term() -> None:
    checkpoint, trace = traced()
    state = state_of(checkpoint, trace, locked=AttentionCell("cross", 1, 3))
    made = shown(state, "product")
    q, k = trace.queries("cross", 0, 0)[1], trace.keys("cross", 0, 0)[3]
    assert (made.table.values == np.stack([q, k, q * k])).all()
    assert "(8 terms)" in made.words
    assert f"= {float(q @ k):.4g}".replace("-", "−") in made.words


def test_values_are_sorted_by_what_they_give() -> None:
    checkpoint, trace = traced()
    state = state_of(checkpoint, trace, locked=AttentionCell("cross", 1, 3))
    rows = shown(state, "weighted").table.values
    sizes = np.linalg.norm(rows[1:], axis=1)
    assert (np.diff(sizes) <= 0).all()
    assert rows[0] == pytest.approx(rows[1:].sum(0), abs=1e-5)


def test_without_a_cell_the_last_query_and_its_strongest_key_stand_in() -> None:
    checkpoint, trace = traced()
    state = state_of(checkpoint, trace, hovered=AttentionCell("encoder", 0, 0))
    standing_in = looked_at(state)
    assert not standing_in.chosen
    row = trace.attention("cross", 0, 0)[-1]
    assert (standing_in.query, standing_in.key) == (len(trace) - 1, int(row.argmax()))


def test_weights_that_are_missing_or_of_another_layer_are_asked_for() -> None:
    checkpoint, trace = traced()
    state = state_of(checkpoint, trace, layer=1)

    def wanted(state: State) -> tuple[StackName, int] | None:
        return missing(state.visible, state.selection, state.parameters)

    assert wanted(state) is None
    assert wanted(replace(state, layer=0)) == ("decoder", 0)
    assert wanted(replace(state, kind="encoder")) == ("encoder", 1)
    other = replace(trace.model, digest="other")
    assert state.visible is not None
    foreign = replace(state, visible=replace(state.visible, model=other))
    assert wanted(foreign) == ("decoder", 1)
    elsewhere = replace(trace.model, device="cuda:0")
    assert wanted(replace(state, visible=replace(trace, model=elsewhere))) is None
    assert wanted(State()) is None


def test_stages_without_weights_are_shown_before_these_come() -> None:
    _, trace = traced()
    for stage in STAGES:
        result = picture(stage, looked_at(showing(trace)))
        assert (result == WAITING) == stage.weighs


def test_before_the_first_step_the_encoder_is_shown() -> None:
    checkpoint, trace = traced()
    state = state_of(checkpoint, trace, step=0, kind="encoder")
    for name in stage_names():
        shown(state, name)
    nowhere = Selection(kind="cross", layer=0, head=0)
    assert subject(trace.until(0), nowhere) is None
    assert subject(None, nowhere) is None


def test_a_stage_is_added_by_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    def doubled(cell: Subject) -> StagePicture:
        row = 2 * cell.weights[cell.query][None]
        table = Numbers(
            rows=("2 w",), columns=cell.names("key"), values=row, axis="key"
        )
        return StagePicture(formula="2 w", maps=(), words="doubled", table=table)

    added = Stage("doubled", "2 w", "feed_forward", doubled, weighs=False)
    monkeypatch.setattr(stages, "STAGES", (*STAGES, added))
    _, trace = traced()
    table = shown(showing(trace), "doubled").table
    assert table.values[0] == pytest.approx(2 * trace.attention("cross", 0, 0)[-1])
    assert stages_on("feed_forward")[-1] is added
    assert neighbour("norms", 1) == "doubled" == stage_names()[-1]


def test_masked_scores_do_not_flatten_the_colours() -> None:
    checkpoint, trace = traced()
    scores, _, masked = shown(state_of(checkpoint, trace, kind="decoder"), "mask").maps
    allowed, matrix = trace.mask("decoder", 0), masked.make()
    top = float(np.abs(scores.make().values[allowed]).max())
    assert matrix.values.min() == np.float32(-1e9)
    assert matrix.ends == (words.number(-top, 3), "+" + words.number(top, 3))
    expected = matrix.values[allowed] / (2 * top) + 0.5
    assert matrix.shade[allowed] == pytest.approx(expected, abs=1e-6)
    assert np.ptp(matrix.shade[allowed]) >= 0.5


def test_a_row_that_may_attend_to_nothing_is_said() -> None:
    trace = make_trace(masked_value=-np.inf)
    mask = np.ones((4, 5), bool)
    mask[2] = False
    masks = {**trace.masks, "cross": mask}
    state = showing(replace(trace, masks=masks), locked=AttentionCell("cross", 2, 0))
    assert "NaN" in shown(state, "softmax").words
    assert "−∞" in shown(state, "mask").words


def test_what_each_sublayer_adds_has_size_and_direction() -> None:
    checkpoint, trace = traced()
    state = state_of(checkpoint, trace)
    table = shown(state, "sublayers").table
    x, added, *_ = values(state, "residual")
    at = table.columns.index("|cross|")
    assert table.values[:, at] == pytest.approx(np.linalg.norm(added, axis=1))
    norms = np.linalg.norm(added, axis=1) * np.linalg.norm(x, axis=1)
    assert table.values[:, at + 1] == pytest.approx((x * added).sum(1) / norms)
    leaves = np.linalg.norm(trace.hidden("decoder", 1), axis=1)
    out = table.values[:, table.columns.index("|x| out")]
    assert out == pytest.approx(leaves, rel=1e-4)


def test_what_sublayers_add_is_compared_on_one_scale() -> None:
    checkpoint, trace = traced()
    picture = shown(state_of(checkpoint, trace), "sublayers")
    sizes, *added = (one.make() for one in picture.maps)
    assert sizes.bars
    assert sizes.columns == ("x in", "self", "cross", "FFN")
    table = picture.table
    names = ("|x| in", "|self|", "|cross|", "|FFN|")
    columns = [table.columns.index(name) for name in names]
    assert sizes.values == pytest.approx(table.values[:, columns])
    assert sizes.shade == pytest.approx(sizes.values / sizes.values.max())
    for one, column in zip(added, sizes.values.T[1:], strict=True):
        assert np.linalg.norm(one.values, axis=1) == pytest.approx(column, rel=1e-5)
    top = max(np.abs(one.values).max() for one in added)
    for one in added:
        assert one.ends == added[0].ends
        assert one.shade == pytest.approx(0.5 + one.values / top / 2, abs=1e-5)


def test_the_norms_words_are_of_the_cells_row_and_of_a_column() -> None:
    checkpoint, trace = traced()
    state = state_of(checkpoint, trace, locked=AttentionCell("cross", 1, 0))
    x = values(state, "norms")[0].astype(np.float64)
    said = shown(state, "norms", model=3).words
    parts = re.findall(r"mean (\S+), deviation ([^\s,;]+)", said)
    found = [[float(number.replace("−", "-")) for number in part] for part in parts]
    for numbers, line in zip(found, (x[1], x[:, 3]), strict=True):
        expected = line.mean(), np.sqrt(line.var() + 1e-5)
        assert numbers == pytest.approx(expected, rel=2e-3, abs=1e-6)


def test_stages_are_walked_and_the_ends_hold() -> None:
    first, last = stage_names()[0], stage_names()[-1]
    assert neighbour(first, -1) == first
    assert neighbour(last, 1) == last
    assert neighbour("residual", 1) == "w1"


@pytest.mark.parametrize(
    "change", ["", "multiply", "causal off", "positions shifted 3"]
)
def test_a_run_is_followed_whatever_is_changed(change: str) -> None:
    """With the same weights and other masks or positions, the output is the run's."""
    checkpoint = tiny_checkpoint()
    trace = Decoding(checkpoint, "abcde", limit=5, intervention=change).finish()
    table = checkpoint.model.position_table("source").numpy()
    for kind in ("encoder", "decoder"):
        state = state_of(checkpoint, trace, kind=kind, layer=1)
        last, own = values(state, "feed_residual")[-1], trace.hidden(kind, 2)
        assert last == pytest.approx(own, abs=2e-5 * max(1, float(np.abs(own).max())))
    state = state_of(
        checkpoint, trace, kind="encoder", opened=opened_model(trace.model, table)
    )
    embedding, position, x, *_ = values(state, "input")
    assert embedding + position == pytest.approx(x, abs=1e-6)
    weight = checkpoint.model.source_embedding.weight.detach().numpy()
    assert embedding == pytest.approx(weight[trace.source_ids] * 4, abs=1e-5)
    first = 3 if "shifted" in change else 0
    assert (position == table[first : first + len(position)]).all()


@pytest.mark.parametrize("kind", ["encoder", "cross"])
def test_one_input_and_three_weights_stand_side_by_side(kind: str) -> None:
    checkpoint, trace = traced()
    state = state_of(checkpoint, trace, kind=kind, layer=1, head=1)
    made = shown(state, "projections")
    assert made.columns == 3
    matrices = [one.make() for one in made.maps]
    for at, part in enumerate(("query", "key", "value")):
        alone = [one.make() for one in shown(state, part).maps]
        for one, other in zip(matrices[3 * at : 3 * at + 3], alone, strict=True):
            assert (one.values == other.values).all()
        x, weight, result = matrices[3 * at : 3 * at + 3]
        assert (x.role, weight.role, result.role) == ("", part, part)
        assert result.row_role == ("query" if part == "query" else "key")
    first = matrices[0].values
    for other in matrices[3::3]:
        same = other.values.shape == first.shape and (other.values == first).all()
        assert same == (kind == "encoder")
    assert ("encoder's output" in made.formula) == (kind == "cross")
    assert made.table.rows == ("q", "k", "v")


def test_the_feed_forward_network_names_no_cell() -> None:
    state = state_of(*traced(), locked=AttentionCell("cross", 1, 0))
    assert heading(looked_at(state), "feed_forward") == ""
    assert "reads" in heading(looked_at(state), "attention")


def test_the_norms_tab_is_named_after_the_models_norm() -> None:
    for norm, title in (("rms", "RMS / batch norm"), ("layer", "layer / batch norm")):
        _checkpoint, trace = traced(norm=norm, norm_bias=norm != "rms")
        assert stages.titles_on("feed_forward", trace, "cross", 0)[-1] == title
