"""What the bars of a table of numbers are measured by: masked scores are left out."""

from __future__ import annotations

import numpy as np
import pytest
from pytestqt.qtbot import QtBot

from tests.window.painted import Box, painted
from visformer.pictures.picture import Numbers
from visformer.ui.widgets.number_table import NumberTable


def filled(qtbot: QtBot, *row: float) -> list[Box]:
    """Return what a table of one row fills."""
    table = NumberTable("table")
    qtbot.addWidget(table)
    table.resize(600, 200)
    columns, values = tuple("xyz"[: len(row)]), np.array([row], np.float32)
    table.draw(Numbers(rows=("a",), columns=columns, values=values, axis=""))
    return [box for box in painted(table).boxes if box.brush != "none"]


@pytest.mark.parametrize("masked", [-1e5, -1e8, -1e9, -np.inf])
def test_bars_are_as_long_beside_a_masked_score_as_beside_none(
    qtbot: QtBot, masked: float
) -> None:
    assert filled(qtbot, 0.5, 1, masked) == filled(qtbot, 0.5, 1, 0)


def test_bars_are_shorter_beside_a_larger_number(qtbot: QtBot) -> None:
    assert filled(qtbot, 0.5, 1, 2) != filled(qtbot, 0.5, 1, 0)
    assert filled(qtbot, 0.5, 1, -2) != filled(qtbot, 0.5, 1, 0)
    # in proportion: twice all numbers are the same bars
    assert filled(qtbot, 0.5, 1, 2) == filled(qtbot, 1, 2, 4)
