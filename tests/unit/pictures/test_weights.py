"""Attention weights as pictures read them: the Trace's own digits, derived once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.traces import grown, make_trace
from visformer.analysis.sublayers import joined_heads
from visformer.paths import resource
from visformer.pictures.attention import weights
from visformer.pictures.attention.weights import (
    head_parts,
    head_weights,
    layers_weights,
    row_weights,
    takes_long,
)
from visformer.trace_file.trace_file import read_trace
from visformer.values.arrays import Floats
from visformer.values.attention_heads import AttentionHeads, weights_of
from visformer.values.facts import KINDS, Kind
from visformer.values.trace import Trace


@pytest.fixture
def derived(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, slice]]:
    """Collect every derivation: how many heads, which rows."""
    found: list[tuple[int, slice]] = []
    own = AttentionHeads.weights

    def counted(
        heads: AttentionHeads, rows: slice = slice(None), into: Any = None
    ) -> object:
        found.append((heads.queries.shape[1], rows))
        return own(heads, rows, into)

    monkeypatch.setattr(AttentionHeads, "weights", counted)
    return found


@pytest.mark.parametrize("name", ["small", "first.vis"])
def test_screen_and_computation_show_the_traces_own_digits(name: str) -> None:
    trace = make_trace() if name == "small" else read_trace(resource(name))
    for shown in (trace, trace.until(len(trace) - 1)):
        for kind in KINDS:
            for layer in range(trace.layers(kind)):
                rows = slice(0, len(shown.tokens(kind)[0]))
                joined = joined_heads(shown, kind, layer, rows)
                for head in range(trace.heads(kind)):
                    own = shown.attention(kind, layer, head)
                    on_screen = head_weights(shown, kind, layer, head)
                    assert np.array_equal(own, on_screen, equal_nan=True)
                    heads = shown.attention_heads(kind, layer, head)
                    stages = heads.weights(rows)[0]
                    assert np.array_equal(own, stages, equal_nan=True)
                    size = trace.model.config.head_size
                    part = joined[:, head * size : (head + 1) * size]
                    values = shown.values(kind, layer, head)
                    assert np.array_equal(part, own @ values, equal_nan=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [-np.inf, -1e9, -2.0])
def test_kept_weights_equal_those_of_the_trace(kind: Kind, value: float) -> None:
    trace = make_trace(5, 6, masked_value=value)
    for step in (1, 6, 3, 4, 3):
        shown = trace.until(step)
        for _ in range(2):
            found = head_weights(shown, kind, 1, 1)
            assert np.array_equal(found, shown.attention(kind, 1, 1))
            row = row_weights(shown, kind, 1, 1, slice(0, 1))
            assert np.array_equal(row, found[:1])
        assert np.array_equal(layers_weights(shown, kind, range(1, 2))[0, 1], found)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layers", [range(1), range(2)])
def test_a_growing_trace_only_adds_rows(
    kind: Kind, layers: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts: list[int] = []

    def noted(layers: list[AttentionHeads], rows: slice, into: Floats) -> Floats:
        starts.append(rows.start)
        return weights_of(layers, rows, into)

    monkeypatch.setattr(weights, "weights_of", noted)
    for trace in grown(make_trace(4, 5)):
        found = layers_weights(trace, kind, layers)
        every = [trace.attention(kind, layer) for layer in layers]
        assert np.array_equal(found, np.stack(every))
    assert starts == ([0] if kind == "encoder" else [0, 1, 2, 3, 4])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("what", ["alike", "scale", "mask", "bias", "captured"])
def test_layers_derived_together_have_the_digits_of_each(kind: Kind, what: str) -> None:
    trace = make_trace(6, 7, masked_value=-1e9)
    layers = [trace.attention_heads(kind, layer) for layer in range(2)]
    shape = layers[1].mask.shape
    if what == "scale":
        layers[1] = replace(layers[1], scale=2 * layers[1].scale)
    elif what == "mask":
        layers[1] = replace(layers[1], mask=np.tri(*shape) > 0)
    elif what == "bias":
        layers[1] = replace(layers[1], added=np.ones((1, *shape), np.float32))
    elif what == "captured":
        layers[1] = replace(layers[1], captured=np.ones((2, *shape), np.float32))
    for rows in (slice(None), slice(2, 3), slice(5, None), slice(6, None)):
        every = np.concatenate([layer.weights(rows) for layer in layers])
        assert np.array_equal(weights_of(layers, rows), every)


def test_a_run_that_grows_long_derives_fewer_heads_at_once(
    monkeypatch: pytest.MonkeyPatch, derived: list[tuple[int, slice]]
) -> None:
    monkeypatch.setattr(weights, "TOGETHER", 36)  # two layers of two heads, four keys
    for rows, trace in enumerate(grown(make_trace(4, 5)), 1):
        if rows <= 2:  # all layers were asked for
            layers_weights(trace, "cross", range(2))
        found = head_weights(trace, "cross", 1, 1)
        assert np.array_equal(found, trace.attention_heads("cross", 1, 1).weights()[0])
        derived.pop()
    assert [heads for heads, _ in derived] == [4, 4, 2, 2, 1]


PADS = 2


def odd_rows(trace: Trace, what: str) -> Trace:
    """Let a decoder row read a later key, or nothing at all, or have weights kept.

    Or let the source end in pads, which nothing reads.
    """
    mask = trace.masks["decoder"].copy()
    if what == "ahead":
        mask[1, 5] = True
    elif what == "nothing":
        mask[3] = False
    captured: dict[tuple[Kind, int], Floats] = {}
    if what == "captured":
        captured["decoder", 0] = np.ones((2, len(trace), len(trace)), np.float32)
    masks = {**trace.masks, "decoder": mask}
    if what == "padded":
        for kind in ("encoder", "cross"):
            masks[kind] = trace.masks[kind].copy()
            masks[kind][:, -PADS:] = False
    return replace(trace, masks=masks, captured=captured)


@pytest.mark.parametrize("what", ["causal", "ahead", "nothing", "captured"])
def test_only_the_first_rows_of_a_long_run_are_derived(
    monkeypatch: pytest.MonkeyPatch, derived: list[tuple[int, slice]], what: str
) -> None:
    monkeypatch.setattr(weights, "FEWEST", 2)
    trace = odd_rows(make_trace(target=9, masked_value=-1e9), what)
    new = {}
    for step in (1, 2, 3, 4, 9, 6, 1):
        before = len(derived)
        found = head_weights(trace.until(step), "decoder", 0, 0)
        new[step] = [(rows.start, rows.stop) for _, rows in derived[before:]]
        np.testing.assert_array_equal(
            found, trace.until(step).attention("decoder", 0, 0)
        )
    if what == "causal":
        assert new == {1: [], 2: [], 3: [(2, 4)], 4: [], 9: [(4, 9)], 6: []}


def test_two_traces_side_by_side_do_not_evict_each_other(
    derived: list[tuple[int, slice]],
) -> None:
    one, other = make_trace(seed=0), make_trace(seed=1)
    for _ in range(3):
        for trace in (one, other):
            for step in (2, 4):
                head_weights(trace.until(step), "cross", 0, 0)
    assert len(derived) == 2


def test_stepping_derives_nothing_again(derived: list[tuple[int, slice]]) -> None:
    for value in (-1e9, 0.0):  # the second leaks
        trace = make_trace(masked_value=value)
        derived.clear()
        for step in (1, 2, 3, 4, 3, 2, 1, 4):
            head_weights(trace.until(step), "decoder", 0, 0)
        assert len(derived) == 1


def test_a_row_of_a_long_sentence_is_derived_alone(
    monkeypatch: pytest.MonkeyPatch, derived: list[tuple[int, slice]]
) -> None:
    monkeypatch.setattr(weights, "TOGETHER", 0)
    trace = make_trace()
    row = row_weights(trace, "cross", 1, 1, slice(2, 3))
    assert derived == [(1, slice(2, 3))]
    found = head_weights(trace, "cross", 1, 1)
    assert derived[1:] == [(1, slice(0, len(found)))]
    assert np.array_equal(row, found[2:3])
    row_weights(trace, "cross", 1, 1, slice(2, 3))
    assert len(derived) == 2  # a slice of what is kept


@pytest.mark.parametrize("what", ["causal", "ahead", "nothing", "padded"])
@pytest.mark.parametrize("kind", KINDS)
def test_slices_of_a_long_head_are_the_whole_one(
    monkeypatch: pytest.MonkeyPatch, kind: Kind, what: str
) -> None:
    for limit in ("TOGETHER", "SLICE", "LONG"):  # as few queries at once as may be
        monkeypatch.setattr(weights, limit, 0)
    trace = odd_rows(make_trace(source=11, target=9, masked_value=-1e9), what)
    whole = trace.attention(kind, 1, 1)
    for rows in (slice(0, 4), slice(3, 8), slice(7, 9)):  # a window of the picture
        found = row_weights(trace, kind, 1, 1, rows)
        assert np.array_equal(found, whole[rows], equal_nan=True) is True
    assert takes_long(trace, kind, 1, 1)
    assert len([*head_parts(trace, kind, 1, 1)]) == 3
    assert not takes_long(trace, kind, 1, 1)
    assert not [*head_parts(trace, kind, 1, 1)]
    found = head_weights(trace, kind, 1, 1)
    assert np.array_equal(found, whole, equal_nan=True) is True
    if what == "padded" and kind != "decoder":
        assert not whole[:, -PADS:].any()
