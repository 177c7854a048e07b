from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.bench.random_trace import EOS, PAD
from tests.existing import existing
from tests.states import showing
from tests.traces import grown, make_trace
from tests.unit.pictures.test_maps import by_hand, looked
from visformer.pictures.attention import reading as summaries
from visformer.pictures.attention.cell_words import cell_words
from visformer.pictures.attention.maps import Marks
from visformer.pictures.attention.reading import (
    Reading,
    attention_map,
    move,
    reading,
    shown_marks,
)
from visformer.pictures.attention.strips import source_strip
from visformer.pictures.attention.token_groups import hidden_tokens
from visformer.pictures.picture import saved_labels
from visformer.pictures.selection import DEFAULT_LOOK, AttentionCell, Look
from visformer.session.state import State
from visformer.values.attention_heads import running_rollout
from visformer.values.facts import KINDS, Kind
from visformer.values.trace import Trace

SOURCE = ("▁the", "▁ti", "red", "▁cat", ".", "</s>")
TARGET = ("<s>", "▁cha", "t", ",", "▁las")
ALL = Look(hide=frozenset({"special", "pad", "punctuation"}), words=True)


def sentence(**changes: Any) -> Trace:
    """Six source and five target tokens with words, punctuation, ends."""
    trace = make_trace(source=6, target=5)
    steps = [
        replace(step, token=token)
        for step, token in zip(trace.steps, (*TARGET[1:], "▁."), strict=True)
    ]
    ids = np.array([10, 11, 12, 13, 14, EOS], np.int64)
    made = replace(
        trace, source=SOURCE, source_ids=ids, target=TARGET, steps=tuple(steps)
    )
    return replace(made, **changes)


def read(trace: Trace, kind: Kind, look: Look, **changes: Any) -> Reading:
    return existing(reading(*looked(showing(trace, look=look, **changes)), kind))


@pytest.mark.parametrize("kind", KINDS)
def test_the_default_is_one_head_untouched(kind: Kind) -> None:
    trace = sentence()
    shown = read(trace, kind, DEFAULT_LOOK, layer=1, head=1)
    assert np.allclose(shown.values, trace.attention(kind, 1, 1), atol=1e-6)
    assert shown.done == ""
    assert shown.title.endswith("layer 2, head 2")
    assert shown.cell(1, 0) == AttentionCell(kind, 1, 0)
    picture = existing(attention_map(*looked(showing(trace)), kind))
    assert picture.done == ""


@pytest.mark.parametrize("kind", KINDS)
def test_summaries_are_those_of_plain_numpy(kind: Kind) -> None:
    trace = sentence()
    heads = trace.attention(kind, 1)
    both = np.stack([trace.attention(kind, layer) for layer in range(2)])
    expected = {
        "mean": (heads.mean(0), "mean of 2 heads"),
        "max": (heads.max(0), "maximum of 2 heads"),
        "all": (both.mean((0, 1)), "mean of 2 layers × 2 heads"),
    }
    for name, (values, words) in expected.items():
        shown = read(trace, kind, Look(summary=name), layer=1)  # type: ignore[arg-type]
        assert np.allclose(shown.values, values, atol=1e-6)
        assert shown.done.startswith(words)


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_rollout_goes_up_to_the_chosen_layer(kind: Kind) -> None:
    trace = sentence()
    means = [trace.attention(kind, layer).mean(0) for layer in range(2)]
    for layer in range(2):
        shown = read(trace, kind, Look(summary="rollout"), layer=layer)
        expected = list(running_rollout(means[: layer + 1]))[-1]
        assert np.allclose(shown.values, expected, atol=1e-6)
        assert shown.title.endswith(f"layers 1 to {layer + 1}")
        assert "0.5 A + 0.5 I" in shown.done


def test_rollout_of_cross_reads_through_the_encoder_and_says_so() -> None:
    trace = sentence()
    means = [trace.attention("encoder", layer).mean(0) for layer in range(2)]
    expected = trace.attention("cross", 0).mean(0) @ list(running_rollout(means))[-1]
    shown = read(trace, "cross", Look(summary="rollout"), layer=0)
    assert np.allclose(shown.values, expected, atol=1e-6)
    assert "times the rollout of the whole encoder" in shown.done


def test_a_summary_follows_the_steps() -> None:
    traces = grown(sentence())
    for trace in (*traces, *reversed(traces)):
        shown = read(trace, "decoder", Look(summary="mean"))
        expected = trace.attention("decoder", 0).mean(0)
        assert np.allclose(shown.values, expected, atol=1e-6)


