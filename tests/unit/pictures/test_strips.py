from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.states import ran, showing
from tests.traces import fed, make_trace
from tests.unit.pictures.test_maps import looked
from tests.unit.values.test_pieces import FAMILIES
from visformer.pictures.attention.strips import source_strip, target_strip
from visformer.pictures.selection import AttentionCell
from visformer.session.state import Session, State
from visformer.values.step import Candidates


def test_the_current_step_tints_the_source() -> None:
    made = showing(make_trace(), 3, layer=1, head=1)
    assert made.trace is not None
    expected = made.trace.attention("cross", 1, 1)[2]
    tints = [chip.tint for chip in source_strip(*looked(made))]
    np.testing.assert_allclose(tints, expected, rtol=1e-6)
    assert not any(chip.tint for chip in target_strip(*looked(made)))


def test_a_chip_says_whose_weight_it_has() -> None:
    made = showing(make_trace(), 3, layer=1, head=1)
    assert made.trace is not None
    query = "t2"  # it is written there
    head = "cross · layer 2, head 2"
    assert {chip.done for chip in source_strip(*looked(made))} == {
        f"read by “{query}” · {head}"
    }
    read, new = (
        {c.done for c in target_strip(*looked(made))[:-1]},
        "no row has read it yet",
    )
    assert read == {f"not read by {head}"}
    assert target_strip(*looked(made))[-1].done == new


def test_a_decoder_cell_tints_and_marks_the_target() -> None:
    made = showing(make_trace(), 4, hovered=AttentionCell("decoder", 2, 1))
    assert made.trace is not None
    chips = target_strip(*looked(made))
    expected = made.trace.attention("decoder", 0, 0)[2]
    np.testing.assert_allclose([c.tint for c in chips[:-1]], expected, rtol=1e-6)
    assert [i for i, chip in enumerate(chips) if chip.marked] == [1, 2]
    assert not any(chip.tint for chip in source_strip(*looked(made)))


def test_an_encoder_cell_marks_both_of_its_source_tokens() -> None:
    chips = source_strip(
        *looked(showing(make_trace(), 1, locked=AttentionCell("encoder", 0, 3)))
    )
    assert [i for i, chip in enumerate(chips) if chip.marked] == [0, 3]


def test_a_source_is_drawn_as_it_is_whatever_was_drawn_of_it_before() -> None:
    """On the same run: its chips are kept, since windows ask for them all the time."""
    trace, session, fresh = make_trace(), Session(), Session()
    session.set(**ran(trace))
    places: list[dict[str, Any]] = [
        {"step": 3, "head": 1},
        {"step": 2, "head": 1},
        {"step": 2, "head": 0, "locked": AttentionCell("encoder", 0, 3)},
        {"locked": AttentionCell("cross", 1, 2)},
        {"locked": None, "hovered": AttentionCell("decoder", 1, 1)},
        {"hovered": None, "layer": 1, "step": 3, "head": 1},
    ]
    known = dict[str, Any]()
    for place in [*places, *places]:
        session.set(**place)
        known |= place
        fresh.set(**ran(make_trace()), **known)
        assert source_strip(*looked(session.state)) == source_strip(
            *looked(fresh.state)
        )


def test_the_last_chip_is_the_choice_and_forced_tokens_are_told() -> None:
    trace = fed(make_trace(), {0: "forced", 1: "forced"}, wrong=(1,))
    chips = target_strip(*looked(showing(trace, 3)))
    assert [chip.token for chip in chips] == ["<s>", "t0", "w", "t2"]
    assert [bool(chip.fed) for chip in chips] == [False, True, True, False]
    best = trace.steps[1].candidates[0].token.removeprefix("▁")
    assert [chip.below for chip in chips] == ["", "✓", f"model: {best}", ""]
    assert f"the model would say: “{best}”" in chips[2].fed
    assert [chip.current for chip in chips] == [False, False, False, True]
    assert [chip.loss for chip in chips] == [None] * 4


def test_all_of_a_reference_is_in_sight_with_its_losses() -> None:
    trace = fed(make_trace(), dict.fromkeys(range(4), "reference"), wrong=(2,))
    chips = target_strip(*looked(showing(trace, 2)))
    assert [chip.token for chip in chips] == ["<s>", "t0", "t1", "w", "t3"]
    assert [chip.current for chip in chips] == [False, False, True, False, False]
    assert [chip.later for chip in chips] == [False, False, False, True, True]
    expected = [None, *(-math.log(step.probability) for step in trace.steps)]
    assert [chip.loss for chip in chips] == expected


@pytest.mark.parametrize(("marks", "tokens"), FAMILIES.items())
def test_pieces_of_a_word_join_whatever_the_vocabulary(
    marks: str, tokens: tuple[str, ...]
) -> None:
    """Six tokens: the second, third and fourth are one word, "traversé"."""
    trace = make_trace(source=6, target=5)
    none = Candidates(np.zeros(0), (), np.zeros(0))
    steps = tuple(
        replace(step, token=token, candidates=none)
        for step, token in zip(trace.steps, tokens, strict=False)
    )
    target = ("<s>", *tokens[:4])
    trace = replace(trace, source=tokens, source_spans=(), target=target, steps=steps)
    for strip in (source_strip, target_strip):
        chips = strip(*looked(showing(trace, 5)))
        read = [chip.token for chip in chips if chip.token != "<s>"]
        assert read == ["the", "tra", "vers", "é", "cat", "."][: len(read)]
        joins = [chip.token for chip in chips if chip.joins]
        assert joins == ["vers", "é"], marks


def test_what_the_model_decodes_later_is_shown_where_it_may_be_known() -> None:
    trace = fed(make_trace(target=80), {0: "forced"})
    state = showing(trace, 2)
    assert len(target_strip(*looked(state))) == 3
    chips = target_strip(*looked(state), state.ahead)
    assert [chip.later for chip in chips] == [False] * 3 + [True] * 64
    look = replace(state.look, ahead=False)
    assert showing(trace, 2, look=look).ahead is None


def test_of_a_run_that_reads_on_it_is_not_said_that_a_token_is_unread() -> None:
    leaking = make_trace(masked_value=0.0)  # its masks hide nothing
    for trace, said in ((make_trace(), {"no row has read it yet"}), (leaking, {""})):
        state = showing(trace, 2)
        chips = target_strip(*looked(state), state.ahead)
        assert {chip.done for chip in chips if chip.current or chip.later} == said


def test_empty() -> None:
    assert source_strip(*looked(State())) == ()
    assert target_strip(*looked(showing(make_trace(), 0))) == ()
