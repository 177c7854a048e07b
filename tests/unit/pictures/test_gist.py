"""A head's habit in a few words, and one cell in every head."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from tests.existing import existing
from tests.traces import make_trace
from visformer.pictures.attention.finder import head_finder
from visformer.pictures.attention.gist import NO_GIST, gist_of
from visformer.pictures.attention.reading import reading
from visformer.pictures.selection import AttentionCell, Look, Selection
from visformer.values.arrays import Floats
from visformer.values.facts import Kind

N = 8
SELECTION = Selection(kind="cross", layer=0, head=0)
EYE: Floats = np.eye(N, dtype=np.float32)
EVEN: Floats = np.full((N, N), 1 / N, np.float32)


def resting() -> Floats:
    made: Floats = np.full((N, N), 0.2 / (N - 1), np.float32)
    made[:, 7] = 0.8
    return made


@pytest.mark.parametrize(
    ("kind", "weights", "words"),
    [
        ("cross", EYE, "in order 1.00"),
        ("cross", EYE[::-1], "in reverse order −1.00"),
        ("decoder", EYE, "reads itself: 1.00"),
        ("decoder", np.eye(N, k=-1, dtype=np.float32), "reads the token before: 1.00"),
        ("encoder", np.eye(N, k=1, dtype=np.float32), "reads the token after: 1.00"),
        ("encoder", resting(), "rests on “s7”: 0.80"),
        ("encoder", EVEN, "spread out: largest weights 0.12"),
        ("cross", EYE[:4], ""),  # too few rows for a habit
        ("encoder", np.full((N, N), np.nan, np.float32), ""),
        ("decoder", np.where(EYE[:, [3]], np.float32(np.nan), EYE), ""),
    ],
)
def test_a_head_is_described_by_its_measure(
    kind: Kind, weights: Floats, words: str
) -> None:
    shown = existing(reading(make_trace(N, N), SELECTION, Look(), kind))
    gist = gist_of(replace(shown, values=weights))
    assert gist.words == words
    assert bool(gist.meaning) == bool(words)
    assert re.findall(r"\d\.\d\d", words) == re.findall(r"\d\.\d\d", gist.meaning)[:1]


def test_what_reading_alike_would_be_counts_the_open_keys() -> None:
    causal: Floats = np.full((N, N), 1 / N, np.float32)
    for kind, even in (("decoder", "0.34"), ("encoder", "0.12")):  # mean of 1/1 ... 1/8
        shown = existing(reading(make_trace(N, N), SELECTION, Look(), kind))  # type: ignore[arg-type]
        assert f"alike it would be {even};" in gist_of(replace(shown, values=causal))[1]
        half = replace(shown, values=causal / np.float32(2))  # others are open, too
        assert gist_of(half) == NO_GIST


def test_only_one_heads_own_weights_are_described() -> None:
    trace = make_trace(N, N, sharpness=9)
    for look in (Look(summary="mean"), Look(words=True)):
        assert gist_of(reading(trace, SELECTION, look, "cross")) == NO_GIST


def test_the_finder_names_the_head_with_most_weight() -> None:
    trace = make_trace(6, 5, layers=3, heads=4)
    cell = AttentionCell("decoder", 3, 1)
    made = head_finder(trace, Selection(kind="decoder", layer=0, head=0), cell)
    weights = np.array([trace.attention("decoder", at)[:, 3, 1] for at in range(3)])
    np.testing.assert_array_equal(made.values, weights)
    layer, head = np.unravel_index(weights.argmax(), weights.shape)
    assert made.done.startswith(f"most in layer {layer + 1}, head {head + 1}: ")
    assert (made.rows, made.columns) == (("L1", "L2", "L3"), ("H1", "H2", "H3", "H4"))
    assert made.masked is None


def test_a_masked_cell_is_masked_in_every_head() -> None:
    trace = make_trace(6, 5, layers=2)
    later = AttentionCell("decoder", 1, 3)
    made = head_finder(trace, Selection(kind="decoder", layer=0, head=0), later)
    assert made.masked is not None
    assert made.masked.all()
    unknown = replace(trace, masks={**trace.masks, "decoder": np.zeros((5, 5), bool)})
    made = head_finder(unknown, Selection(kind="decoder", layer=0, head=0), later)
    assert made.values.shape == (2, 2)
