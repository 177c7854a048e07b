from __future__ import annotations

from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QTableView

from visformer.ui.widgets.number_table import Role, TableModel


def test_two_functions_say_what_stands_in_a_table(
    qtbot: Any, qtmodeltester: Any
) -> None:
    def cell(row: int, column: int, role: int) -> object:
        return f"{row} {column}" if role == Role.DisplayRole else None

    def title(section: int, orientation: Qt.Orientation, role: int) -> object:
        across = orientation == Qt.Orientation.Horizontal
        return f"{'column' if across else 'row'} {section}"

    table = QTableView()
    qtbot.addWidget(table)
    model = TableModel(table, cell, title)
    table.setModel(model)
    assert (model.rowCount(), model.columnCount()) == (0, 0)
    with qtbot.waitSignal(model.modelReset):
        model.reset(2, 3)
    qtmodeltester.check(model)
    assert model.index(1, 2).data() == "1 2"
    assert model.headerData(2, Qt.Orientation.Horizontal) == "column 2"
    assert model.headerData(1, Qt.Orientation.Vertical) == "row 1"
    assert model.rowCount(model.index(0, 0)) == 0
