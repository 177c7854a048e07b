from __future__ import annotations

import pytest

from tests.states import ran
from tests.traces import make_trace
from visformer.pictures.selection import AttentionCell
from visformer.session.state import Session, State


@pytest.mark.parametrize(("asked", "step"), [(-3, 0), (2, 2), (99, 4)])
def test_steps_are_clamped_and_shown_follows(asked: int, step: int) -> None:
    session = Session()
    session.set(**ran(make_trace()), step=asked)
    assert session.state.step == step
    assert session.state.visible is not None
    assert len(session.state.visible) == step


def test_shown_stays_the_same_object_while_it_shows_the_same() -> None:
    session = Session()
    session.set(**ran(make_trace()), step=2)
    before = session.state.visible
    session.set(head=1)
    assert session.state.visible is before
    session.set(step=3)
    assert session.state.visible is not before


def test_cells_beyond_what_is_shown_are_dropped() -> None:
    session = Session()
    session.set(**ran(make_trace()), step=3, locked=AttentionCell("cross", 2, 4))
    assert session.state.cell == AttentionCell("cross", 2, 4)
    session.set(step=2)
    assert session.state.cell is None


def test_layer_and_head_are_clamped_to_the_focused_kind() -> None:
    session = Session()
    trace = make_trace(layers=4, decoder_layers=2)
    session.set(**ran(trace), kind="encoder", layer=3, head=9)
    assert (session.state.layer, session.state.head) == (3, 1)
    session.set(kind="cross")
    assert session.state.layer == 1


def test_the_listener_hears_every_change_once() -> None:
    heard: list[State] = []
    session = Session(heard.append)
    session.set(step=1)
    session.set(**ran(make_trace()), step=1)
    assert [state.step for state in heard] == [0, 1]
