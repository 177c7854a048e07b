"""The bars behind the numbers of tables: where they begin and how long they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QRectF, Qt
from PySide6.QtWidgets import QApplication, QTableView

from tests.states import showing as state
from tests.traces import make_trace
from tests.window.painted import painted
from visformer.pictures.picture import Numbers
from visformer.ui.bars.candidates import CandidatesPanel
from visformer.ui.widgets.number_table import NumberTable


def bars(table: QTableView, row: int, column: int) -> list[QRectF]:
    """Return what is filled in a cell, in pixels from the cell's left edge."""
    place = table.visualRect(table.model().index(row, column))
    cell = QRectF(place.translated(table.viewport().pos()))
    boxes = painted(table, table.viewport()).boxes
    inside = [b.rect for b in boxes if b.brush != "none" and cell.contains(b.rect)]
    return [r.translated(-cell.topLeft()) for r in inside if r.width() < cell.width()]


@pytest.mark.parametrize("negative", [True, False])
def test_bars_begin_in_the_middle_where_numbers_are_negative(
    qtbot: Any, negative: bool
) -> None:
    table = NumberTable("table")
    qtbot.addWidget(table)
    table.resize(400, 200)
    values = np.array([[-1 if negative else 0, 0.5, 1]], np.float32)
    table.draw(Numbers(rows=("a",), columns=("x", "y", "z"), values=values, axis=""))
    table.show()
    wide = table.columnWidth(0)
    zero = wide / 2 if negative else 0
    room = wide - zero
    half, whole = (bars(table, 0, column)[0] for column in (1, 2))
    assert half.left() == pytest.approx(zero, abs=3)
    assert half.width() == pytest.approx(room / 2, abs=4)
    assert whole.left() == pytest.approx(zero, abs=3)
    assert whole.right() == pytest.approx(wide, abs=4)
    if negative:
        (minus,) = bars(table, 0, 0)
        assert minus.left() == pytest.approx(0, abs=3)
        assert minus.right() == pytest.approx(zero, abs=3)


def test_a_candidates_bar_is_as_long_as_it_is_probable(qtbot: Any) -> None:
    panel = CandidatesPanel()
    qtbot.addWidget(panel)
    panel.resize(400, 600)
    panel.draw(state(make_trace(), 2))
    panel.show()
    QApplication.processEvents()  # everything has its place now
    table, wide = panel.table, panel.table.viewport().width()
    assert any(row.chosen for row in panel.rows)  # its bar is seen too
    for row, candidate in enumerate(panel.rows):
        ends = [bar.right() for bar in filled(table, row)]
        assert max(ends, default=0) == pytest.approx(
            candidate.probability * wide, abs=2
        )


def filled(table: QTableView, row: int) -> list[QRectF]:
    """Return what is filled behind a row's texts, in pixels from its left edge."""
    top, high = table.rowViewportPosition(row), table.rowHeight(row)
    line = QRectF(0, top, table.viewport().width(), high)
    line.translate(table.viewport().pos())
    boxes = painted(table, table.viewport()).boxes
    inside = [b.rect for b in boxes if b.brush != "none" and line.contains(b.rect)]
    return [r.translated(-line.topLeft()) for r in inside if r.height() < high]


@pytest.mark.parametrize("width", [240, 600])
def test_candidates_fill_the_width_of_their_table(qtbot: Any, width: int) -> None:
    panel = CandidatesPanel()
    qtbot.addWidget(panel)
    panel.resize(width, 300)
    panel.show()
    panel.draw(state(make_trace(), 2))
    header = panel.table.horizontalHeader()
    assert header.length() == panel.table.viewport().width()


def test_what_is_not_kept_is_empty_and_what_is_nan_says_so(qtbot: Any) -> None:
    table = NumberTable("table")
    qtbot.addWidget(table)
    table.resize(400, 200)
    values = np.array([[0.5, np.nan, np.nan]], np.float32)
    kept = np.array([[True, False, True]])
    names = ("x", "y", "z")
    table.draw(Numbers(rows=("a",), columns=names, values=values, axis="", kept=kept))
    model = table.model()
    roles = Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole
    texts, tips = (
        [model.data(model.index(0, column), role) for column in range(3)]
        for role in roles
    )
    assert texts == ["0.5000", "", "NaN"]
    assert "not kept" in tips[1]
    assert "nan" in tips[2]


def test_where_there_are_no_numbers_yet_their_room_stays(qtbot: Any) -> None:
    table = NumberTable("table")
    qtbot.addWidget(table)
    table.resize(200, 200)
    table.show()
    columns = tuple(f"d{at}" for at in range(9))
    values = np.linspace(0.1, 1, 9, dtype=np.float32)[None]
    numbers = Numbers(
        rows=("a long name",), columns=columns, values=values, axis="model"
    )
    table.draw(numbers)
    table.horizontalScrollBar().setValue(60)
    before = painted(table)
    assert any(word.text == "a long name" for word in before.words)
    table.draw(None)
    assert painted(table).words == []
    table.draw(numbers)
    assert painted(table) == before
    table.draw(replace(numbers, rows=("b",)))
    other = painted(table)
    assert any(word.text == "b" for word in other.words)
    assert not any(word.text == "a long name" for word in other.words)


def test_the_first_step_moves_nothing_below_the_next_tokens(qtbot: Any) -> None:
    panel = CandidatesPanel()
    qtbot.addWidget(panel)
    panel.resize(300, 600)
    panel.show()
    trace = make_trace()
    panel.draw(state(trace, 1))
    QApplication.processEvents()
    places = [part.geometry() for part in (panel.table, panel.others, panel.field)]
    panel.draw(state(trace, 0))
    QApplication.processEvents()
    words = painted(panel.table, panel.table.viewport()).words
    assert [word.text for word in words] == ["nothing decoded yet: step forward"]
    assert not panel.field.isVisible()
    panel.draw(state(trace, 1))
    assert places == [
        part.geometry() for part in (panel.table, panel.others, panel.field)
    ]