def test_hidden_tokens_are_told_by_their_ids() -> None:
    found = hidden_tokens(sentence(), "source")
    assert found == {"special": {5}, "pad": set(), "punctuation": {4}}
    padded = sentence(source_ids=np.array([10, 11, EOS, PAD, PAD, PAD], np.int64))
    assert hidden_tokens(padded, "source")["pad"] == {3, 4, 5}


def test_a_target_that_begins_with_the_pad_begins_with_a_special_token() -> None:
    trace = sentence(target_ids=np.array([PAD, 7, PAD, 8, 9], np.int64))
    model = replace(trace.model, bos=PAD)
    found = hidden_tokens(replace(trace, model=model), "target")
    assert found["special"] == {0}
    assert found["pad"] == {2}


def test_hiding_keeps_the_numbers_and_says_that_rows_are_not_renormalised() -> None:
    trace = sentence()
    shown = read(trace, "encoder", Look(hide=frozenset({"special", "punctuation"})))
    weights = trace.attention("encoder", 0, 0)
    assert np.allclose(shown.values, weights[:4, :4], atol=1e-6)
    assert shown.columns == ("the", "ti", "red", "cat")
    assert saved_labels(shown.columns) == ("▁the", "▁ti", "red", "▁cat")
    assert shown.done == "special tokens, punctuation hidden, not renormalised"


def test_renormalised_rows_sum_to_one() -> None:
    look = Look(hide=frozenset({"special"}), renormalise=True)
    shown = read(sentence(), "cross", look)
    assert np.allclose(shown.values.sum(1), 1, atol=1e-6)
    assert shown.done == "special tokens hidden, renormalised"


def test_a_row_goes_where_the_token_that_names_it_is_hidden() -> None:
    look = Look(hide=frozenset({"special", "punctuation"}))
    shown = read(sentence(), "decoder", look)
    assert shown.rows == shown.columns == ("cha", "t", "las")
    cross = read(sentence(), "cross", look)  # <s> writes "cha", "," writes "las"
    assert cross.rows == ("cha", "t", "las")
    assert cross.cell(2, 0) == AttentionCell("cross", 3, 0)
    weights = sentence().attention("cross", 0, 0)
    assert np.allclose(cross.values, weights[[0, 1, 3], :4], atol=1e-6)


def test_words_sum_keys_average_queries_and_keep_rows_at_one() -> None:
    trace = sentence()
    shown = read(trace, "cross", Look(words=True))
    weights = trace.attention("cross", 0, 0)
    assert shown.columns == ("the", "tired", "cat", ".", "</s>")
    assert shown.rows == ("chat", ",", "las", ".")  # by what is written there
    expected = weights[:2, 1:3].sum(1).mean()
    assert shown.values[0, 1] == pytest.approx(expected, abs=1e-6)
    assert np.allclose(shown.values.sum(1), 1, atol=1e-6)
    assert shown.done == "subwords merged: keys summed, queries averaged"


def test_a_masked_block_is_masked_where_all_of_it_is() -> None:
    shown = read(sentence(), "decoder", Look(words=True))
    assert shown.masked is not None
    assert shown.masked.tolist() == np.triu(np.ones((4, 4), bool), 1).tolist()


def test_of_layers_that_differ_what_none_may_attend_to_is_masked() -> None:
    trace, layers = sentence(), np.ones((2, 5, 6), bool)
    layers[0, 1, 2] = layers[0, 3, 4] = layers[1, 3, 4] = False
    trace = replace(trace, masks={**trace.masks, "cross": layers})
    every = read(trace, "cross", Look(summary="all")).masked
    one = read(trace, "cross", Look(summary="mean")).masked
    assert every is not None
    assert one is not None
    assert np.argwhere(every).tolist() == [[3, 4]]
    assert np.argwhere(one).tolist() == [[1, 2], [3, 4]]


def test_a_rollout_masks_what_no_layer_up_to_the_chosen_one_may_attend_to() -> None:
    trace, layers = sentence(), np.ones((2, 6, 6), bool)
    layers[0, 1, 2] = layers[0, 3, 4] = layers[1, 3, 4] = layers[1, 5, 0] = False
    trace = replace(trace, masks={**trace.masks, "encoder": layers})
    expected = [[[1, 2], [3, 4]], [[3, 4]]]
    for layer in range(2):
        masked = existing(
            read(trace, "encoder", Look(summary="rollout"), layer=layer).masked
        )
        assert np.argwhere(masked).tolist() == expected[layer]


