from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QFileDialog, QWidget

from visformer.pictures.picture import Table
from visformer.ui.widgets import export as exports
from visformer.ui.widgets.export import CSV, MODIFIED, PNG, Export, Format

TABLE = Table(("a",), ("b", "c"), np.array([[1, 0.1]], np.float32), "")
JSON = Format(
    "Copy as &JSON",
    "Save as &JSON…",
    "numbers.json",
    lambda _, table: json.dumps({"columns": table.columns, "about": table.about}),
)


@pytest.fixture
def widget(qtbot: Any) -> QWidget:
    widget = QWidget()
    qtbot.addWidget(widget)
    widget.resize(40, 30)
    return widget


def test_a_format_is_one_entry(
    widget: QWidget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "FORMATS", (PNG, CSV, JSON))
    path = tmp_path / "numbers.json"
    asked = []

    def ask(*arguments: object) -> tuple[str, str]:
        asked.append(arguments[1:])
        return str(path), ""

    monkeypatch.setattr(QFileDialog, "getSaveFileName", ask)
    copy, save = Export(widget, lambda: TABLE).menu().actions()[-2:]
    assert (copy.text(), save.text()) == ("Copy as &JSON", "Save as &JSON…")
    copy.trigger()
    save.trigger()
    text = QGuiApplication.clipboard().text()
    assert json.loads(text) == {"columns": ["b", "c"], "about": ""}
    assert path.read_text(encoding="utf-8") == text
    assert asked == [("Save numbers.json", "numbers.json", "*.json")]


def test_what_altered_the_run_stands_with_what_the_numbers_are(widget: QWidget) -> None:
    export = Export(widget, lambda: TABLE)
    export.copy(CSV)
    plain = QGuiApplication.clipboard().text()
    assert plain == ',"b","c"\n"a",1.0,0.10000000149011612\n'
    widget.setProperty(MODIFIED, 'modified run: "hide"')
    export.copy(CSV)
    header, rows = QGuiApplication.clipboard().text().split("\n", 1)
    assert header == '"modified run: ""hide""","b","c"'
    assert rows == plain.split("\n", 1)[1]


def test_nothing_is_copied_where_there_is_nothing(widget: QWidget) -> None:
    export = Export(widget, lambda: None)
    assert not any(entry.isEnabled() for entry in export.menu().actions())
    QGuiApplication.clipboard().setText("before")
    export.copy(CSV)
    assert QGuiApplication.clipboard().text() == "before"
