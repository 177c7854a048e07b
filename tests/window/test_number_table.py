"""A table of numbers keeps the row and the column in sight that are looked at."""

from __future__ import annotations

import numpy as np
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from visformer.pictures.picture import Numbers
from visformer.ui.widgets.number_table import NumberTable


def test_the_chosen_column_comes_into_sight(qtbot: QtBot) -> None:
    table = NumberTable("table")
    qtbot.addWidget(table)
    values = np.zeros((2, 60), np.float32)
    names = tuple(f"dim {at}" for at in range(60))
    table.draw(Numbers(rows=("a", "b"), columns=names, values=values, axis="model"))
    table.resize(500, 160)
    table.show()
    for column in (40, 3, 59):
        table.mark(None, column)
        left = table.columnViewportPosition(column)
        assert 0 <= left <= table.viewport().width() - table.columnWidth(column)
        bar = table.horizontalScrollBar()
        first = table.columnAt(0)  # nothing is half behind the names of the rows
        at_end = bar.value() == bar.maximum()
        assert table.columnViewportPosition(first) == 0 or at_end
    assert at_end  # of the last column alone
    before = table.horizontalScrollBar().value()
    table.mark(None, 58)  # in sight: nothing moves
    assert table.horizontalScrollBar().value() == before


def test_longer_names_of_rows_cover_no_number(qtbot: QtBot) -> None:
    table = NumberTable("table")
    qtbot.addWidget(table)
    table.resize(500, 160)
    table.show()
    values = np.zeros((2, 60), np.float32)
    columns = tuple(f"dim {at}" for at in range(60))
    for rows in (("a", "b"), ("exp(score - maximum)", "b"), ("weight", "b")):
        table.draw(Numbers(rows=rows, columns=columns, values=values, axis="model"))
        if table.marked[1] is None:  # the last column that is whole in sight
            table.mark(None, table.columnAt(table.viewport().width() - 1) - 1)
        QApplication.processEvents()
        column = table.marked[1] or 0
        left, wide = table.columnViewportPosition(column), table.columnWidth(column)
        assert 0 <= left <= table.viewport().width() - wide  # it stays in sight
        names = table.verticalHeader()
        assert names.isVisible()
        assert names.geometry().right() < table.viewport().x()


def test_the_last_row_stays_in_sight_while_a_run_grows(qtbot: QtBot) -> None:
    table = NumberTable("table")
    qtbot.addWidget(table)
    table.set_room(160)
    table.show()
    columns = "x", "y"

    def in_sight(row: int) -> bool:
        top, high = table.rowViewportPosition(row), table.rowHeight(row)
        return 0 <= top <= table.viewport().height() - high

    for count in range(1, 30):
        names = tuple(f"row {at}" for at in range(count))
        values = np.zeros((count, 2), np.float32)
        table.draw(Numbers(rows=names, columns=columns, values=values, axis="model"))
        table.resize(500, 160)  # with more rows it may be higher
        table.mark(count - 1, None)
        assert in_sight(count - 1)
        QApplication.processEvents()
        assert in_sight(count - 1)
    table.mark(3, None)
    assert in_sight(3)
    before = table.verticalScrollBar().value()
    table.mark(4, None)  # in sight: nothing moves
    assert table.verticalScrollBar().value() == before
