"""A new row glows after the right picture stands; one setting switches it off."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QVariantAnimation

from tests.states import ran
from tests.traces import make_trace
from tests.window.painted import pixels
from tests.window.windows import make_view
from visformer.ui.look.theme import has_motion, set_motion
from visformer.ui.views.attention.attention import AttentionView
from visformer.ui.widgets.heatmap import HeatMap
from visformer.ui.window.window import MainWindow

RUNNING = QVariantAnimation.State.Running


@pytest.fixture
def cross(qtbot: Any) -> HeatMap:
    """Return the cross map of a sentence at its second step."""
    view = make_view(qtbot, AttentionView, 1000, 600)
    view.session.set(**ran(make_trace(5, 4)), step=2)
    view.grab()
    return view.maps["cross"]


def step(heat_map: HeatMap, to: int) -> None:
    view: Any = heat_map
    while not isinstance(view, AttentionView):
        view = view.parentWidget()
    view.session.set(step=to)


def is_moving(heat_map: HeatMap) -> bool:
    return heat_map.new_row.glow.state() == RUNNING


def test_the_first_picture_of_a_new_row_is_right(cross: HeatMap) -> None:
    step(cross, 3)
    assert cross.new_row.quiet.isActive()
    first = pixels(cross)
    cross.new_row.quiet.timeout.emit()
    assert is_moving(cross)
    cross.new_row.glow.setCurrentTime(100)
    lit = pixels(cross)
    cross.new_row.glow.setCurrentTime(cross.new_row.glow.duration())
    assert not is_moving(cross)
    assert cross.new_row.isHidden()
    assert np.array_equal(first, pixels(cross))
    changed = np.argwhere((first != lit).any(axis=2))
    row = cross.canvas.box(2, 0).translated(cross.canvas.pos())
    assert len(changed)
    assert changed[:, 0].min() >= row.top()
    assert changed[:, 0].max() <= row.bottom()


def test_only_a_step_forward_moves_and_another_picture_ends_it(cross: HeatMap) -> None:
    step(cross, 3)
    cross.new_row.quiet.timeout.emit()
    step(cross, 2)
    assert not is_moving(cross)
    step(cross, 4)  # two rows at once
    assert not is_moving(cross)


def test_a_row_that_another_follows_at_once_does_not_glow(cross: HeatMap) -> None:
    step(cross, 3)
    assert cross.new_row.quiet.isActive()
    step(cross, 4)
    assert not is_moving(cross)
    assert cross.new_row.isHidden()


def test_one_setting_switches_it_off(cross: HeatMap) -> None:
    set_motion(False)
    step(cross, 3)
    assert not is_moving(cross)
    assert not cross.new_row.quiet.isActive()


def test_the_setting_is_remembered(window: MainWindow) -> None:
    window.appearance.move(False)
    assert not has_motion()
    set_motion(True)
    window.appearance.restore()
    assert not has_motion()
