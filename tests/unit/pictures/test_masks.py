from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.traces import make_trace, with_config
from visformer.pictures.attention.maps import labels
from visformer.pictures.masks import (
    PARTS,
    attends_to_nothing,
    batch_examples,
    batch_table,
    cell_words,
    chosen,
    false_words,
    mask_picture,
    note,
    nothing_words,
    part_mask,
    row_name,
    surprise,
)
from visformer.values.arrays import Bools
from visformer.values.facts import KINDS, Kind
from visformer.values.trace import Trace
from visformer.words import masked_value_text

RULE = "attend. It is True exactly where both other masks are."


def padded(source_pads: int = 2, target_pads: int = 1, **model: Any) -> Trace:
    """Build 5 source and 4 target tokens, the last few of them pads, masked by rule."""
    trace = make_trace(source=5, target=4)
    facts = with_config(trace.model, **model)
    source = np.array([7] * (5 - source_pads) + [facts.pad] * source_pads)
    target = np.array([7] * (4 - target_pads) + [facts.pad] * target_pads)
    return replace(
        trace,
        model=facts,
        source_text="I have a cat.",
        source=("a", "b", "c", "d", "e"),
        target=("w", "x", "y", "z"),
        source_ids=source,
        target_ids=target,
        masks={
            "encoder": np.broadcast_to(source != facts.pad, (5, 5)),
            "decoder": np.tril(np.ones((4, 4), bool)) & (target != facts.pad),
            "cross": np.broadcast_to(source != facts.pad, (4, 5)),
        },
    )


def with_mask(trace: Trace, kind: Kind, cells: dict[tuple[int, int], bool]) -> Trace:
    mask = trace.mask(kind, 0).copy()
    for cell, allowed in cells.items():
        mask[cell] = allowed
    return replace(trace, masks={**trace.masks, kind: mask})


def test_padding_hides_pad_keys_from_every_query() -> None:
    trace = padded()
    assert part_mask(trace, "encoder", "padding", 0).tolist() == [[1, 1, 1, 0, 0]] * 5
    assert part_mask(trace, "decoder", "padding", 0).tolist() == [[1, 1, 1, 0]] * 4
    assert part_mask(trace, "cross", "padding", 0).tolist() == [[1, 1, 1, 0, 0]] * 4


def test_only_the_decoder_is_causal() -> None:
    trace = padded()
    lower = [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]
    assert part_mask(trace, "decoder", "causal", 0).tolist() == lower
    assert part_mask(trace, "encoder", "causal", 0).all()
    assert "every query may attend to every key" in note(trace, "cross", "causal", 0, 0)


def test_a_combined_mask_by_rule_is_no_surprise() -> None:
    trace = padded()
    assert note(trace, "encoder", "combined", 0, 0) == f"15 of 25 cells may {RULE}"
    assert note(trace, "decoder", "combined", 0, 0) == f"9 of 16 cells may {RULE}"
    assert "2 keys are padding" in note(trace, "cross", "padding", 0, 0)
    assert "1 key is padding" in note(trace, "decoder", "padding", 0, 0)
    assert "No key is padding" in note(padded(0), "cross", "padding", 0, 0)


@pytest.mark.parametrize(
    ("kind", "cell", "words"),
    [
        ("encoder", (1, 4), "lets query “b” (token 2) attend to pad “e” (token 5)"),
        (
            "decoder",
            (0, 2),
            "lets query “w” (token 1) attend to “y” (token 3), a later token",
        ),
        ("cross", (3, 0), "hides “a” (token 1) from query “t3” (token 5)"),
    ],
)
def test_a_cell_against_the_rules_is_named(
    kind: Kind, cell: tuple[int, int], words: str
) -> None:
    said = surprise(with_mask(padded(), kind, {cell: kind != "cross"}), kind, 0)
    assert "in 1 cell:" in said
    assert words in said


def test_a_row_that_may_attend_to_nothing_gets_equal_weights_or_nan() -> None:
    masked = {(2, key): False for key in range(4)}
    finite = with_mask(padded(masked_value=-1e9), "decoder", masked)
    assert attends_to_nothing(finite, "decoder", 0) == (2,)
    assert "the same weight, 0.25" in nothing_words(finite, "decoder", 0, 0)
    assert "may attend to nothing" in note(finite, "decoder", "combined", 0, 0)
    infinite = with_mask(padded(masked_value=-np.inf), "decoder", masked)
    assert "NaN" in nothing_words(infinite, "decoder", 0, 0)
    assert attends_to_nothing(finite, "encoder", 0) == ()
    assert nothing_words(finite, "encoder", 0, 0) == ""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", PARTS)
def test_a_picture_is_its_mask(kind: Any, part: Any) -> None:
    trace = padded()
    picture = mask_picture(trace, kind, part, 0)
    assert (picture.values == part_mask(trace, kind, part, 0)).all()
    assert (picture.shade == picture.values).all()
    assert picture.ends == ("False", "True")
    hidden = picture.values == 0
    if hidden.any():
        assert picture.masked is not None
        assert (picture.masked == hidden).all()
    else:
        assert picture.masked is None
    assert (picture.rows, picture.columns) == labels(trace, kind)
    assert picture.values.dtype == np.float32


def test_nothing_decoded_yet_is_legal() -> None:
    trace = padded().until(0)
    assert mask_picture(trace, "decoder", "causal", 0).values.shape == (0, 0)
    assert "Nothing is decoded yet" in note(trace, "cross", "combined", 0, 0)
    assert batch_table((trace,), "target").ids.shape == (1, 0)


