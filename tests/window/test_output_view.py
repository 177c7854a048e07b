from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QLabel
from pytestqt.qtbot import QtBot

from tests.opened import opened_model
from tests.tiny_models import tiny_checkpoint
from tests.window.parts import settle, unwrap, view_of
from tests.window.windows import FakeEngine, Pair, answer, make_window, reply, translate
from visformer.core.decoding import Decoding
from visformer.core.lens_rows import read_streams
from visformer.engine.messages import Lens, Opened
from visformer.pictures import output
from visformer.pictures.output import known_rows
from visformer.session import side_requests as asking
from visformer.ui.views.output.output import NextToken, OutputView
from visformer.ui.widgets.canvas import MapCell
from visformer.ui.widgets.heatmap import HeatMap
from visformer.ui.window.window import MainWindow
from visformer.values.step import LensRow, Strategy
from visformer.values.trace import Trace
from visformer.words import number

CHECKPOINT = tiny_checkpoint(norm_first=True, final_norm=True)


def opened() -> Opened:
    positions = CHECKPOINT.model.position_table("source").numpy()
    return opened_model(CHECKPOINT.facts, positions, path="/m")


@pytest.fixture(scope="module")
def trace() -> Trace:
    forced = [(id, "forced") for id in (20, 9, 15, 4, 27, 11)]
    return Decoding(CHECKPOINT, "abcde").follow(forced)  # type: ignore[arg-type]


@pytest.fixture
def pair(qtbot: QtBot, tmp_path: Path, trace: Trace) -> Pair:
    """Return a window at step 4 of a sentence, on another tab."""
    window, engine = make_window(qtbot, tmp_path)
    window.receive(opened())
    translate(window, engine, "a b", trace)
    window.session.set(step=4)
    return window, engine


def give(window: MainWindow, engine: FakeEngine) -> None:
    """Answer the last question."""
    hidden, chosen, temperature = engine.lenses[-1]
    rows = read_streams(CHECKPOINT, hidden, chosen, temperature=temperature)
    reply(window, Lens, rows)


def next_token(window: MainWindow) -> NextToken:
    return view_of(window, OutputView).page(NextToken)


def given(pair: Pair) -> NextToken:
    """Return the page once the lens is there."""
    pair[0].session.set(tab="output")
    give(*pair)
    return next_token(pair[0])


def said(view: NextToken, name: str) -> str:
    labels = view.findChildren(QLabel)
    return next(label.text() for label in labels if label.accessibleName() == name)


def known(window: MainWindow) -> Mapping[int, LensRow]:
    state = window.session.state
    return known_rows(state.visible, state.lens)


def heat_map(view: NextToken, name: str) -> HeatMap:
    maps = view.findChildren(HeatMap)
    return next(found for found in maps if found.accessibleName().startswith(name))


def test_the_lens_is_asked_only_while_the_tab_is_in_sight(pair: Pair) -> None:
    window, engine = pair
    assert engine.lenses == []
    window.session.set(tab="output")
    assert len(engine.lenses) == 1
    window.session.set(step=5)
    window.session.set(step=4)
    assert len(engine.lenses) == 1  # it is on its way
    hidden, chosen, _ = engine.lenses[0]
    trace = unwrap(window.session.state.trace)
    assert hidden.shape == (6, 3, 16)
    assert (hidden[0, 1] == trace.hidden("decoder", 1)[3]).all()  # the current row
    assert chosen[0] == trace.steps[3].id
    assert window.session.state.awaiting.side_requests
    give(window, engine)
    assert not window.session.state.awaiting.side_requests
    window.session.set(step=6)
    assert len(engine.lenses) == 1  # all is known


def test_what_came_is_the_models_own(pair: Pair, trace: Trace) -> None:
    window, engine = pair
    window.session.set(tab="output")
    view = next_token(window)
    assert "requested" in said(view, "the softmax with its numbers")
    give(window, engine)
    look = trace.lens([3])[0]
    table = unwrap(view.logits.numbers)
    np.testing.assert_allclose(table.values[:12, 0], look.logits[-1], atol=2e-5)
    assert "final norm" in said(view, "how the lens is computed")
    ranks = " → ".join(map(str, look.chosen_ranks))
    assert ranks in said(view, "the step's token through the layers")
    shown = heat_map(view, "logit lens of this step")
    np.testing.assert_allclose(
        unwrap(shown._matrix).values[:, 0], look.chosen_probabilities, atol=2e-5
    )
    assert view._step_texts.texts[2][1][0] == look.tokens[2][0]