def test_a_row_of_nan_stays_one() -> None:
    mask = np.ones((5, 6), bool)
    mask[2] = False
    trace = sentence()
    trace = replace(trace, masks={**trace.masks, "cross": mask})
    for summary in ("head", "mean", "max", "all", "rollout"):
        look = replace(ALL, renormalise=True, summary=summary)
        nan = np.isnan(read(trace, "cross", look).values)
        # rows: chat, las; "," is hidden, which the row that reads nothing writes
        assert not nan.any()
        nan = np.isnan(read(trace, "cross", replace(look, hide=frozenset())).values)
        assert nan.all(1).tolist() == [False, True, False, False]
        assert nan.any(1).tolist() == nan.all(1).tolist()


def test_cells_and_words_are_found_in_each_other() -> None:
    shown = read(sentence(), "cross", ALL)
    assert shown.columns == ("the", "tired", "cat")
    assert shown.rows == ("chat", "las")
    assert shown.cell(0, 1) == AttentionCell("cross", 0, 1)
    assert shown.cell(1, 1) == AttentionCell("cross", 3, 1)
    assert shown.cell_in_matrix(AttentionCell("cross", 1, 2)) == (0, 1)
    assert shown.cell_in_matrix(AttentionCell("cross", 2, 2)) is None
    assert shown.cell_in_matrix(AttentionCell("cross", 1, 5)) is None
    assert shown.columns_of((1, 2, 5)) == (1,)


def test_marks_are_those_of_the_whole_word() -> None:
    look_at = showing(sentence(), look=ALL, locked=AttentionCell("cross", 3, 2))
    cross, encoder = (
        existing(reading(*looked(look_at), "cross")),
        existing(reading(*looked(look_at), "encoder")),
    )
    assert shown_marks(cross, look_at.cell) == Marks((1, 1), (1,), (1,))
    assert shown_marks(encoder, look_at.cell) == Marks(None, (1,), (1,))


def test_moving_skips_what_is_hidden_and_stops_at_the_edge() -> None:
    hiding, plain = looked(showing(sentence(), look=ALL)), looked(showing(sentence()))
    for shown, place, by, to in (
        (hiding, (0, 2), (0, 1), (0, 3)),
        (hiding, (0, 3), (0, 1), (0, 3)),
        (hiding, (0, 5), (0, -1), (0, 1)),
        (plain, (0, 0), (2, 9), (2, 5)),
    ):
        moved = move(*shown, AttentionCell("cross", *place), by)
        assert moved == AttentionCell("cross", *to)


def test_the_partner_is_the_strongest() -> None:
    shown = read(by_hand(), "cross", DEFAULT_LOOK)
    assert shown.partner("query", 0) == (0, 0)
    assert shown.partner("key", 1) == (0, 1)


def test_the_status_line_says_what_was_done() -> None:
    look = replace(ALL, summary="mean", renormalise=True)
    words = cell_words(
        *looked(showing(sentence(), look=look, locked=AttentionCell("cross", 1, 1)))
    )
    assert words.startswith("cross · layer 1 · “chat” reads “tired”: 0.")
    assert words.endswith(
        "(mean of 2 heads; special tokens, pads, punctuation hidden, "
        "renormalised; subwords merged: keys summed, queries averaged)"
    )
    hidden = cell_words(
        *looked(showing(sentence(), look=look, locked=AttentionCell("cross", 1, 5)))
    )
    assert "hidden (" in hidden


def test_the_strip_is_tinted_by_what_is_shown() -> None:
    shown = showing(sentence(), look=ALL, locked=AttentionCell("cross", 1, 0))
    row = read(sentence(), "cross", ALL).values[0]
    chips = source_strip(*looked(shown))
    tints = [chip.tint for chip in chips]
    assert tints == pytest.approx([row[0], row[1], row[1], row[2], 0, 0])
    assert "subwords merged" in chips[0].done


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", [0, 1])
def test_nothing_decoded_or_all_hidden_is_a_picture(kind: Kind, step: int) -> None:
    trace = sentence(source=(".",) * 6, target=("!",) * 5)
    for summary in ("head", "rollout"):
        look = replace(ALL, summary=summary)
        picture = existing(
            attention_map(*looked(showing(trace, step, look=look)), kind)
        )
        assert picture.values.shape == (len(picture.rows), len(picture.columns))
        assert picture.values.size or picture.note
    assert reading(*looked(State(look=ALL)), kind) is None


def test_a_long_summary_is_made_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summaries, "LARGE", 0)
    trace = sentence()
    shown = showing(trace, look=Look(summary="rollout"))
    assert reading(*looked(shown), "cross") is None
    parts = sum(1 for _ in summaries.summary_parts(trace, "cross", 0, "rollout"))
    assert parts >= 2 * 2 + 2  # every head of the encoder and of the cross layer
    made = existing(reading(*looked(shown), "cross"))
    assert np.allclose(made.values.sum(1), 1, atol=1e-6)
    assert reading(*looked(replace(shown, layer=1)), "cross") is None