def test_a_batch_is_a_table_with_its_pads_marked() -> None:
    table = batch_table((padded(2), padded(0)), "source")
    assert table.pads.tolist() == [[0, 0, 0, 1, 1], [0] * 5]
    assert "2 of 10" in table.summary
    assert table.tokens[1] == ("a", "b", "c", "d", "e")
    assert row_name(padded(1), 2) == "3: I have a cat. (1 pad in the source)"


def test_the_row_is_chosen_inside_the_batch() -> None:
    one, two = padded(2), padded(0)
    assert chosen((one, two), one, 1) is two
    assert chosen((one, two), one, 9) is two
    assert chosen((), one, 3) is one
    assert chosen((), None, 0) is None


def test_the_masked_score_is_the_models_own() -> None:
    assert [masked_value_text(f) for f in (-1e9, -1e6, -np.inf)] == [
        "−1e9",
        "−1e6",
        "−∞",
    ]
    assert "replaced by −1e9 before" in false_words(padded(masked_value=-1e9))


def test_a_cell_is_said_with_its_reason() -> None:
    trace = padded()
    words = cell_words(trace, "decoder", 0, 0, 3)
    assert words == (
        "decoder self, layer 1: query “w” (token 1) may not attend to key “z” (token 4)"
        ": the key is padding and comes after the query."
    )
    assert cell_words(trace, "cross", 0, 1, 0).endswith("key “a” (token 1).")
    leak = with_mask(trace, "encoder", {(0, 4): True, (0, 0): False})
    assert "may attend to key “e” (token 5), although the key is padding." in (
        cell_words(leak, "encoder", 0, 0, 4)
    )
    assert "it is hidden" in cell_words(leak, "encoder", 0, 0, 0)


def test_each_side_has_its_own_pad_id() -> None:
    trace = make_trace(source=4, target=3)
    ids = trace.source_ids.copy()
    ids[3] = 77
    model = replace(trace.model, source_pad=77)
    trace = replace(trace, model=model, source_ids=ids)
    for kind in ("encoder", "cross"):
        assert not part_mask(trace, kind, "padding", 0)[:, 3].any()
    assert part_mask(trace, "decoder", "padding", 0).all()
    assert batch_table((trace,), "source").pads.tolist() == [[False] * 3 + [True]]
    assert "(1 pad in the source)" in row_name(trace, 0)


def by_layer(mask: Bools, *, masked_value: float = -1e9) -> Trace:
    """Build a Trace of 3 target tokens whose second layer has another decoder mask."""
    trace = make_trace(source=3, target=3, masked_value=masked_value)
    own = trace.mask("decoder", 0)
    return replace(trace, masks={**trace.masks, "decoder": np.stack([own, mask])})


def test_each_layer_has_its_own_picture_and_words() -> None:
    """As ``causal off @ L2`` leaves the masks."""
    trace = by_layer(np.ones((3, 3), bool))
    first, second = (mask_picture(trace, "decoder", "combined", at) for at in (0, 1))
    assert first.title == "decoder self, layer 1: combined mask"
    assert second.title == "decoder self, layer 2: combined mask"
    assert first.values.tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert second.values.all()
    assert first.masked is not None
    assert first.masked.sum() == 3
    assert second.masked is None
    assert note(trace, "decoder", "combined", 0, 0) == f"6 of 9 cells may {RULE}"
    said = note(trace, "decoder", "combined", 1, 0)
    assert said.startswith(
        "9 of 9 cells may attend. Differs from padding and causal mask in 3 cells"
    )
    assert "may not attend" in cell_words(trace, "decoder", 0, 0, 2)
    assert cell_words(trace, "decoder", 1, 0, 2) == (
        "decoder self, layer 2: query “<s>” (token 1) may attend to key “t1” (token 3)"
        ", although the key comes after the query."
    )
    for layer in (0, 1):  # what is derived from the ids is the same for every layer
        causal = mask_picture(trace, "decoder", "causal", layer)
        assert causal.title == "decoder self: causal mask"
        assert causal.values.sum() == 6


def test_the_weights_quoted_are_of_the_layer_and_head() -> None:
    mask = np.tri(3, dtype=bool)
    mask[1] = False
    trace = by_layer(mask)
    marked = np.zeros((2, 2, 3, 3), np.float32)  # layer, head
    marked[1, 1, 1] = np.nan
    trace = replace(trace, own_weights=lambda kind, layer, head: marked[layer, head])
    assert nothing_words(trace, "decoder", 0, 1) == ""
    assert "gets the same weight, 0." in nothing_words(trace, "decoder", 1, 0)
    assert "NaN" in nothing_words(trace, "decoder", 1, 1)
    assert "NaN" in note(trace, "decoder", "combined", 1, 1)


@pytest.mark.parametrize(
    ("sentence", "examples"),
    [
        ("It was too tired.", ("It was too tired.", "It was", "It")),
        ("5 9 7 8 6 4", ("5 9 7 8 6 4", "5 9 7", "5 9")),
        ("attention", ("attention", "atten", "at")),
        ("我有一只猫。", ("我有一只猫。", "我有一", "我有")),
        ("a", ("a",)),
        ("", ("",)),
    ],
)
def test_a_batch_begins_with_what_its_model_can_read(
    sentence: str, examples: tuple[str, ...]
) -> None:
    assert batch_examples(sentence) == examples
