"""What is said of norms, positions, lenses and NaN follows from the run's arrays."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from tests.general_traces import any_trace
from tests.tiny_models import tiny_checkpoint
from tests.traces import fed, make_trace
from tests.unit.pictures.computed import looked_at, shown, state_of
from visformer.core.checkpoint import Checkpoint
from visformer.core.decoding import Decoding
from visformer.core.lens_rows import read_streams
from visformer.core.side_runs import run_shuffled
from visformer.language import _, ngettext
from visformer.pictures.attention.cell_words import cell_words as attention_cell_words
from visformer.pictures.attention.finder import head_finder
from visformer.pictures.candidates import (
    candidate_table,
    kept_words,
    others_words,
    token_bars,
)
from visformer.pictures.computation.stages import picture, stage_names, stage_of
from visformer.pictures.diagram.architecture import architecture
from visformer.pictures.diagram.model_words import about
from visformer.pictures.output import how_words, rank_words, settled_layer
from visformer.pictures.position_lab import result_words, shuffle_words
from visformer.pictures.selection import DEFAULT_LOOK, AttentionCell, Selection
from visformer.pictures.words.explanations import explanation
from visformer.pictures.words.modified_run import Score
from visformer.pictures.words.scene import Scene
from visformer.session.state import State
from visformer.values.arrays import Floats
from visformer.values.changes.position_change import adds_positions
from visformer.values.intervention import Intervention, parse
from visformer.values.step import GREEDY, LensRows
from visformer.values.trace import Trace
from visformer.words import probability

HEAD = Selection(kind="cross", layer=0, head=0)


def decoded(change: str = "", text: str = "abc", **sizes: Any) -> tuple[Any, Trace]:
    checkpoint = tiny_checkpoint(**sizes)
    changes = parse([change])
    return checkpoint, Decoding(
        checkpoint, text, limit=4, intervention=changes
    ).finish()


def scene(trace: Trace, **fields: Any) -> Scene:
    return replace(Scene(trace=trace, model=trace.model, selection=HEAD), **fields)


def all_words(trace: Trace, block: str) -> str:
    """Return every word of the diagram with a block's inside shown."""
    drawn = architecture(trace, None, HEAD, chosen=block)
    assert drawn is not None
    said = (" ".join((box.title, box.detail, box.words)) for box in drawn.boxes)
    return " ".join(" ".join(said).split())


def stage_words(state: State, stage: str) -> str:
    made = picture(stage_of(stage), looked_at(state))
    return made if isinstance(made, str) else f"{made.formula} {made.words}"


# ---- positions -------------------------------------------------------------------


def added(checkpoint: Checkpoint, trace: Trace) -> Floats:
    """Return what entered the encoder beside the embeddings, [S, D]."""
    table = checkpoint.model.source_embedding.weight.detach().numpy()
    scale = np.sqrt(np.float32(16)) if checkpoint.config.embedding_scale else 1
    rows: Floats = trace.hidden("encoder", 0) - scale * table[trace.source_ids]
    return rows


@pytest.mark.parametrize("embedding_scale", [True, False])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "none"])
@pytest.mark.parametrize(
    "change",
    [
        *("", "positions none", "positions scaled 0", "positions shifted 3"),
        *("positions interleaved", "positions constant 2", "causal off"),
    ],
)
def test_a_position_is_added_where_it_is_said_to_be(
    change: str, positions: str, embedding_scale: bool
) -> None:
    sizes: Any = {"positions": positions, "embedding_scale": embedding_scale}
    checkpoint, trace = decoded(change, **sizes)
    rows = added(checkpoint, trace)
    adds = bool((np.abs(rows) > 1e-5).any())
    assert adds_positions(trace.model, trace.intervention.positions) == adds

    page = explanation(("positions", "input"), scene(trace))
    assert ("no position is added" in page) == (not adds)
    assert ("times √16" in page) == embedding_scale
    own = np.abs(rows - rows[0]).max() > 1e-5 and "shifted" not in change
    assert not own or ("plus its position's row" in page) == ("positions" not in change)

    state = state_of(checkpoint, trace, kind="encoder")
    said = stage_words(state, "input")
    assert ("embedding + position" in said) == adds
    assert ("scaled embedding" in said) == embedding_scale

    said = all_words(trace, "source_positions")
    assert ("no positional encoding" in said) == (not adds or positions == "none")
    if "positions" in change:
        assert f"Changed in this run: {change}" in said


