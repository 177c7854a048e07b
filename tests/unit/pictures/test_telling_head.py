"""Where the window opens."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.states import ran
from tests.traces import make_trace
from visformer import paths
from visformer.analysis.head_measures import agreement, maximum, place_correlation
from visformer.pictures.words import scene as telling
from visformer.pictures.words.scene import telling_head
from visformer.session.runs import look_at_telling_head
from visformer.session.state import State
from visformer.trace_file.trace_file import read_session
from visformer.values.arrays import Floats
from visformer.values.facts import Kind
from visformer.values.trace import Trace


def test_the_first_picture_is_il_reading_it() -> None:
    trace = read_session(Path(paths.resource(paths.FIRST_TRACE))).shown.trace
    found = telling_head(trace)
    assert found.kind == "cross"
    row = trace.attention("cross", found.layer, found.head)[found.step - 1]
    assert trace.source[int(row.argmax())] == "▁it"
    assert trace.steps[found.step - 1].token == "▁il"
    assert row.max() > 0.9


def test_it_is_sharp_in_order_and_agrees_with_the_others() -> None:
    trace = make_trace(9, 8, layers=3, heads=4, sharpness=8)
    every = np.concatenate([trace.attention("cross", layer) for layer in range(3)])
    ends = trace.model.bos, trace.model.eos
    agreed = agreement(every, ~np.isin(trace.source_ids, ends)).reshape(3, 4)
    measures = {
        (layer, head): abs(place_correlation(weights))
        * maximum(weights)
        * agreed[layer, head]
        for layer in range(3)
        for head, weights in enumerate(trace.attention("cross", layer))
    }
    found = telling_head(trace)
    assert (found.layer, found.head) == max(measures, key=lambda at: measures[at])
    assert 2 < found.step < 7


def test_a_head_that_reads_backwards_is_as_telling(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backwards, even = np.eye(6, dtype=np.float32)[::-1], np.full((6, 6), 1 / 6)

    def weights(trace: Trace, kind: Kind, layer: int, head: int) -> Floats:
        made: Floats = backwards if (layer, head) == (1, 0) else even
        return made

    monkeypatch.setattr(telling, "head_weights", weights)
    found = telling_head(make_trace(6, 6, layers=3, heads=2))
    assert (found.layer, found.head) == (1, 0)


@pytest.mark.parametrize("target", [0, 1, 2, 5])
def test_short_ones_have_a_step_of_their_own(target: int) -> None:
    found = telling_head(make_trace(4, target))
    assert 0 <= found.step <= target


def test_without_numbers_the_first_head_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trace = make_trace(4, 4)
    nothing = replace(trace, masks={**trace.masks, "cross": np.zeros((4, 4), bool)})
    assert telling_head(nothing)[:3] == ("cross", 0, 0)
    monkeypatch.setattr(telling, "is_large", lambda *_: True)
    assert telling_head(make_trace(4, 4)) == ("cross", 0, 0, 2)


def test_the_state_goes_there() -> None:
    trace = make_trace(9, 8, layers=3, heads=4, sharpness=8)
    state = look_at_telling_head(State(**ran(trace))).state
    found = telling_head(trace)
    assert (state.kind, state.layer, state.head, state.step) == found
    assert look_at_telling_head(State()).state.trace is None
