"""Maps, tables and words of importance."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.existing import existing
from tests.importances import make_importance, over_pairs, with_patches
from tests.traces import make_trace
from visformer.pictures.importance_maps import (
    agreement_words,
    importance_maps,
    importance_words,
    layer_numbers,
    patch_words,
    source_numbers,
)
from visformer.values.facts import KINDS

TRACE = make_trace(source=6, target=5)
MADE = make_importance(TRACE)
LAYERS, HEADS = TRACE.layers("cross"), TRACE.heads("cross")


def test_a_kind_has_the_exact_change_its_estimate_and_what_that_misses() -> None:
    found = dict(importance_maps(MADE))
    assert tuple(found) == KINDS
    exact, estimate, missed = found["cross"]
    assert exact.values[-1, 0] == -2.5
    assert estimate.values[-1, 0] == missed.values[-1, 0] == -1.25
    assert exact.rows == tuple(f"L{n}" for n in range(1, LAYERS + 1))
    assert exact.columns == tuple(f"H{n}" for n in range(1, HEADS + 1))
    # one scale, with 0 in its middle
    for kind in KINDS:
        for one in found[kind]:
            assert one.signed
            assert one.ends == ("−2.5", "2.5")
    assert exact.shade[-1, 0] == 0
    assert exact.shade[0, 0] == 0.5
    assert estimate.shade[-1, 0] == 0.25


def test_without_gradients_and_over_pairs_there_are_other_maps() -> None:
    plain = replace(MADE, gradient={}, sensitivity={}, reasons=("It runs elsewhere.",))
    assert [len(maps) for _kind, maps in importance_maps(plain)] == [1, 1, 1]
    assert agreement_words(plain) == "It runs elsewhere."
    titles = [one.title for one in dict(importance_maps(over_pairs(TRACE)))["cross"]]
    assert titles == ["cross: mean", "cross: standard deviation"]


def test_the_words_name_the_head_that_matters_most() -> None:
    said = importance_words(MADE)
    assert "5 tokens adds up to −2.50 nats" in said
    assert f"most without layer {LAYERS}, head 1 of cross attention: by 2.50" in said
    assert "most without layer 1, head 2 of cross attention: by 0.75" in said
    every = sum(TRACE.layers(kind) * TRACE.heads(kind) for kind in KINDS)
    assert f"{every - 2} of {every} heads change it by less than 0.01." in said
    assert "3 references" in importance_words(over_pairs(TRACE))
    tiny = {kind: MADE.heads[kind] / 1000 for kind in KINDS}
    said = importance_words(replace(MADE, heads=tiny))
    assert "0.00" not in said  # a change that cannot be written is not named
    assert f"{every} of {every} heads change it" in said
    nan = {kind: MADE.heads[kind] * np.nan for kind in KINDS}
    assert "of 0 heads" not in importance_words(replace(MADE, heads=nan))
    assert "cross 1.00" in agreement_words(MADE)
    none = {kind: np.zeros_like(MADE.heads[kind]) for kind in KINDS}
    assert "most" not in importance_words(replace(MADE, heads=none))


def test_what_a_place_carries_is_this_sum_less_the_other_one() -> None:
    """The made-up streams of token 2 bring all 4 nats into the other run."""
    said = patch_words(with_patches(TRACE), "one")
    assert "In “one” the same tokens have −6.50 nats in all, here −2.50:" in said
    assert "the first maps come near 4.00," in said


def test_layers_and_source_tokens_are_tables() -> None:
    layers = layer_numbers(MADE)
    assert layers.rows == ("encoder self", "decoder self", "cross")
    assert layers.values[2, LAYERS - 1] == -2.5
    short = {**MADE.layers, "encoder": np.array([1.0])}
    kept = existing(layer_numbers(replace(MADE, layers=short)).kept)
    assert kept[0].tolist() == [True, *[False] * (LAYERS - 1)]
    source = existing(source_numbers(MADE, TRACE))
    assert source.values[0].tolist() == [-1, -2, -3, -4, -5, -6]
    assert len(source.columns) == 6
    assert source_numbers(replace(MADE, source=None), TRACE) is None
    other = make_trace(source=4, target=5)
    assert source_numbers(MADE, other) is None
