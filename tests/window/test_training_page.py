"""The page Training: curves of a series, and its runs by the slider."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.opened import opened_model
from tests.traces import make_trace
from tests.window.parts import unwrap, view_of
from tests.window.windows import Pair, translate
from visformer.core.checkpoint_series import point
from visformer.engine.messages import Done, Portion, Progressed, RunSeries
from visformer.session import training
from visformer.ui.views.diagnosis.diagnosis import DiagnosisView
from visformer.ui.views.diagnosis.training_page import TrainingPage
from visformer.ui.window.window import MainWindow
from visformer.values.measured import SeriesPoint

OWN = make_trace(seed=9)
RUNS = [make_trace(seed=seed) for seed in range(3)]
POINTS = [
    point(trace, Path(f"step-{step}"), at, recorded=False, importance={})
    for at, (trace, step) in enumerate(zip(RUNS, (0, 10, 40), strict=True))
]


OTHER = make_trace(layers=3, heads=4)
TRACES = {**{p.name: t for p, t in zip(POINTS, RUNS, strict=True)}, "step-50": OTHER}


@pytest.fixture
def followed(pair: Pair) -> MainWindow:
    """A window that has asked for the series of a folder."""
    window, engine = pair
    window.receive(opened_model(OWN.model, path="/m"))
    translate(window, engine, "one two", OWN)
    window.session.go(window.session.state.turned("diagnosis", "training"))
    window.session.set(tab="diagnosis")
    window.session.do(training.follow, "/runs/mine/steps")
    (request,) = engine.of(RunSeries)
    assert (request.folder, request.reference) == ("/runs/mine/steps", OWN.text)
    return window


def send(window: MainWindow, *points: SeriesPoint | str | None) -> None:
    number = unwrap(window.session.state.awaiting.newest(RunSeries))
    window.receive(Progressed(number=number.number, done=1, of=3, part="points"))
    for one in points:
        part = (one, TRACES[one.name]) if isinstance(one, SeriesPoint) else one
        kind = Done if one is None else Portion
        window.receive(kind(number=number.number, value=part))


def page(window: MainWindow) -> TrainingPage:
    return view_of(window, DiagnosisView).page(TrainingPage)


def test_points_become_curves_as_they_come(followed: MainWindow) -> None:
    shown = page(followed)
    assert not shown.loss.isVisible()
    send(followed, POINTS[0])
    one = f"The sentence's loss is {POINTS[0].loss:.3g} nats per token."
    assert shown.words.text().startswith(one)  # nothing has fallen yet
    send(followed, POINTS[1])
    assert followed.session.state.busy.endswith("1 of 3 points")
    table = unwrap(shown.loss.table())
    assert [*table.rows] == ["0", "10"]
    assert np.asarray(table.values)[:, 0] == pytest.approx([p.loss for p in POINTS[:2]])
    send(followed, "step-20 is damaged.", POINTS[2], None)
    assert not followed.session.state.busy
    said = shown.words.text()
    assert "1 entry is left out: step-20 is damaged." in said
    assert f"to {POINTS[2].loss:.3g} at step 40" in said
    heads = unwrap(shown.heads.table())
    state = followed.session.state
    wanted = [p.heads["entropy"][state.kind].ravel() for p in POINTS]
    assert np.array_equal(np.asarray(heads.values), np.array(wanted))
    shown.measure.setCurrentIndex(shown.measure.findData("largest"))
    shown.measure.activated.emit(1)
    heads = unwrap(shown.heads.table())
    assert (
        np.asarray(heads.values)[2, 0] == POINTS[2].heads["largest"][state.kind][0, 0]
    )


def test_the_slider_shows_the_run_of_a_point_in_every_tab(followed: MainWindow) -> None:
    send(followed, *POINTS, None)
    shown = page(followed)
    before = followed.session.state.shown
    shown.points.setValue(1)
    state = followed.session.state
    assert unwrap(state.trace).model is RUNS[1].model
    assert (unwrap(state.run).name, training.place(state)) == ("step-10", 1)
    assert len(state.tree) == 4  # they are in the tab Runs too
    shown.points.setValue(0)
    assert training.place(followed.session.state) == 0
    followed.session.do(training.turn_to, 7)  # there is none
    assert training.place(followed.session.state) == 0
    assert before in [run.key for run in state.tree]


def test_no_curve_is_in_colour_for_a_head_that_the_series_lacks(
    followed: MainWindow,
) -> None:
    send(followed, POINTS[0], None)
    followed.session.set(kind="cross", layer=1, head=1)
    assert "In colour" in page(followed).words.text()
    followed.show_telling(OTHER)  # it has more heads
    followed.session.set(tab="diagnosis", kind="cross", layer=0, head=3)
    assert "In colour" not in page(followed).words.text()


def test_points_of_another_model_leave_a_gap(followed: MainWindow) -> None:
    other = point(OTHER, Path("step-50"), 3, recorded=False, importance={})
    send(followed, POINTS[0], replace(POINTS[1], loss=float("nan")), other, None)
    values = np.asarray(unwrap(page(followed).heads.table()).values)
    assert values.shape == (3, 12)
    assert np.isnan(values[:2]).all()
    assert np.isfinite(values[2]).all()
    assert "NaN" not in page(followed).words.text()