def test_rows_are_asked_a_few_at_a_time(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    window, engine = pair
    monkeypatch.setattr(asking, "MOST_BYTES", 2 * 3 * 16 * 4)
    window.session.set(tab="output")
    for count in range(1, 4):
        assert [len(ids) for _, ids, _ in engine.lenses] == [2] * count
        give(window, engine)
    assert len(known(window)) == 6
    assert len(engine.lenses) == 3


def test_while_something_runs_only_the_current_row_is_asked(pair: Pair) -> None:
    window, engine = pair
    window.session.set(busy="decoding")
    window.session.set(tab="output")
    assert [len(ids) for _, ids, _ in engine.lenses] == [1]
    give(window, engine)
    assert len(engine.lenses) == 1
    window.session.set(busy="")
    assert len(engine.lenses[1][1]) == 5


def test_an_answer_for_a_run_that_is_gone_is_dropped(pair: Pair) -> None:
    window, engine = pair
    window.session.set(tab="output")
    other = Decoding(CHECKPOINT, "zz").follow([(5, "forced"), (6, "forced")])
    translate(window, engine, "z z", other)
    assert len(engine.lenses) == 1
    give(window, engine)
    assert not known(window)
    assert len(engine.lenses) == 2  # that of the new run
    assert len(engine.lenses[1][1]) == 2
    give(window, engine)
    assert sorted(known(window)) == [0, 1]


def test_clicks_go_to_their_step(pair: Pair) -> None:
    window, view = pair[0], given(pair)
    heat_map(view, "logit lens of all steps").clicked.emit(MapCell(1, 2))
    assert window.session.state.step == 2
    heat_map(view, "decoder output").clicked.emit(MapCell(0, 5))
    assert window.session.state.step == 1
    heat_map(view, "decoder output").clicked.emit(None)
    assert window.session.state.step == 1


def test_future_rows_are_not_painted(pair: Pair, trace: Trace) -> None:
    window, _ = pair
    window.session.set(tab="output")
    shown = heat_map(next_token(window), "decoder output")
    assert shown.canvas.cells.shape == (4, 16)
    assert shown.canvas._whole.height() == len(trace)  # their room is kept
    window.session.set(step=0)
    assert not shown.canvas.cells.size


def test_pointing_says_what_is_there(pair: Pair, trace: Trace) -> None:
    view = given(pair)
    before = said(view, "how the token of this step came about")
    output = heat_map(view, "decoder output")
    output.hovered.emit((2, 5))
    words = said(view, "how the token of this step came about")
    value = number(float(trace.decoder_output[2, 5]), 6)
    assert f"\nRow 3 of Z, dim 5: {value}. Row 3 of Z" in words
    assert view.products.marked == (None, 5)
    output.hovered.emit(None)
    assert said(view, "how the token of this step came about") == before
    steps = heat_map(view, "logit lens of all steps")
    steps.hovered.emit((1, 0))
    assert said(view, "how the lens is computed").startswith("Step 2, after the input")
    steps.hovered.emit(None)
    assert said(view, "how the lens is computed").startswith("Logit lens")
    heat_map(view, "logit lens of this step").hovered.emit((2, 0))
    assert said(view, "how the lens is computed").startswith("Step 4, after layer 2")
    view.products.hovered.emit((0, 7))
    assert output.canvas._cell == (3, 7)


def test_of_many_steps_the_row_pointed_at_is_named(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "MOST_STEPS", 3)
    window, view = pair[0], given(pair)
    steps = heat_map(view, "logit lens of all steps")  # steps 2 to 4
    steps.hovered.emit(MapCell(0, 1))
    assert said(view, "how the lens is computed").startswith("Step 2, after layer 1")
    steps.clicked.emit(MapCell(0, 1))
    assert window.session.state.step == 2


def test_all_steps_show_ranks_when_asked(pair: Pair) -> None:
    window, view = pair[0], given(pair)
    look = known(window)[1]
    assert view._steps_texts.texts[1][0][0] == look.tokens[0][0]
    view.shows.setCurrentIndex(1)
    assert view._steps_texts.texts[1][0][0] == f"#{look.chosen_ranks[0]}"


def test_many_steps_keep_readable_cells(qtbot: QtBot, tmp_path: Path) -> None:
    window, engine = make_window(qtbot, tmp_path)
    window.receive(opened())
    window.translate("a b")
    ids = [(4 + at % 20, "forced") for at in range(50)]
    answer(window, engine, Decoding(CHECKPOINT, "ab").follow(ids))  # type: ignore[arg-type]
    window.session.set(tab="output", step=50)
    while engine.lenses and window.session.state.awaiting.side_requests:
        give(window, engine)
    view = next_token(window)
    canvas = heat_map(view, "logit lens of all steps").canvas
    line = view.fontMetrics().height()
    assert canvas.height() / canvas.view.height() >= line
    assert canvas.view.bottom() == 50
    window.session.set(step=30)
    assert canvas.view.top() <= 29 < canvas.view.bottom()
    window.resize(1280, 1000)
    assert canvas.height() / canvas.view.height() >= line


def test_sampling_sends_its_temperature(pair: Pair, trace: Trace) -> None:
    window, engine = pair
    sampling = Strategy(name="sample", temperature=0.5)
    window.session.set(wish=replace(window.session.state.wish, strategy=sampling))
    window.session.set(tab="output")
    assert engine.lenses[-1][2] == 0.5
    give(window, engine)
    words = said(next_token(window), "the softmax with its numbers")
    assert "drawn" not in words  # the run on screen was greedy


def test_texts_are_painted_on_their_cells(pair: Pair) -> None:
    window, _view = pair[0], given(pair)
    QApplication.processEvents()  # what comes with the lens is painted later
    texts = next_token(window)._step_texts
    canvas = heat_map(next_token(window), "logit lens of this step").canvas
    assert texts.geometry() == canvas.rect()
    with_texts = next_token(window).grab().toImage()
    texts.setVisible(False)
    assert with_texts != next_token(window).grab().toImage()
    texts.setVisible(True)
    for label in next_token(window).findChildren(QLabel):
        assert label.textFormat() == Qt.TextFormat.PlainText or "<" not in label.text()


def test_presented_rows_are_as_high_as_the_large_text(pair: Pair, trace: Trace) -> None:
    window, engine = pair
    window.appearance.zoom_by(20)
    window.session.set(tab="output", step=len(trace))
    give(window, engine)
    view = next_token(window)
    window.large.enlarge(view._steps_map)
    window.presentation.begin()
    settle(5)
    assert window.large.picture is view._steps_map
    canvas = view._steps_map.canvas
    line = canvas.fontMetrics().height()
    assert line > 1.3 * view.fontMetrics().height()
    assert canvas.height() / canvas.view.height() >= 1.15 * line - 1
    assert canvas.view.bottom() >= len(trace)  # the current step is in sight
    window.presentation.end()
