"""Leaks, on hand-made attention."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.general_traces import Shape, any_trace
from tests.tiny_models import tiny_checkpoint
from tests.traces import make_trace
from visformer.analysis.leaks import forbidden, leaks
from visformer.core.passes import run
from visformer.values.arrays import once
from visformer.values.intervention import parse


def test_a_causal_run_has_none() -> None:
    assert leaks(make_trace()) == []


def test_a_query_that_sees_the_future_is_named_with_its_largest_weight() -> None:
    trace = make_trace(source=3, target=3, layers=1, heads=2)
    mask = np.tri(3, dtype=bool)
    mask[0, 2] = True
    trace = replace(trace, masks={**trace.masks, "decoder": mask})
    (leak,) = leaks(trace)
    weights = trace.attention("decoder", 0)[:, 0, 2]
    assert leak[:5] == ("decoder", 0, int(weights.argmax()), 0, 2)
    assert leak.weight == weights.max()
    assert leak.what == "future"


def test_what_was_given_whole_is_no_leak() -> None:
    shape = Shape(kinds=("decoder",))
    seen = np.tri(4, dtype=bool)
    seen[:3, :3] = True  # a prompt of three tokens reads itself in both directions
    trace = replace(any_trace(shape, prompt=3), masks={"decoder": seen})
    assert leaks(trace) == []
    named = {leak[3:5] for leak in leaks(replace(trace, prompt=2))}
    assert named == {(0, 2), (1, 2)}


def test_pads_are_told_by_their_ids() -> None:
    trace = make_trace(source=4, target=3, layers=1)
    ids = trace.source_ids.copy()
    ids[3] = trace.model.pad
    padded = replace(trace, source_ids=ids)
    found = leaks(padded)
    # three real queries of the encoder, three rows of the decoder
    assert [leak.kind for leak in found].count("encoder") == 3
    assert [leak.kind for leak in found].count("cross") == 3
    assert {leak.what for leak in found} == {"pad"}
    assert {leak.key for leak in found} == {3}
    weights = [leak.weight for leak in found]
    assert weights == sorted(weights, reverse=True)
    future, pads, real = forbidden(padded, "encoder")
    assert not future.any()
    assert pads.tolist() == [[False, False, False, True]] * 4
    assert real.tolist() == [True, True, True, False]


def test_a_pad_that_begins_the_target_is_a_word() -> None:
    trace = make_trace()
    ids = trace.target_ids.copy()
    ids[0] = trace.model.pad
    assert leaks(replace(trace, target_ids=ids)) == []


def test_multiplying_by_the_mask_leaks_in_every_row_but_the_last() -> None:
    checkpoint = tiny_checkpoint()
    made = parse(["multiply"])
    trace = run(checkpoint, [[4, 5, 3]], [[2, 6, 7]], intervention=made)[0]
    found = leaks(trace)
    assert {(leak.layer, leak.query) for leak in found} == {
        (layer, query) for layer in (0, 1) for query in (0, 1)
    }


def test_only_a_pad_that_begins_the_target_is_forgiven() -> None:
    trace = make_trace(source=3, target=4, layers=1)
    ids = trace.target_ids.copy()
    ids[1] = trace.model.pad
    found = leaks(replace(trace, target_ids=ids))
    assert {(leak.kind, leak.query, leak.key, leak.what) for leak in found} == {
        ("decoder", 2, 1, "pad"),
        ("decoder", 3, 1, "pad"),
    }


def test_what_broadcasting_repeats_is_looked_at_once() -> None:
    keys = np.array([True, False, True])
    repeated = np.broadcast_to(keys, (4_000, 3))
    assert once(repeated).tolist() == [[True, False, True]]
    assert once(np.broadcast_to(np.True_, (5, 6))).shape == (1, 1)
    assert once(repeated[:, ::-1]).tolist() == [[True, False, True]]
    assert once(np.eye(2)).shape == (2, 2)
    assert once(np.broadcast_to(keys, (0, 3))).shape == (0, 3)
