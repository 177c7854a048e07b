"""What comes and goes with a step moves nothing else, and is laid out once."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QRect
from PySide6.QtWidgets import QTableView, QWidget
from pytestqt.qtbot import QtBot

from tests.traces import make_trace
from tests.window.parts import settle
from tests.window.seen import Seen, parts
from visformer.pictures.picture import Numbers
from visformer.session.runs import show_trace
from visformer.ui.views.masks.masks import MaskThumb
from visformer.ui.views.output.output import BarChart
from visformer.ui.views.view import PagedView
from visformer.ui.widgets.heatmap import HeatMap
from visformer.ui.widgets.number_table import NumberTable
from visformer.ui.window.window import MainWindow

STEPS = 30
PLACES = (
    *(("computation", stage) for stage in ("product", "mask", "softmax")),
    *(("masks", page) for page in ("masks", "lab")),
    ("output", "next"),
)
PARTS = HeatMap, QTableView, BarChart


def places(view: QWidget) -> dict[QWidget, QRect]:
    """Return where each part that can be seen lies in the view."""
    return {
        part: QRect(part.mapTo(view, part.rect().topLeft()), part.size())
        for part in parts(view, *PARTS)
        if part.isVisible()
    }


def look(window: MainWindow, tab: str, page: str) -> QWidget:
    """Show a place of the window at the last step, once at the first one before."""
    window.session.do(show_trace, make_trace(12, STEPS, heads=4))
    window.session.set(tab=tab, kind="decoder")
    view = window.tabs.view(tab)
    if isinstance(view, PagedView):
        view.turn(page)
    elif page:
        window.session.set(stage=page)
    for step in (STEPS, 0, STEPS):
        window.session.set(step=step)
        settle()
    return view


@pytest.mark.parametrize(("tab", "page"), PLACES)
def test_a_jump_lays_no_picture_out_twice_and_the_first_step_moves_none(
    window: MainWindow, tab: str, page: str
) -> None:
    view = look(window, tab, page)
    for step in (0, STEPS, 1, STEPS):
        seen = Seen(view, *PARTS)
        window.session.set(step=step)
        settle()
        assert seen.most(QEvent.Type.Resize) <= 1, step
    there, seen = places(view), Seen(view, *PARTS)
    assert there
    window.session.set(step=0)
    settle()
    at_first = places(view)
    assert all(at_first[part] == there[part] for part in at_first.keys() & there.keys())
    window.session.set(step=STEPS)
    settle()
    assert places(view) == there
    assert not seen.most(QEvent.Type.Resize)


@pytest.mark.parametrize(("tab", "page"), PLACES[3:])
def test_what_is_said_elsewhere_draws_no_map_again(
    window: MainWindow, monkeypatch: pytest.MonkeyPatch, tab: str, page: str
) -> None:
    look(window, tab, page)
    monkeypatch.setattr(HeatMap, "draw", None)
    window.session.set(notice="something")


def test_a_table_without_numbers_keeps_the_room_of_the_last_ones(qtbot: QtBot) -> None:
    table = NumberTable("table")
    qtbot.addWidget(table)
    values = np.ones((6, 4), np.float32)
    numbers = Numbers(
        rows=tuple("abcdef"), columns=tuple("wxyz"), values=values, axis=""
    )
    table.resize(400, 300)
    table.show()
    table.draw(numbers)
    room = table.sizeHint()
    table.draw(None)
    table.resize(500, 300)
    assert table.sizeHint() == room


def test_a_step_paints_only_the_masks_that_it_changes(window: MainWindow) -> None:
    seen = Seen(look(window, "masks", "masks"), MaskThumb)
    window.session.set(step=STEPS - 1)
    settle()
    painted = {part for part, kind in seen.of if kind == QEvent.Type.Paint}
    assert {part.accessibleName() for part in painted} == {
        "causal mask of decoder self attention",
        "combined mask of decoder self attention",
    }
