"""Two runs side by side: what is said and drawn follows from their arrays."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.traces import make_trace
from tests.unit.analysis.test_run_comparison import reading, writing
from visformer.analysis.run_comparison import compare_runs
from visformer.pictures.comparison import comparison_words
from visformer.values.given_attention import traces_of_weights
from visformer.values.trace import Trace

TRACE = make_trace(source=6, target=5)
OTHER = make_trace(source=6, target=5, seed=4)
NAMES = "one", "other"


def said(a: Trace, b: Trace) -> list[str]:
    return comparison_words(compare_runs(a, b, names=NAMES))


def test_equal_runs_are_called_equal_and_no_others() -> None:
    assert said(TRACE, TRACE) == [
        "The runs are equal, but for rounding: tokens, weights and log p."
    ]
    near = replace(TRACE, decoder_rows=TRACE.decoder_rows * np.float32(1 + 1e-7))
    assert len(said(TRACE, near)) == 1
    moved = TRACE.decoder_rows.copy()
    moved[3] *= 3
    assert "equal" not in " ".join(said(TRACE, replace(TRACE, decoder_rows=moved)))


def test_the_step_is_named_at_which_they_first_write_another_token() -> None:
    found = said(writing("le", " chat"), writing("le", " chien"))
    assert found[0] == (
        "They part at step 2: “one” writes “chat”, “other” writes “chien”."
    )
    cut = said(writing("le", " chat"), writing("l", "e", " chien"))
    assert cut[0] == (
        "They part at step 2 of “one”, which writes “chat”, and step 3 of “other”, "
        "which writes “chien”."
    )
    same = writing("le", " chat"), writing("le", " chat", p=0.25)
    assert said(*same)[0] == "“one” and “other” write the same."
    longer = writing("le", " chat", " dort")
    short = replace(longer.until(2), steps=longer.steps[:2])
    assert said(longer, short)[0] == (
        "“one” and “other” write the same as far as the shorter one goes."
    )


def test_log_p_is_added_over_what_is_known_in_both() -> None:
    found = said(writing("a", "b"), writing("a", "b", p=0.25))
    half, quarter = 3 * math.log(0.5), 3 * math.log(0.25)
    assert found[1] == (
        f"Log p of 3 tokens of the reference: −{-half:.3f} and −{-quarter:.3f} nats."
    )
    # "b" is no candidate of the other run where they part
    parted = said(writing("a", "b"), writing("a", "x"))
    assert parted[1].startswith("Log p of 1 token of the reference: −0.693")


def test_the_head_is_named_that_differs_most() -> None:
    found = compare_runs(TRACE, OTHER, names=NAMES)
    words = comparison_words(found)
    for kind, name in (("encoder", "encoder self"), ("cross", "cross")):
        grid = found.divergences[kind]  # type: ignore[index]
        layer, head = np.unravel_index(grid.argmax(), grid.shape)
        (sentence,) = (s for s in words if s.startswith(f"{name} attention"))
        assert f"layer {layer + 1}, head {head + 1}: {grid.max():.3g} of 1" in sentence
    moved = replace(TRACE, memory_rows=OTHER.memory_rows)
    words = said(TRACE, moved)
    assert "encoder self attention: the same in every head compared." in words
    assert any(s.startswith("cross attention differs most in") for s in words)


def test_nan_is_reported() -> None:
    broken = replace(TRACE, encoder_rows=np.full_like(TRACE.encoder_rows, np.nan))
    words = said(TRACE, broken)
    assert "encoder self attention: 4 heads are NaN, and are not compared." in words


def test_what_cannot_be_compared_is_named() -> None:
    small = make_trace(source=6, target=5, layers=1, heads=4)
    words = " ".join(said(TRACE, small))
    assert (
        "cross attention has 2 layers of 2 heads in “one”, 1 of 4 in “other”: what "
        "both have is compared."
    ) in words
    alone = traces_of_weights({"decoder": [np.eye(3)[None, None]]}, None, None)[0]
    words = " ".join(said(TRACE, alone))
    assert "Only “one” has encoder self attention." in words
    assert "Only “one” has cross attention." in words


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        (
            reading("unhappy cats", "un", "happy", "cats"),
            reading("unhappy cats", "unh", "appy", "cats"),
            "Their tokenizers differ: source pieces that cover the same characters are "
            "compared as one (3 groups, 0 pieces left over).",
        ),
        (
            reading("the old cat", "the", "old", "cat"),
            reading("a cat", "a", "cat"),
            "They read different sentences: 2 groups of source tokens are aligned, 3 "
            "tokens have no counterpart.",
        ),
    ],
)
def test_it_is_said_how_sources_are_aligned(
    one: Trace, other: Trace, words: str
) -> None:
    assert words in said(one, other)


def test_it_is_said_up_to_which_row_the_decoder_is_compared() -> None:
    words = said(writing("le", " chat"), writing("le", " chien"))
    assert "The decoder's attention is compared up to where they part: 2 rows." in words
