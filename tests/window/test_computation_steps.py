"""The Computation tab from step to step: what changes is shown, the rest is kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QApplication, QTabBar
from pytestqt.qtbot import QtBot

from tests.unit.pictures.computed import state_of, traced
from tests.window.parts import settle
from tests.window.windows import make_view, show
from visformer.pictures.computation.stages import STAGES
from visformer.pictures.picture import Numbers
from visformer.pictures.selection import AttentionCell
from visformer.session.state import State
from visformer.ui.look.theme import set_motion
from visformer.ui.views.computation.computation import ComputationView
from visformer.ui.widgets.heatmap import HeatMap
from visformer.ui.widgets.number_table import NumberTable
from visformer.ui.widgets.table_view import TitleHeader
from visformer.values.facts import Kind

CHECKPOINT, TRACE = traced()
NUMBERS = Numbers(
    rows=("a", "b"),
    columns=("x", "y", "z"),
    values=np.array([[0.5, np.nan, 1], [2, 3, 4]], np.float32),
    axis="key",
)


def state(**changes: Any) -> State:
    return state_of(CHECKPOINT, TRACE, **changes)


def view_on(qtbot: QtBot, first: State) -> ComputationView:
    view = make_view(qtbot, ComputationView, 1000, 700)
    show(view, first)
    return view


def image(view: ComputationView) -> QImage:
    """Paint a view that has no focus, as only one window at a time has it."""
    settle(3)
    focused = QApplication.focusWidget()
    if focused is not None:
        focused.clearFocus()
    return view.grab().toImage()


@pytest.fixture(autouse=True)
def still(usual_look: None) -> None:
    set_motion(False)


@pytest.mark.parametrize("stage", [stage.name for stage in STAGES])
def test_after_steps_a_stage_looks_as_if_it_were_opened_there(
    qtbot: QtBot, stage: str
) -> None:
    view = view_on(qtbot, state(step=2, stage=stage))
    for locked in (None, AttentionCell("cross", 1, 2)):
        look = {"stage": stage, "locked": locked}
        for step in (2, 4, 3):
            show(view, state(step=step, **look))
            image(view)
        fresh = view_on(qtbot, state(step=3, **look))
        assert image(view) == image(fresh)


@pytest.mark.parametrize(
    ("kind", "stage", "kept"),
    [
        ("encoder", "product", {0, 1, 2}),  # the source is the same at each step
        ("cross", "product", {1}),  # as are its keys
        ("decoder", "product", set()),
    ],
)
def test_a_matrix_that_a_step_leaves_alone_is_not_drawn_again(
    qtbot: QtBot,
    kind: Kind,
    stage: str,
    kept: set[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    view = view_on(qtbot, state(step=3, kind=kind, stage=stage))
    drawn: list[HeatMap] = []
    draw = HeatMap.draw

    def counted(self: HeatMap, *given: Any, **room: Any) -> None:
        drawn.append(self)
        draw(self, *given, **room)

    monkeypatch.setattr(HeatMap, "draw", counted)
    show(view, state(step=4, kind=kind, stage=stage))
    visible = {at for at, one in enumerate(view.maps.maps) if one.isVisible()}
    assert visible - {view.maps.maps.index(one) for one in drawn} == kept


@pytest.mark.parametrize("kind", ["cross", "decoder"])
def test_a_step_moves_no_cell(qtbot: QtBot, kind: Kind) -> None:
    """There is room for the rows to come, and for their labels."""
    grow = {"weighted", "sublayers"}  # their tables have a row per token
    stages = [stage.name for stage in STAGES if stage.name not in grow]
    view = view_on(qtbot, state(step=4, kind=kind, stage=stages[0]))
    for stage in stages:
        places = []
        for step in (1, 4):
            show(view, state(step=step, kind=kind, stage=stage))
            QApplication.processEvents()
            maps = [one.canvas for one in view.maps.maps if one.isVisible()]
            places.append([(one.geometry(), one.box(0, 0)) for one in maps])
        assert places[0] == places[1]


def test_tabs_are_named_once(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    view = view_on(qtbot, state(step=3))
    named: list[str] = []
    monkeypatch.setattr(
        QTabBar, "setTabText", lambda _self, _at, title: named.append(title)
    )
    show(view, state(step=4))
    assert not named


@pytest.mark.parametrize(
    "changes",
    [
        {"values": NUMBERS.values + 1},
        {"rows": ("b", "a")},
        {"columns": ("x", "y", "w")},
        {"flags": (1,)},
        {"full": (2.0, 8.0)},
        {"by": "all"},
    ],
)
def test_a_table_of_other_numbers_is_painted_anew(
    qtbot: QtBot, changes: dict[str, Any]
) -> None:
    table, fresh = NumberTable("table"), NumberTable("table")
    other = replace(NUMBERS, **changes)
    for one in (table, fresh):
        qtbot.addWidget(one)
        one.resize(500, 160)
    table.draw(NUMBERS)
    before = table.grab().toImage()
    table.draw(other)
    fresh.draw(other)
    assert table.grab().toImage() == fresh.grab().toImage() != before


def test_shorter_names_of_rows_move_nothing_in_a_table(qtbot: QtBot) -> None:
    table = NumberTable("table")
    qtbot.addWidget(table)
    table.resize(500, 160)
    wide = []
    long, short = ("a", "a long name"), ("a", "b")
    for changes in (
        {"rows": long, "axis": "model"},
        {"rows": short, "axis": "model"},
        {"rows": short, "axis": "inner"},
    ):
        table.draw(replace(NUMBERS, **changes))  # type: ignore[arg-type]
        wide.append(table.verticalHeader().width())
    assert wide[0] == wide[1] > wide[2]  # other numbers begin anew


def test_a_table_of_the_same_numbers_is_left_alone(qtbot: QtBot) -> None:
    table = NumberTable("table")
    qtbot.addWidget(table)
    table.draw(NUMBERS)
    bars = table.bars
    table.draw(replace(NUMBERS, values=NUMBERS.values.copy()))
    assert table.bars is bars


def test_titles_of_another_height_are_measured(qtbot: QtBot) -> None:
    table = NumberTable("table")
    qtbot.addWidget(table)
    table.draw(NUMBERS)
    row = table.horizontalHeader()
    assert isinstance(row, TitleHeader)
    before = row.sizeHint()
    font = row.font()
    font.setPointSizeF(2 * font.pointSizeF())
    row.setFont(font)
    assert row.sizeHint().height() > before.height()
    table.draw(replace(NUMBERS, columns=tuple(3 * name for name in NUMBERS.columns)))
    assert row.sizeHint().width() > 1.5 * before.width()
