from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.states import showing
from tests.traces import make_trace
from tests.unit.pictures.test_maps import by_hand, looked
from visformer.pictures.attention.cell_words import cell_words
from visformer.pictures.selection import AttentionCell
from visformer.session.state import State
from visformer.values.trace import Trace


def blind(fill: float) -> Trace:
    """Build a Trace whose second query may attend to nothing."""
    trace = make_trace(source=4, target=2, masked_value=fill)
    mask = np.array([[True] * 4, [False] * 4])
    return replace(trace, masks={**trace.masks, "cross": mask})


def test_no_cell_no_words() -> None:
    assert cell_words(*looked(State())) == ""
    assert cell_words(*looked(showing(make_trace()))) == ""


def test_a_cell_is_said_with_four_digits() -> None:
    words = cell_words(
        *looked(showing(by_hand(), hovered=AttentionCell("cross", 0, 1)))
    )
    assert words == "cross · layer 1, head 1 · “t0” after “<s>” reads “s1”: 0.2500"


def test_layer_and_head_count_from_one() -> None:
    shown = showing(
        make_trace(), layer=1, head=1, locked=AttentionCell("encoder", 0, 0)
    )
    assert "encoder self · layer 2, head 2" in cell_words(*looked(shown))


def test_a_masked_cell_is_said_to_be_masked() -> None:
    words = cell_words(
        *looked(showing(make_trace(), locked=AttentionCell("decoder", 0, 2)))
    )
    assert words.endswith("reads “t1”: 0, masked")


@pytest.mark.parametrize(
    ("fill", "words"),
    [
        (-1e9, "0.2500, masked; this query may attend to nothing, so all keys get"),
        (-np.inf, "NaN, masked; this query may attend to nothing, so all its weights"),
    ],
)
def test_a_row_that_attends_to_nothing_is_said(fill: float, words: str) -> None:
    shown = showing(blind(fill), locked=AttentionCell("cross", 1, 2))
    assert words in cell_words(*looked(shown))