@pytest.mark.parametrize("axis", ["batch", "restart"])
def test_a_row_that_is_not_the_tokens_own_is_not_said_to_be(axis: str) -> None:
    _checkpoint, trace = decoded(position_axis=axis)
    page = explanation(("positions", "input"), scene(trace))
    assert "plus a row of the table" in page
    assert "is added to the token at that position" not in all_words(
        trace, "source_positions"
    )


def test_positions_that_are_not_known_are_not_described() -> None:
    trace = any_trace()
    for page in ("table", "input"):
        assert explanation(("positions", page), scene(trace)) == ""
    nothing = decoded(positions="none")[1]
    assert explanation(("positions", "table"), scene(nothing)) == ""


def test_a_table_that_a_run_was_not_given_is_not_called_its_own() -> None:
    _checkpoint, trace = decoded("positions constant 0")
    said = explanation(("positions", "table"), scene(trace))
    assert said.endswith("Changed in this run: positions constant 0.")


@pytest.mark.parametrize("positions", ["sinusoidal", "none"])
def test_a_lens_begins_with_what_enters_the_first_layer(positions: str) -> None:
    for trace in (decoded(positions=positions)[1], any_trace()):
        assert "Row 0 is what enters the first layer" in how_words(trace.model)
        assert "position" not in how_words(trace.model)


def test_one_of_two_changes_is_not_called_the_cause() -> None:
    _checkpoint, trace = decoded("positions none; hide 2")
    other = replace(trace.until(1), intervention=Intervention())
    said = result_words(trace, other)
    assert said == f"With hide 2; positions none “{other.text}” becomes “{trace.text}”."


@pytest.mark.parametrize(
    ("text", "change", "verdict"),
    [
        ("abcde", "", "the model knows the order"),
        ("abcde", "positions none", "a bag of words"),
        ("abcde", "positions none; hide 1", "other words stand now"),
        ("abcde", "positions none; cell encoder 1 2 off", "other words stand now"),
        ("aaa", "", "the same sentence again"),
    ],
)
def test_a_shuffled_run_says_what_follows_from_it(
    text: str, change: str, verdict: str
) -> None:
    order, plain, shuffled = run_shuffled(
        tiny_checkpoint(), text, [2, 5, 6], intervention=parse([change]), seed=3
    )
    said = shuffle_words(plain, shuffled, order)
    assert verdict in said
    assert ("knows the order" in said) == (verdict == "the model knows the order")


def test_outputs_of_nan_say_nothing_about_order() -> None:
    trace = make_trace()
    broken = replace(trace, encoder_rows=np.full_like(trace.encoder_rows, np.nan))
    other = replace(broken, source=trace.source[::-1])
    said = shuffle_words(broken, other, tuple(range(len(trace.source))))
    assert said.endswith("Outputs that are NaN say nothing about order.")


# ---- norms, scales, masks ---------------------------------------------------------


def stage_said(trace: Trace, stage: str, **fields: Any) -> str:
    return explanation(("computation",), scene(trace, stage=stage, **fields))


def test_how_seldom_a_unit_is_0_is_not_said_of_any_activation() -> None:
    checkpoint = tiny_checkpoint(activation="gelu")
    with torch.no_grad():
        for name, weight in checkpoint.model.named_parameters():
            weight.mul_(100 if name.endswith("w1.weight") else 1)
    trace = Decoding(checkpoint, "abc", limit=4).finish()
    said = stage_words(state_of(checkpoint, trace), "activation")
    found = re.search(r"(\d+) of 32 units are exactly 0", said)
    assert found is not None
    assert int(found[1]) > 4
    assert "almost never" not in said
    assert "rounds to 0" in said


def test_a_layer_that_is_skipped_is_not_said_to_end_with_its_norm() -> None:
    checkpoint, trace = decoded("layer decoder off @ L2")
    state = state_of(checkpoint, trace, kind="decoder", layer=1)
    made = picture(stage_of("feed_residual"), looked_at(state))
    assert not isinstance(made, str)
    assert "Then the stream is changed by layer decoder off @ L2." in made.words
    last, entered = made.maps[-1], trace.hidden("decoder", 1)
    assert last.sign == "→ norm"
    assert np.abs(last.make().values - entered).max() > 0.1
    at = replace(HEAD, kind="decoder", layer=1)
    said = stage_said(trace, "feed_residual", selection=at)
    assert "“layer decoder off @ L2” changes what leaves the layer." in said


