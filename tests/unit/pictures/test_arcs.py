from __future__ import annotations

from typing import Any

import numpy as np

from tests.existing import existing
from tests.states import showing
from tests.traces import make_trace
from tests.unit.pictures.test_maps import by_hand, looked
from visformer.pictures.attention.arcs import arc_words, arcs
from visformer.pictures.attention.reading import attention_map
from visformer.pictures.picture import Matrix
from visformer.pictures.selection import Look


def cross(**changes: Any) -> Matrix:
    picture = existing(
        attention_map(*looked(showing(by_hand(), **changes)), "cross")
    )  # 0.75, 0.25
    return picture


def test_the_fewest_keys_get_arcs_the_weakest_first() -> None:
    found = arcs(cross(), 0.9, range(1))
    assert found.columns.tolist() == [1, 0]
    assert np.allclose(found.strengths, [0.25, 0.75])
    assert arcs(cross(), 0.7, range(1)).columns.tolist() == [0]


def test_strengths_follow_the_scale_and_the_choice_does_not() -> None:
    assert np.allclose(arcs(cross(scale="head"), 0.9, range(1)).strengths, [1 / 3, 1])


def test_only_the_rows_asked_for_are_drawn() -> None:
    trace = make_trace(9, 8)
    picture = existing(attention_map(*looked(showing(trace)), "cross"))
    found = arcs(picture, 1.0, range(3, 5))
    assert sorted(set(found.rows.tolist())) == [3, 4]
    assert len(found.rows) == 2 * 9


def test_words_say_the_share_and_the_scale() -> None:
    words = arc_words(Look(mass=0.5), cross(scale="head"))
    assert words == "fewest keys with 50% of each row; width 0 to 0.75"
