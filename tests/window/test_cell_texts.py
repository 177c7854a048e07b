"""What is written in the cells of a map: a token, and a number where there is room."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from PySide6.QtGui import QColor, QFontMetricsF
from PySide6.QtWidgets import QWidget

from tests.window.painted import fixed_font, painted
from tests.window.test_painted_map import cell, middle_of, named
from tests.window.test_painted_values import shown_map
from visformer.ui.views.output.output import CellTexts
from visformer.ui.widgets.canvas import Canvas
from visformer.ui.widgets.heatmap import HeatMap


def test_what_is_written_in_a_cell_stands_in_it(qtbot: Any) -> None:
    heat_map = shown_map(qtbot, HeatMap("map"))
    values = np.zeros((3, 4), np.float32)
    values[2, 3] = 1
    heat_map.draw(named(values=values, shade=values))
    written = CellTexts(heat_map.canvas)
    written.setGeometry(heat_map.canvas.rect())
    written.show()
    texts = tuple(
        tuple((f"t{row}{column}", f"n{row}{column}") for column in range(4))
        for row in range(3)
    )
    written.draw(heat_map.matrix, texts)
    picture = painted(heat_map)
    for row, column in np.ndindex(3, 4):
        token, number = (picture.word(text) for text in texts[row][column])
        for word in (token, number):
            at, box = middle_of(word, heat_map), cell(heat_map, row, column)
            assert box.contains(at)
            assert at.x() == pytest.approx(box.center().x(), abs=2)
        assert token.y < number.y
        light = QColor(token.ink).lightness() > 128
        assert light == (values[row, column] == 1)  # its ground is dark


@pytest.mark.parametrize(("columns", "numbered"), [(3, True), (8, False)])
def test_a_long_token_leaves_room_for_its_number(
    qtbot: Any, columns: int, numbered: bool
) -> None:
    values = np.zeros((4, columns), np.float32)
    around = QWidget()
    qtbot.addWidget(around)
    canvas = Canvas(around)
    fixed_font(canvas)
    canvas.resize(400, 100)
    canvas.set_whole(*values.shape)
    written = CellTexts(canvas)
    written.resize(canvas.size())
    texts = tuple((("abcdefghij" * 3, ".12"),) * columns for _ in values)
    written.draw(named(values=values, shade=values), texts)
    words = painted(written).words
    tokens = [word for word in words if word.text.startswith("abc")]
    numbers = [word for word in words if word.text == ".12"]
    assert len(tokens) == values.size
    assert len(numbers) == (values.size if numbered else 0)
    for token, number in zip(tokens, numbers, strict=False):
        wide = QFontMetricsF(token.font).horizontalAdvance(token.text)
        assert token.x + wide < number.x


def test_a_number_that_is_nearly_0_is_not_written(qtbot: Any) -> None:
    heat_map = shown_map(qtbot, HeatMap("map"))
    values = np.zeros((1, 2), np.float32)
    heat_map.draw(named(values=values, shade=values))
    written = CellTexts(heat_map.canvas)
    written.setGeometry(heat_map.canvas.rect())
    written.show()
    written.draw(heat_map.matrix, ((("il", ".57"), ("on", "~0")),))
    texts = {word.text for word in painted(written).words}
    assert texts == {"il", ".57", "on"}
