"""The fields of single stages: they set the State, and stand at their stages only."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from tests.unit.pictures.computed import state_of, traced
from tests.window.windows import make_view
from visformer.pictures.selection import StageOptions
from visformer.session.runs import show_trace
from visformer.ui.views.computation.computation import ComputationView


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
    without = view.maps.matrices[1]
    assert without is not None
    assert without.values.all()