@pytest.mark.parametrize("first", [True, False])
def test_a_norm_is_said_to_be_where_the_model_has_it(first: bool) -> None:
    checkpoint, trace = decoded(norm_first=first)
    state = state_of(checkpoint, trace)
    made = picture(stage_of("residual"), looked_at(state))
    assert not isinstance(made, str)
    said = stage_said(trace, "residual")
    assert ("No norm follows" in said) == first == ("without a norm" in made.words)
    titles = [one.make().title for one in made.maps]
    adds = "sublayer(norm(x))" if first else "sublayer(x)"
    assert [title.split(" [")[0] for title in titles][1:3] == [adds, f"x + {adds}"]
    assert ("→ norm" in [one.sign for one in made.maps]) == (not first)


def test_a_norm_over_several_tokens_is_not_said_to_be_of_one() -> None:
    for length in (0, 4):
        _checkpoint, trace = decoded(encoder_norm_length=length)
        encoder = replace(HEAD, kind="encoder")
        said = stage_said(trace, "norms", selection=encoder)
        assert ("several tokens at once" in said) == bool(length)
        assert "over one token's numbers" in stage_said(trace, "norms")  # the decoder's
        said = all_words(trace, "encoder.0.self_attention_norm")
        assert ("applied to 4 rows of D = 16 at once" in said) == bool(length)
        assert ("each row separately" in said) != bool(length)


def test_of_a_model_whose_blocks_are_not_known_only_attention_is_explained() -> None:
    trace = any_trace()
    known = {"product", "scale", "mask", "softmax", "weighted"}
    for stage in stage_names():
        assert bool(stage_said(trace, stage)) == (stage in known)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("", "1 / √8, as"),
        ("scale 0", "times 0: in the paper it would be 1 / √8"),
        ("scale -1", "in the paper it"),
        ("scale off", "not scaled"),
    ],
)
def test_a_scale_claims_nothing_of_the_rows(change: str, words: str) -> None:
    checkpoint, trace = decoded(change)
    said = stage_said(trace, "scale")
    assert words in said
    assert "nearly all" not in said + stage_words(state_of(checkpoint, trace), "scale")
    block = all_words(trace, "decoder.0.cross_attention")
    assert ("1/√8" in block) == (change == "")


@pytest.mark.parametrize("change", ["", "multiply", "masked score -1", "causal off"])
def test_the_weight_of_masked_keys_is_the_runs(change: str) -> None:
    checkpoint, trace = decoded(change)
    state = state_of(checkpoint, trace, kind="decoder")
    formula = stage_words(state, "mask")
    masked = trace.attention("decoder", 0, 0)[~trace.mask("decoder", 0)]
    if not masked.size:
        assert "here it is False nowhere" in formula
    else:
        most = probability(float(masked.max()))
        assert f"the largest weight of a masked key is {most} " in formula


def test_of_equal_heads_none_is_called_the_one_that_reads_most() -> None:
    _checkpoint, trace = decoded("scale 0")
    found = head_finder(trace, HEAD, AttentionCell("cross", 1, 2))
    assert found.done == "most in 4 heads alike: 0.2500"


def test_equal_weights_are_not_called_the_most() -> None:
    _checkpoint, trace = decoded("scale 0")  # each row reads its keys alike
    said = explanation(("attention",), scene(trace))
    assert said == "“k” reads 4 tokens alike (0.2500 each) and no other more."
    decoder = replace(HEAD, kind="decoder", cell=AttentionCell("decoder", 0, 0))
    said = explanation(("attention",), scene(trace, selection=decoder))
    assert said.startswith("“<s>” reads “<s>” most (1.0000)")


# ---- NaN ---------------------------------------------------------------------------


def broken(name: str, value: float) -> tuple[Checkpoint, Trace]:
    """Decode with one weight of the decoder's self-attention overwritten."""
    checkpoint = tiny_checkpoint()
    weights = checkpoint.model.state_dict()
    place = next(key for key in weights if key.startswith("decoder") and name in key)
    with torch.no_grad():
        checkpoint.model.get_parameter(place).fill_(value)
    return checkpoint, Decoding(checkpoint, "abc", limit=4).finish()


