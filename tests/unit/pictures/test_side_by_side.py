"""Two runs side by side: what is said and drawn follows from their arrays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.traces import make_trace
from tests.unit.analysis.test_run_comparison import reading
from visformer.analysis.run_comparison import compare_runs
from visformer.pictures.comparison import comparison_words
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
