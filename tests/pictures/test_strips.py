from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tests.pictures.test_maps import looked
from tests.traces import make_trace
from visformer.pictures.attention.strips import source_strip, target_strip
from visformer.pictures.selection import AttentionCell
from visformer.session.state import Session, State


def state(step: int, **changes: Any) -> State:
    session = Session()
    session.set(trace=make_trace(), step=step, **changes)
    return session.state


def test_the_current_step_tints_the_source() -> None:
    made = state(3, layer=1, head=1)
    assert made.trace is not None
    expected = made.trace.attention("cross", 1, 1)[2]
    tints = [chip.tint for chip in source_strip(*looked(made))]
    np.testing.assert_allclose(tints, expected, rtol=1e-6)
    assert not any(chip.tint for chip in target_strip(*looked(made)))


def test_a_decoder_cell_tints_and_marks_the_target() -> None:
    made = state(4, hovered=AttentionCell("decoder", 2, 1))
    assert made.trace is not None
    chips = target_strip(*looked(made))
    expected = made.trace.attention("decoder", 0, 0)[2]
    np.testing.assert_allclose([c.tint for c in chips[:-1]], expected, rtol=1e-6)
    assert [i for i, chip in enumerate(chips) if chip.marked] == [1, 2]
    assert not any(chip.tint for chip in source_strip(*looked(made)))


def test_an_encoder_cell_marks_both_of_its_source_tokens() -> None:
    chips = source_strip(*looked(state(1, locked=AttentionCell("encoder", 0, 3))))
    assert [i for i, chip in enumerate(chips) if chip.marked] == [0, 3]


def test_the_last_chip_is_the_choice_and_forced_tokens_are_told() -> None:
    trace = make_trace()
    steps = (replace(trace.steps[0], origin="forced"), *trace.steps[1:])
    session = Session()
    session.set(trace=replace(trace, steps=steps), step=2)
    chips = target_strip(*looked(session.state))
    assert [chip.token for chip in chips] == ["<s>", "▁t0", "▁t1"]
    assert [chip.forced for chip in chips] == [False, True, False]
    assert [chip.current for chip in chips] == [False, False, True]


def test_empty() -> None:
    assert source_strip(*looked(State())) == ()
    assert target_strip(*looked(state(0))) == ()
