"""Alignments by attention, and their error rate, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from visformer.analysis.word_alignment import Gold, aligned, errors, read_gold, words_of
from visformer.errors import InputError


def test_pieces_belong_to_the_words_between_blanks() -> None:
    # "un|like|ly ." and the empty span of an end token
    spans = [(0, 2), (2, 6), (6, 8), (8, 10), (10, 10)]
    assert words_of(spans, "unlikely .") == [[0, 1, 2], [3]]
    assert words_of([(0, 1), (1, 1), (1, 4)], "a  b") == [[0], [2]]


def test_target_pieces_are_averaged_and_source_pieces_summed() -> None:
    rows = [
        [0.30, 0.30, 0.40, 0.0],  # the two pieces of source word 0 beat word 1
        [0.10, 0.10, 0.60, 0.2],  # target word 1: rows 1 and 2
        [0.45, 0.45, 0.10, 0.0],  # their mean: .55 on word 0, .35 on word 1
        [0.00, 0.00, 0.00, 1.0],
    ]
    weights = np.array([rows, np.full((4, 4), np.nan)], np.float32)
    found = aligned(weights, [[0], [1, 2], []], [[0, 1], [2]])
    assert found.tolist() == [[0, 0, -1], [-1, -1, -1]]


def test_the_error_rate_counts_sure_and_possible_links() -> None:
    (gold,) = read_gold(["0-0 1-1 2p1"], "x.talp").values()
    assert gold == Gold(
        frozenset({(0, 0), (1, 1)}), frozenset({(0, 0), (1, 1), (2, 1)})
    )
    # A = {0-0, 2-1, 2-2}: in S one, in P two, |A| + |S| = 5
    sums, counts = errors(np.array([[0, 2, 2], [0, 1, -1]]), gold)
    assert (sums / counts).tolist() == pytest.approx([1 - 3 / 5, 0])


@pytest.mark.parametrize("line", ["0-0 1:1", "0-0 x", "-1-2", "3", "1-2-3"])
def test_a_line_that_is_no_alignment_is_named(line: str) -> None:
    with pytest.raises(InputError, match=r"^Line 2 of x\.talp is no alignment"):
        read_gold(["", line], "x.talp")
