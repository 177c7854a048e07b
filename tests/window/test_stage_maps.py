"""The matrices of a stage in large text: in sight in all rows, nothing overprinted."""

from __future__ import annotations

import gc
from dataclasses import replace

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QCursor
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from tests.unit.pictures.computed import state_of, traced
from tests.window.painted import painted
from tests.window.parts import settle, unwrap
from tests.window.windows import make_view, show
from visformer.core.side_runs import layer_parameters
from visformer.pictures.computation.stages import STAGES
from visformer.pictures.selection import AttentionCell, StageOptions
from visformer.session.runs import show_trace
from visformer.ui.look.theme import sized
from visformer.ui.views.computation.computation import ComputationView
from visformer.values.layer_weights import LayerParameters
from visformer.values.memo import Memo

CHECKPOINT, TRACE = traced()
ROOM = 1000, 560  # pixels that a view has at 150 % on 1280 x 800


@pytest.mark.parametrize("stage", ["projections", "scale"])
def test_rows_that_are_compared_are_all_in_sight(qtbot: QtBot, stage: str) -> None:
    weights = layer_parameters(CHECKPOINT, "decoder", 0)
    view = make_view(qtbot, ComputationView)
    view.setFont(sized(view.font(), 1.5))
    view.resize(*ROOM)
    view.show()
    show(view, state_of(CHECKPOINT, TRACE, stage=stage, parameters=weights))
    for _turn in range(3):
        QApplication.processEvents()
        view.resize(*ROOM)
    shown = [one for one in view.maps.maps if one.isVisible()]
    assert len(shown) == (9 if stage == "projections" else 4)
    for one in shown:
        assert one.mapTo(view, QPoint(0, one.height())).y() <= ROOM[1]
        title = one.heading.title.mapTo(view, QPoint(0, one.heading.title.height())).y()
        words = painted(one, one.row_labels).words
        assert words
        highest = min(word.y for word in words) - one.fontMetrics().ascent()
        assert one.mapTo(view, QPoint()).y() + highest >= title - 3


def test_weights_are_let_go_with_the_stage_that_showed_them(qtbot: QtBot) -> None:
    """Whatever stages, layers and models were looked at before, few are held."""
    before = layers_held()
    view = make_view(qtbot, ComputationView)
    for stage in [stage.name for stage in STAGES if stage.weighs]:
        for shown in (stage, "softmax"):
            weights = layer_parameters(CHECKPOINT, "decoder", 0)
            run = replace(TRACE, memo=Memo())
            show(view, state_of(CHECKPOINT, run, stage=shown, parameters=weights))
    del weights, run
    # of the State that is shown, and of the one before
    assert layers_held() - before <= 2


def layers_held() -> int:
    """Count the layers whose weights are in memory."""
    gc.collect()
    return sum(type(one) is LayerParameters for one in gc.get_objects())


def test_a_value_stands_in_the_map_that_the_mouse_is_on(qtbot: QtBot) -> None:
    """Also where Qt takes it to be on another one too, which it left unseen."""
    weights = layer_parameters(CHECKPOINT, "decoder", 0)
    view = make_view(qtbot, ComputationView, *ROOM)
    show(view, state_of(CHECKPOINT, TRACE, stage="softmax", parameters=weights))
    QApplication.processEvents()
    shown = [one for one in view.maps.maps if one.isVisible()]
    for one in shown:
        one.setAttribute(Qt.WidgetAttribute.WA_UnderMouse)
    for at in (1, 0):
        QCursor.setPos(shown[at].mapToGlobal(shown[at].rect().center()))
        show(view, replace(view.session.state, hovered=AttentionCell("cross", 2, at)))
        assert [one.value.isVisible() for one in shown] == [at == 0, at == 1]


@pytest.mark.parametrize("stage", [stage.name for stage in STAGES])
def test_a_row_is_level_in_all_maps_beside_each_other(qtbot: QtBot, stage: str) -> None:
    """In a window, in another size of text, in a lower one, and for an audience."""
    weights = layer_parameters(CHECKPOINT, "decoder", 0)
    view = make_view(qtbot, ComputationView, 1280, 700)
    show(view, state_of(CHECKPOINT, TRACE, stage=stage, parameters=weights))
    assert_level(view)
    view.setFont(sized(view.font(), 1.5))
    assert_level(view)
    view.resize(*ROOM)
    assert_level(view)
    view.maps.present(on=True)
    assert_level(view)


def assert_level(view: ComputationView) -> None:
    """Assert that maps at one height have their cells at one height."""
    settle(3)
    rows: dict[int, set[tuple[int, int]]] = {}
    for one in view.maps.maps:
        if one.isVisible():
            cells = one.canvas.geometry()
            rows.setdefault(one.y(), set()).add((cells.top(), cells.bottom()))
    assert rows
    assert all(len(spans) == 1 for spans in rows.values()), rows


# ---- fields of single stages ------------------------------------------------------


@pytest.fixture
def view(qtbot: QtBot) -> ComputationView:
    checkpoint, trace = traced()
    view = make_view(qtbot, ComputationView)
    view.session.do(show_trace, trace)
    parameters = state_of(checkpoint, trace).parameters
    view.session.set(parameters=parameters, kind="cross", layer=0, step=len(trace))
    view.resize(1000, 700)
    view.show()
    return view


def test_they_stand_at_their_stage(view: ComputationView) -> None:
    for stage, there in (("w2", False), ("dropout", True), ("mask", False)):
        view.session.set(stage=stage)
        assert view.fields.isVisible() == view.fields.rate.isVisible() == there


def test_another_rate_and_another_draw(view: ComputationView) -> None:
    view.session.set(stage="dropout")
    assert view.fields.rate.value() == 0.1
    drawn = view.maps.matrices[1]
    view.fields.again.click()
    assert view.fields.seed.text() == "seed 2"
    again = view.maps.matrices[1]
    assert drawn is not None
    assert again is not None
    assert (drawn.values != again.values).any()
    view.fields.rate.setValue(0)
    assert view.session.state.stage_options == StageOptions(rate=0, seed=2)
    assert unwrap(view.maps.matrices[1]).values.all()
