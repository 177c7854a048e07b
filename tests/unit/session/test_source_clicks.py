"""Clicks on source tokens, without a window."""

from __future__ import annotations

import numpy as np

from tests.states import ran
from tests.traces import make_trace
from visformer.pictures.selection import AttentionCell
from visformer.session.state import Session
from visformer.session.tree import click_source

TRACE = make_trace(source=6, target=4, layers=3, heads=4)


def click(session: Session, token: int) -> None:
    session.go(click_source(session.state, token))


def shown() -> Session:
    session = Session()
    session.set(**ran(TRACE), step=3, kind="cross", layer=1, head=2)
    return session


def test_a_token_shows_what_it_reads_and_goes_again() -> None:
    session = shown()
    click(session, 4)
    best = int(TRACE.attention("encoder", 1, 2)[4].argmax())
    assert session.state.kind == "encoder"
    assert session.state.locked == AttentionCell("encoder", 4, best)
    click(session, 4)
    assert session.state.locked is None


def test_a_second_token_finds_the_head_that_reads_it() -> None:
    session = shown()
    click(session, 4)
    for token in (1, 5):  # one question after another
        click(session, token)
        state = session.state
        assert state.locked == AttentionCell("encoder", 4, token)
        weights = np.array(
            [
                [TRACE.attention("encoder", layer, head)[4, token] for head in range(4)]
                for layer in range(3)
            ]
        )
        assert (state.layer, state.head) == divmod(int(weights.argmax()), 4)
        assert state.look.order == "cell"


def test_a_cell_of_another_kind_is_no_question() -> None:
    session = shown()
    session.set(locked=AttentionCell("cross", 1, 2))
    click(session, 4)
    locked = session.state.locked
    assert locked is not None
    assert locked[:2] == ("encoder", 4)


def test_without_a_run_nothing_happens() -> None:
    state = Session().state
    assert click_source(state, 0) is state
