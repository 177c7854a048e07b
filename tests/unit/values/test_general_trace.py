"""Traces of models that are none of ours: grouped keys, biases, captured weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from tests.general_traces import SCALES, Shape, any_trace
from visformer.errors import InputError
from visformer.values.arrays import Floats, softmax
from visformer.values.attention_heads import DistanceBias
from visformer.values.facts import KINDS, Kind
from visformer.values.trace import Trace


def weights_by_definition(trace: Trace, kind: Kind, layer: int, head: int) -> Floats:
    """softmax(scale q k + bias), masked, in float64, a cell at a time."""
    q, k = trace.queries(kind, layer, head), trace.keys(kind, layer, head)
    bias, mask = trace.added(kind, layer), trace.mask(kind, layer)
    scores = np.full((len(q), len(k)), -np.inf)
    for row, column in np.ndindex(*scores.shape):
        if mask[row, column]:
            added = 0.0
            if isinstance(bias, DistanceBias):
                at = min(max(column - row + bias.zero, 0), bias.table.shape[1] - 1)
                added = float(bias.table[head, at])
            elif bias is not None:
                added = float(bias[head if len(bias) > 1 else 0, row, column])
            product = float(q[row].astype(np.float64) @ k[column])
            scores[row, column] = SCALES[layer] * product + added
    return softmax(scores)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bias", ["none", "distance", "full"])
def test_weights_follow_from_the_facts(
    kind: Kind, bias: Literal["none", "distance", "full"]
) -> None:
    trace = any_trace(bias=bias)
    for layer in range(2):
        every = trace.attention(kind, layer)
        for head in range(4):
            expected = weights_by_definition(trace, kind, layer, head)
            np.testing.assert_allclose(every[head], expected, atol=1e-6)
            assert np.array_equal(trace.attention(kind, layer, head), every[head])
            some = trace.attention_heads(kind, layer, head).weights(slice(1, 3))
            assert np.array_equal(some[0], every[head, 1:3])


def test_neighbouring_heads_share_keys_and_values() -> None:
    trace = any_trace(Shape(heads=4, key_heads=2, head_size=3, value_size=5))
    assert (trace.heads("cross"), trace.key_heads("cross")) == (4, 2)
    rows = trace.decoder_rows
    # 4 queries of 3, then 2 keys of 3, then 2 values of 5
    assert np.array_equal(trace.queries("decoder", 0, 2), rows[:, 6:9])
    for head, first in ((0, 12), (1, 12), (2, 15), (3, 15)):
        assert np.array_equal(
            trace.keys("decoder", 0, head), rows[:, first : first + 3]
        )
    for head, first in ((0, 18), (1, 18), (2, 23), (3, 23)):
        assert np.array_equal(
            trace.values("decoder", 0, head), rows[:, first : first + 5]
        )


@pytest.mark.parametrize(
    "kinds",
    [("encoder",), ("decoder",), ("cross",), ("decoder", "cross"), KINDS],
    ids="+".join,
)
def test_a_model_has_the_kinds_that_it_has(kinds: tuple[Kind, ...]) -> None:
    trace = any_trace(Shape(kinds=kinds))
    assert trace.kinds == kinds
    for kind in KINDS:
        if kind in kinds:
            assert trace.attention(kind, 1).shape[0] == trace.heads(kind) == 4
            assert trace.scale(kind, 1) == SCALES[1]
        else:
            assert (trace.layers(kind), trace.heads(kind)) == (0, 0)
            with pytest.raises(InputError, match=f"no “{kind}” attention"):
                trace.attention(kind, 0)


def test_captured_weights_are_the_models_own_and_are_cut_with_the_rows() -> None:
    trace = any_trace(captured=True, bias="full")
    own = trace.captured["decoder", 1]
    assert trace.is_captured("decoder", 1)
    assert np.array_equal(trace.attention("decoder", 1), own)
    assert np.array_equal(trace.attention("decoder", 1, 2), own[2])
    short = trace.until(2)
    assert np.array_equal(short.attention("decoder", 1), own[:, :2, :2])
    cross = trace.captured["cross", 0][:, :2]
    assert np.array_equal(short.attention("cross", 0), cross)
    assert np.array_equal(short.attention("encoder", 0), trace.captured["encoder", 0])
    assert short.whole is trace
    one = replace(trace, captured={("cross", 0): trace.captured["cross", 0]})
    assert not one.is_captured("cross", 1)


def test_fewer_steps_have_the_same_weights() -> None:
    for bias in ("distance", "full"):
        trace = any_trace(bias=bias)
        for kind in KINDS:
            whole, short = trace.attention(kind, 1), trace.until(2).attention(kind, 1)
            rows, columns = short.shape[1:]
            assert np.array_equal(short, whole[:, :rows, :columns])


def test_what_was_not_kept_is_refused_in_one_sentence() -> None:
    trace = any_trace(Shape(hidden=False, output=False), steps=False)
    with pytest.raises(InputError, match=r"decoder's hidden states are not in"):
        trace.hidden("decoder", 0)
    with pytest.raises(InputError, match=r"encoder's output is not in"):
        _ = trace.encoder_output
    with pytest.raises(InputError, match="output projection"):
        _ = trace.logits
    assert (trace.text, len(trace.steps), len(trace)) == ("", 0, 4)
    kept = any_trace(Shape(hidden=False, output=True))
    assert kept.decoder_output.shape == (4, 8)
    with pytest.raises(InputError, match=r"layer is 3, but must be .* from -3 to 2"):
        any_trace().hidden("encoder", 3)


def test_a_model_that_is_not_known_says_so() -> None:
    with pytest.raises(InputError, match="Only the attention of “any” is known"):
        _ = any_trace().model.config


def test_the_rows_before_a_length_hold_no_longer_prompt() -> None:
    trace = replace(any_trace(), prompt=3)
    assert [trace.until(length).prompt for length in (0, 2, 3, 4)] == [0, 2, 3, 3]


def test_of_pads_with_the_id_of_the_end_the_first_ends_the_sentence() -> None:
    trace = any_trace(source=5)
    ids = np.array([7, 0, 7, 0, 0])
    for eos, pads in ((0, [4]), (9, [1, 3, 4])):
        model = replace(trace.model, pad=0, eos=eos, source_pad=None)
        padded = replace(trace, model=model, source_ids=ids)
        assert np.flatnonzero(padded.pads("source")).tolist() == pads
