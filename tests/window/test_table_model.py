"""The model of every table: rows under columns that say how each is written."""

from __future__ import annotations

from collections import UserList
from typing import Any

from PySide6.QtCore import Qt

from visformer.ui.widgets.table_view import Role, TableColumn, TableView, number_column


def test_columns_say_what_stands_in_a_table(qtbot: Any, qtmodeltester: Any) -> None:
    columns = (
        TableColumn("name", str, about="what <it> is", tip=lambda row: f"<{row}>"),
        number_column("half", lambda row: row / 2, 1),
    )
    table = TableView("table", columns, names=TableColumn("", "row {}".format))
    qtbot.addWidget(table)
    model = table.model()
    assert (model.rowCount(), model.columnCount()) == (0, 2)
    with qtbot.waitSignal(model.modelReset):
        table.fill(range(3))
    qtmodeltester.check(model)
    with qtbot.waitSignal(model.dataChanged):
        table.fill(range(3))
    assert model.index(2, 1).data() == "1.0"
    assert model.index(1, 0).data(Role.ToolTipRole) == "<qt>&lt;1&gt;</qt>"
    assert model.headerData(1, Qt.Orientation.Horizontal) == "half"
    about = model.headerData(0, Qt.Orientation.Horizontal, Role.ToolTipRole)
    assert about == "<qt>what &lt;it&gt; is</qt>"
    assert model.headerData(1, Qt.Orientation.Vertical) == "row 1"
    assert model.rowCount(model.index(0, 0)) == 0


def test_no_row_out_of_sight_is_made(qtbot: Any) -> None:
    asked: set[int] = set()

    class Rows(UserList[int]):
        def __getitem__(self, at: Any) -> Any:
            asked.add(at)
            return super().__getitem__(at)

    table = TableView("table", (TableColumn("name", str),))
    qtbot.addWidget(table)
    table.resize(300, 200)
    table.show()
    rows = Rows(range(58_000))
    table.fill(rows)
    table.grab()
    assert 0 < len(asked) < 30
