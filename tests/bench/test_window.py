"""The benchmarks of the window at a small size: what is timed was really painted."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import numpy as np
import pytest
from PySide6.QtWidgets import QApplication, QLabel

from tests.bench import time_tabs as tabs
from tests.bench import time_window as window
from tests.bench import windows
from tests.bench.measurements import Measurement, spread
from tests.bench.random_trace import random_trace
from tests.bench.windows import Pace, Plots
from visformer.pictures.computation.stages import PAGES, STAGES
from visformer.ui import views
from visformer.ui.views.view import View

SLOWER = 2.0
pace_now = Pace.now


@pytest.fixture(autouse=True)
def small(qapp: QApplication, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Few tokens and keys; garbage is collected in between only, as in tests/window."""
    monkeypatch.setattr(window, "TOKENS", 9)
    monkeypatch.setattr(window, "KEYS", 6)
    monkeypatch.setattr(window, "BLOCK", 3)
    monkeypatch.setattr(window, "RUNS", 2)
    monkeypatch.setattr(Pace, "now", lambda _pace: SLOWER)
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def assert_measured(figures: list[Measurement], count: int) -> None:
    assert len(figures) == count
    assert all(figure.value is not None and figure.value > 0 for figure in figures)


def test_a_paint_is_waited_for() -> None:
    label = QLabel("a")
    paints = window.Paints([label])
    label.show()
    windows.settle()
    before = paints.count
    assert window.until_painted(lambda: label.setText("b"), paints) > 0
    assert paints.count == before + 1
    window.until_painted(lambda: None, paints)
    assert paints.count == before + 1
    label.close()


def test_steps_are_painted() -> None:
    figures = window.new_step()
    assert_measured(figures, 2)
    for figure in figures:  # each block's first step only warms up
        assert figure.parts["times"] == 2 * 4
        assert figure.value == pytest.approx(figure.parts["ms here"] / SLOWER)


@pytest.mark.slow
def test_every_tab_page_and_stage_is_measured() -> None:
    with windows.shown_window(random_trace(window.small(2), 9, 9)) as shown:
        figures = list(tabs.measured(shown, presses=6, held=8))
        names = [name for _view, _page, name in tabs.places(shown)]
    assert_measured(figures, len(figures))
    measured = {tuple(figure.what.split(": ")) for figure in figures}
    for name in names:
        assert (name, "one step back and forward, median") in measured
        assert (name, "8 keys of a held arrow, time") in measured
    stages = {f"{PAGES[stage.page]} > {stage.title}" for stage in STAGES}
    assert len(stages & {place for place, _what in measured}) == len(STAGES) - 1
    for change in (*tabs.SORTS, tabs.HOVER):
        assert ("Attention", f"{change}, median") in measured


def test_a_key_is_timed_until_the_picture_is_right() -> None:
    """Slices that are still to come are waited for, movement afterwards is not."""
    label = QLabel("a")
    label.show()
    windows.settle()
    refreshes, turns = tabs.Refreshes(label), iter(range(100))
    label.setText("b")

    def pending() -> bool:
        label.update()  # it never stands still
        return next(turns) < 6

    assert tabs.until_right(lambda: None, refreshes, pending) is not None
    assert next(turns) == 8
    windows.settle()
    assert tabs.until_right(lambda: None, refreshes, lambda: False) is None
    turns = iter(range(100))
    label.setText("c")
    answered = tabs.until_right(lambda: None, refreshes, lambda: next(turns) < 6)
    assert answered is not None  # the answer painted nothing: the paint before it was
    label.close()


def test_grid_against_plots() -> None:
    figures = window.against_plots(1, 8, rounds=1)
    assert_measured(figures, 1)
    assert figures[0].what.startswith("8 heads of 8 x 8")


def test_reduction() -> None:
    assert_measured(window.reduction(2, 18, rounds=1), 1)


def test_a_beat_sees_the_event_loop() -> None:
    beat = tabs.Beat()
    windows.wait_until(lambda: len(beat.gaps) > 3)
    assert max(beat.gaps) > 0


def test_plots_are_painted_anew() -> None:
    weights = [np.full((2, 4, 4), value, np.float32) for value in (0, 1)]
    plots = Plots(weights, layers=1)
    plots.widget.show()
    windows.settle()
    assert plots.redraw() > 0
    before = plots.widget.grab().toImage()
    assert plots.redraw() > 0
    assert plots.widget.grab().toImage() != before
    plots.widget.close()


@pytest.mark.slow
def test_the_pace_is_measured_in_a_process_of_its_own() -> None:
    pace = Pace()
    slower = pace_now(pace)
    assert 1 <= slower < 1000  # a faster computer is held against the milliseconds
    pace.close()


def test_a_spread_by_hand() -> None:
    """Each time is divided by the pace of its minute."""
    times, paces = [0.004, 0.004, 0.003], [2.0, 1.0, 1.0]
    median, most = spread(10, "a key", times, paces, 16, 3)
    assert (median.value, most.value) == (3.0, 4.0)
    assert (median.met, most.met) == (True, False)
    assert median.parts == {"ms here": 4.0, "slower": 1.0, "times": 3.0}


def test_what_never_comes_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(windows, "WAIT", 0.01)
    with pytest.raises(RuntimeError, match="did not answer"):
        windows.wait_until(lambda: False)


def test_the_worst_phase_counts() -> None:
    gaps = {"a": [0.001] * 99 + [0.06], "b": [0.004, 0.024]}
    often, once = tabs.worst_gaps(gaps, {"a": 1.0, "b": 2.0})
    assert (often.value, once.value) == (12.0, 60.0)
    assert often.parts == {"ms here": 24.0, "slower": 2.0, "a": 1.0, "b": 24.0}
    assert (often.met, once.met) == (False, False)


def test_what_is_looked_at_and_dressed_is_left_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tabs, "PAUSE", 0)
    with windows.shown_window(random_trace(window.small(2), 9, 9)) as shown:
        size, looks = shown.font().pointSizeF(), []
        for act in (tabs.look_at_all, tabs._dress, tabs._zoom):
            act(shown)
            looks.append((shown.appearance.theme, shown.appearance.zoom))
        windows.settle()
        assert looks == [("light", 100)] * 3
        assert shown.font().pointSizeF() == size
        seen = {type(view) for view in shown.tabs.findChildren(View)}
    pages = {page for kind in views.VIEWS for page in (kind.kind, *kind.pages)}
    assert seen == pages