def test_rows_of_nan_are_explained_by_what_made_them() -> None:
    checkpoint, trace = broken("self_attention.query.weight", math.nan)
    state = state_of(checkpoint, trace, kind="decoder")
    place, cell = ("attention",), AttentionCell("decoder", 0, 0)
    selection = Selection(kind="decoder", layer=0, head=0, cell=cell)
    assert explanation(place, scene(trace, selection=selection)) == (
        f"The weights of “{trace.target[0]}” are NaN: what it reads most is unknown."
    )
    said = stage_words(state, "softmax")
    assert "The query or a key is not finite" in said
    assert "are NaN" in stage_said(trace, "softmax", selection=selection)
    assert "not finite" in attention_cell_words(trace, selection, DEFAULT_LOOK)
    assert "some rows are NaN" in all_words(trace, "decoder.0.self_attention")


def test_scores_that_overflow_are_not_called_broken_inputs() -> None:
    trace = make_trace()
    rows = trace.decoder_rows * np.float32(1e20)
    memory = trace.memory_rows * np.float32(1e20)
    huge = replace(trace, decoder_rows=rows, memory_rows=memory)
    state = state_of(tiny_checkpoint(), huge)
    looked = looked_at(state)
    assert np.isnan(looked.weights[looked.query]).all()
    assert "The scores of this query overflow float32" in stage_words(state, "softmax")
    assert np.isnan(shown(state, "softmax").table.values[1:]).all()
    for stage in ("scale", "mask", "product", "weighted"):
        stage_words(state, stage)  # numpy warns of nothing


def test_nan_is_neither_zero_nor_infinite() -> None:
    _checkpoint, trace = broken("self_attention.query.weight", math.nan)
    (first, *_tokens, others) = token_bars(trace)
    assert first.words == "“<pad>”, p = NaN"  # it has no rank
    assert math.isnan(others.p)
    assert others_words(candidate_table(trace), 8) == "22 others  NaN"
    nan = Score(tokens=2, agreed=0, total=math.nan)
    assert math.isnan(nan.perplexity)


# ---- lenses and ranks --------------------------------------------------------------


def lens_of(checkpoint: Checkpoint, trace: Trace) -> LensRows:
    chosen = np.array([step.id for step in trace.steps])
    looks = read_streams(checkpoint, trace.streams(range(len(trace))), chosen)
    rows = dict(enumerate(looks))
    return LensRows(of=trace.storage, strategy=GREEDY, rows=rows)


def test_maps_of_layers_are_spoken_of_where_there_are_any() -> None:
    checkpoint, trace = decoded()
    forced = fed(trace, {3: "forced"}, wrong=(3,), id=9)
    for rows, maps in ((None, False), (lens_of(checkpoint, forced), True)):
        said = explanation(("output", "next"), scene(forced, lens=rows))
        assert ("The maps show what each layer would have said." in said) == maps
        assert "forced: “w” 0.0300" in said
    said = explanation(("output", "next"), scene(any_trace()))
    assert "map" not in said


def test_a_probability_of_nan_has_no_rank() -> None:
    checkpoint, trace = broken("self_attention.query.weight", math.nan)
    rows = lens_of(checkpoint, trace)
    assert rank_words(trace, rows).count("–") == 2  # after both layers
    assert settled_layer(trace, rows) is None
    said = explanation(("output", "next"), scene(trace, lens=rows))
    assert "is the best from layer" not in said
    assert "all probabilities are NaN" in said


# ---- counts and numbers ------------------------------------------------------------


def test_a_token_that_is_not_of_the_best_is_not_counted_among_them() -> None:
    trace = make_trace(target=4)
    forced = fed(trace, {3: "forced"}, wrong=(3,))
    for run in (trace, forced):
        assert "keeps the best 5 of 50" in kept_words(candidate_table(run))


def test_the_counts_of_blocks_add_up_to_the_models_parameters() -> None:
    config = tiny_checkpoint(tied_output=True, output_bias=True)
    trace = Decoding(config, "abc", limit=2).finish()
    (words,) = [said for said in about(trace.model) if "embeddings" in said]
    assert words.endswith("output 30 and shared")
    total, *parts = (int(n.replace(",", "")) for n in re.findall(r"[\d,]*\d", words))
    assert sum(parts) == total


def test_every_sentence_has_one_minus_sign() -> None:
    assert _("differ by {x:.2g}", x=2e-6) == "differ by 2e−06"
    assert ngettext("{n} at {x:g}", "{n} at {x:g}", 2, x=-math.inf) == "2 at −∞"
    assert _("eps={x}", x=1e-6) == "eps=1e-06"  # it may be typed
