"""The diagram of a model: which blocks are where, and with which numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.existing import existing
from tests.opened import opened_model
from tests.states import showing
from tests.traces import make_trace, with_config
from visformer.pictures.computation.stages import stage_names
from visformer.pictures.diagram.architecture import architecture
from visformer.pictures.diagram.blocks import (
    Counts,
    block_words,
    counts_table,
    goal,
    runs,
)
from visformer.pictures.diagram.columns import Box, Drawing
from visformer.pictures.picture import csv_text
from visformer.session.state import State
from visformer.values.facts import AttentionFacts, BlockParameters, Kind
from visformer.values.trace import Trace


def choosing(trace: Trace, **choices: Any) -> Trace:
    return replace(trace, model=with_config(trace.model, **choices))


def drawn(state: State, **options: Any) -> Drawing:
    return existing(
        architecture(state.visible, state.model, state.selection, **options)
    )


def box(drawing: Drawing, id: str) -> Box:
    found = drawing.box(id)
    assert found is not None, id
    return found


def texts(drawing: Drawing) -> list[str]:
    return [text for box in drawing.boxes for text in (box.title, box.detail) if text]


def test_pre_norm_and_post_norm_differ_in_where_the_norm_stands() -> None:
    trace = make_trace()
    post = drawn(showing(trace))
    pre = drawn(showing(choosing(trace, norm_first=True)))
    for name in ("encoder.0.self_attention", "decoder.0.cross_attention"):
        for drawing, norm_below in ((post, False), (pre, True)):
            norm, sublayer = box(drawing, f"{name}_norm"), box(drawing, name)
            add = box(drawing, f"{name}.add")
            assert add.y < sublayer.y  # lower numbers are higher up, later
            assert (norm.y > sublayer.y) == norm_below
            assert (norm.y > add.y) == norm_below


@pytest.mark.parametrize(
    ("id", "queries", "keys"),
    [
        ("encoder.0.self_attention", 6, 6),
        ("decoder.0.self_attention", 4, 4),
        ("decoder.0.cross_attention", 4, 6),
    ],
)
def test_queries_keys_and_values_have_the_lengths_of_their_sides(
    id: str, queries: int, keys: int
) -> None:
    trace = make_trace(source=6, target=4, heads=2, d_model=8)
    inside = texts(drawn(showing(trace), chosen=id))
    for text in (
        f"Q [{queries}, 8]",
        f"K [{keys}, 8]",
        f"V [{keys}, 8]",
        f"MatMul: Q Kᵀ   [{queries}, {keys}]",
    ):
        assert text in inside


@pytest.mark.parametrize("columns", [60.0, 140.0, 220.0])
@pytest.mark.parametrize("layers", [1, 2, 6, 14])
@pytest.mark.parametrize("norm_first", [False, True])
def test_blocks_lie_inside_and_do_not_overlap(
    columns: float, layers: int, norm_first: bool
) -> None:
    trace = make_trace(layers=layers, decoder_layers=layers + 1)
    trace = choosing(trace, norm_first=norm_first, final_norm=norm_first)
    drawing = drawn(showing(trace), columns=columns, lines=38.0)
    solid = [b for b in drawing.boxes if b.style not in ("frame", "row")]
    for one in solid:
        assert one.x >= 0
        assert one.x + one.width <= drawing.width + 1e-6
        assert one.y >= 0
        assert one.y + one.height <= drawing.height + 1e-6
    blocks = [b for b in solid if b.style not in ("text", "head")]
    for at, one in enumerate(blocks):
        for other in blocks[at + 1 :]:
            across = one.x + one.width > other.x + 1e-6
            across &= other.x + other.width > one.x + 1e-6
            down = one.y + one.height > other.y + 1e-6
            down &= other.y + other.height > one.y + 1e-6
            assert not (across and down), (one.title, other.title)


def test_a_layer_is_opened_and_the_encoder_feeds_every_decoder_layer() -> None:
    drawing = drawn(showing(make_trace(layers=6), layer=2))
    assert drawing.box("encoder.2.feed_forward")
    assert drawing.box("decoder.2")
    assert drawing.box("encoder.1.feed_forward") is None
    thin = [n for n in range(6) if n != 2]
    entries = [
        round(arrow.points[-1][1], 6)
        for arrow in drawing.arrows
        if arrow.line == "memory" and arrow.head
    ]
    cross = box(drawing, "decoder.2.cross_attention")
    reading = [cross, *(box(drawing, f"decoder.{n}") for n in thin)]
    assert sorted(entries) == sorted(round(b.centre[1], 6) for b in reading)


def test_a_closed_stack_shows_each_layer_alone() -> None:
    state = showing(make_trace(layers=6))
    drawing = drawn(state, closed=frozenset({"encoder"}))
    assert all(drawing.box(f"encoder.{n}") for n in range(6))
    assert drawing.box("encoder.0.self_attention") is None
    assert drawing.box("decoder.0.self_attention") is not None


def test_many_layers_share_boxes_and_none_is_left_out() -> None:
    for count in (1, 8, 9, 40):
        for opened in (-1, 0, count // 2, count - 1):
            made = list(runs(count, opened))
            layers = [n for first, last in made for n in range(first, last + 1)]
            assert layers == list(range(count))
            assert len(made) <= 9
            if opened >= 0:
                assert (opened, opened) in made


def test_shapes_are_those_of_the_sentence_at_the_step() -> None:
    trace = make_trace(source=5, target=4, d_model=8)
    at_two = texts(drawn(showing(trace, 2)))
    assert "[5, 8]" in at_two
    assert "[2, 8]" in at_two
    assert "[2, 50] logits" in at_two
    assert "[5] source tokens" in at_two
    assert "[2] target tokens" in at_two
    assert not any("[4, 8]" in words for words in at_two)
    unread = texts(drawn(State(opened=opened_model(trace.model))))
    assert "[S, 8]" in unread
    assert "[T, 50] logits" in unread


def test_the_step_moves_what_is_emphasised() -> None:
    trace = make_trace(target=4)
    start = drawn(showing(trace, 0))
    assert box(start, "encoder.0.self_attention").strong
    assert not box(start, "output").strong
    assert not start.path
    first, third = (drawn(showing(trace, n)) for n in (1, 3))
    assert box(first, "output").strong
    assert first.path
    assert not box(first, "encoder.0.self_attention").strong
    for drawing, step in ((first, 1), (third, 3)):
        tokens = [b for b in drawing.boxes if b.style == "token" and not b.id]
        newest = [b.title for b in tokens if b.strong]
        assert newest == [("<s>", "t0", "t1")[step - 1]]
        assert f"“t{step - 1}”" in box(drawing, "prediction").title
    assert first.sentence != third.sentence


def test_parameters_are_the_models_own_and_sum() -> None:
    parts = (
        BlockParameters("target_embedding", 400),
        BlockParameters("source_embedding", 0, "target_embedding"),
        BlockParameters("encoder.0.self_attention", 100),
        BlockParameters("encoder.0.self_attention_norm", 16),
        BlockParameters("encoder.1.self_attention", 100),
        BlockParameters("decoder.0.feed_forward", 300),
        BlockParameters("output", 84, "target_embedding"),
    )
    trace = replace(make_trace(), model=replace(make_trace().model, blocks=parts))
    drawing = drawn(showing(trace))
    assert box(drawing, "encoder.0.self_attention").detail == "100"
    assert box(drawing, "encoder.0").detail == "116"
    assert box(drawing, "encoder.1").detail == "100"
    assert box(drawing, "source_embedding").detail == "shared"
    inside = " ".join(texts(drawn(showing(trace), chosen="output")))
    assert "84 parameters and those shared with the target embedding" in inside
    unknown = drawn(showing(make_trace()))
    assert box(unknown, "encoder.0").detail == ""


def test_blocks_are_listed_with_layers_from_one() -> None:
    parts = (
        BlockParameters("encoder.0.self_attention", 100),
        BlockParameters("output", 84, "target_embedding"),
    )
    trace = replace(make_trace(), model=replace(make_trace().model, blocks=parts))
    table = existing(counts_table(trace.model))
    assert csv_text(table).splitlines() == [
        '"block","parameters","shared with"',
        '"encoder layer 1 self-attention",100,""',
        '"output",84,"target embedding"',
    ]


@pytest.mark.parametrize(
    ("id", "words"),
    [
        ("encoder.1", "encoder layer 2"),
        ("decoder.0.cross_attention_norm", "decoder layer 1 cross-attention norm"),
        ("encoder.2.my_adapter", "encoder layer 3 my adapter"),
        ("tower.0.mixer", "tower 0 mixer"),  # of a file, not of our models
        ("decoder.norm", "decoder norm"),
        ("", ""),
    ],
)
def test_every_block_has_a_name_in_lists(id: str, words: str) -> None:
    assert block_words(id) == words


@pytest.mark.parametrize(
    ("own", "owner", "words"),
    [
        (1, "", "1 parameter"),
        (1234, "", "1,234 parameters"),
        (0, "target_embedding", "parameters shared with the target embedding"),
        (
            *(1, "target_embedding"),
            "1 parameter and those shared with the target embedding",
        ),
    ],
)
def test_a_blocks_parameters_in_words(own: int, owner: str, words: str) -> None:
    facts = replace(make_trace().model, blocks=(BlockParameters("x", own, owner),))
    assert Counts(facts).words("x") == words


def test_rows_of_the_predictions_count_from_one() -> None:
    trace = make_trace(target=18)
    drawing = drawn(showing(trace), chosen="softmax")
    inside = texts(drawing)
    assert "… rows 1 to 2" in inside
    assert any(words.startswith("row 3 “t1” → ") for words in inside)
    assert "tokens 1 to 18" in [b.detail for b in drawing.boxes]
    assert "row 18 of the probabilities" in inside


def test_an_old_recording_takes_the_counts_of_the_same_model() -> None:
    trace = replace(make_trace(), model=replace(make_trace().model, digest="abc"))
    opened = replace(trace.model, blocks=(BlockParameters("encoder.1.x", 7),))
    assert (
        box(drawn(showing(trace, opened=opened_model(opened))), "encoder.1").detail
        == "7"
    )
    other = replace(opened, digest="abd")
    assert (
        box(drawn(showing(trace, opened=opened_model(other))), "encoder.1").detail == ""
    )


def test_where_the_blocks_lead() -> None:
    assert goal("decoder.1.cross_attention") == {
        "tab": "attention",
        "kind": "cross",
        "layer": 1,
    }
    assert goal("encoder.0.self_attention.mask")["tab"] == "masks"
    assert goal("target_positions") == {"tab": "positions"}
    assert goal("decoder.1") == {"kind": "decoder", "layer": 1}
    for block in ("output", "softmax", "decoder.norm"):
        assert goal(block) == {"tab": "output"}
    assert goal("encoder.norm") == {}
    assert goal("decoder.0.cross_attention_norm")["stage"] == "residual"
    assert goal("encoder.0.feed_forward") == {
        "tab": "computation",
        "stage": "activation",
        "kind": "encoder",
        "layer": 0,
    }
    for id in ("decoder.0.feed_forward.add", "encoder.0.self_attention_norm"):
        assert goal(id)["stage"] in stage_names()


def test_the_inside_of_attention_is_both_of_the_papers_figures() -> None:
    trace = make_trace(source=5, target=3, heads=2, d_model=8)
    drawing = drawn(showing(trace), chosen="decoder.1.self_attention")
    inside = [b.title for b in drawing.boxes if b.x >= drawing.beside]
    for word in ("Linear W_Q", "Linear W_K", "Linear W_V", "Concat", "SoftMax", "Mask"):
        assert any(word in title for title in inside), word
    assert any("Scale" in title and "0.5" in title for title in inside)  # 1 / sqrt(4)
    assert sum("MatMul" in title for title in inside) == 2


@pytest.mark.parametrize(
    ("choices", "formula"),
    [
        ({}, "y = (x − mean) / √(variance + ε) · weight + bias"),
        ({"norm_bias": False}, "y = (x − mean) / √(variance + ε) · weight"),
        ({"norm": "rms", "norm_bias": False}, "y = x / √(mean of x² + ε) · weight"),
    ],
)
def test_the_inside_of_a_norm_is_the_models_formula(
    choices: dict[str, Any], formula: str
) -> None:
    trace = choosing(make_trace(), **choices)
    chosen = "encoder.0.feed_forward_norm"
    inside = texts(drawn(showing(trace), chosen=chosen, columns=250.0))
    assert formula in inside
    assert any("RMSNorm" in text for text in inside) == ("norm" in choices)


def test_the_inside_of_every_block_can_be_drawn() -> None:
    for positions in ("learned", "none"):
        trace = choosing(make_trace(), gated=True, positions=positions)
        for state in (
            showing(trace),
            showing(trace, 0),
            State(opened=opened_model(trace.model)),
        ):
            ids = [b.id for b in drawn(state).boxes if b.id]
            assert len(ids) > 20
            for id in ids:
                drawing = drawn(state, chosen=id)
                assert any(b.x >= drawing.beside for b in drawing.boxes)


def test_no_positions_no_block_for_them() -> None:
    drawing = drawn(showing(choosing(make_trace(), positions="none")))
    assert drawing.box("source_positions") is None
    assert "no positional encoding" in texts(drawing)


def test_softmax_inside_or_outside_the_model() -> None:
    for inside, style in ((True, "block"), (False, "outside")):
        drawing = drawn(showing(choosing(make_trace(), softmax_output=inside)))
        assert box(drawing, "softmax").style == style


def test_every_block_is_reached_by_the_arrow_keys() -> None:
    drawing = drawn(showing(make_trace(layers=3)))
    ids = {b.id for b in drawing.boxes if b.id}
    seen, waiting = set(), [drawing.chosen]
    while waiting:
        here = waiting.pop()
        if here not in seen:
            seen.add(here)
            ways = ((0, 1), (0, -1), (1, 0), (-1, 0))
            waiting += [drawing.walk(here, *way) for way in ways]
    assert seen == ids


def test_a_long_target_shows_its_newest_tokens() -> None:
    trace = make_trace(target=200)
    drawing = drawn(showing(trace))
    tokens = [b for b in drawing.boxes if b.style == "token" and not b.id]
    assert tokens[-1].title == "t198"
    assert len(tokens) < 40
    assert "…" in texts(drawing)


def test_the_attention_that_is_looked_at_is_shown_inside() -> None:
    trace = make_trace()
    parts = {
        "encoder": "encoder.1.self_attention",
        "decoder": "decoder.1.self_attention",
        "cross": "decoder.1.cross_attention",
    }
    for kind, part in parts.items():
        assert drawn(showing(trace, kind=kind, layer=1)).chosen == part
    own: dict[Kind, AttentionFacts] = {"encoder": trace.model.attention["encoder"]}
    alone = replace(trace.model, attention=own)  # it has no other kind
    made = existing(architecture(None, alone, showing(trace, kind="cross").selection))
    assert made.chosen == "encoder.0.self_attention"


def test_without_a_model_there_is_no_diagram() -> None:
    assert architecture(None, None, State().selection) is None


def test_a_layers_blocks_speak_of_its_own_mask() -> None:
    """The second decoder layer may attend to nothing; the first is causal."""
    trace = make_trace(source=3, target=3, masked_value=-1e9)
    own = trace.mask("decoder", 0)
    masks = {**trace.masks, "decoder": np.stack([own, np.zeros_like(own)])}
    state = showing(replace(trace, masks=masks))
    for layer, sums, cells in ((0, "rows sum to 1", 6), (1, "all masked: equal", 0)):
        name = f"decoder.{layer}.self_attention"
        inside = " ".join(texts(drawn(state, chosen=name)))
        assert sums in inside
        inside = " ".join(texts(drawn(state, chosen=f"{name}.mask")))
        assert f"{cells} of 9 cells may attend" in inside
