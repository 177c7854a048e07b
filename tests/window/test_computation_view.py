from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication, QLabel
from pytestqt.qtbot import QtBot

from tests.opened import opened_model
from tests.states import ran
from tests.tiny_models import tiny_checkpoint
from tests.unit.pictures.computed import shown, state_of, traced
from tests.window.exports import csv_of
from tests.window.painted import painted
from tests.window.parts import click, put_up, settle, unwrap, view_of
from tests.window.pseudo_reader import Reader
from tests.window.windows import (
    FakeEngine,
    Pair,
    make_view,
    make_window,
    reply,
    translate,
)
from visformer import load, paths
from visformer.core.decoding import Decoding
from visformer.core.side_runs import layer_parameters
from visformer.engine.messages import Opened, Parameters
from visformer.pictures.computation.stages import STAGES, stage_names
from visformer.pictures.selection import AttentionCell
from visformer.session.runs import show_trace
from visformer.ui.look.theme import set_motion
from visformer.ui.views.computation.computation import ComputationView
from visformer.ui.views.computation.computation_maps import AFTER_MS, StageMaps
from visformer.ui.widgets.canvas import MapCell
from visformer.ui.widgets.plain_label import RoleLabel
from visformer.ui.window.window import MainWindow
from visformer.values.facts import Kind
from visformer.values.trace import Trace

CHECKPOINT = tiny_checkpoint()


def opened() -> Opened:
    positions = CHECKPOINT.model.position_table("source").numpy()
    return opened_model(CHECKPOINT.facts, positions, path="/m")


@pytest.fixture(scope="module")
def trace() -> Trace:
    return Decoding(CHECKPOINT, "abcde", limit=6).finish()


@pytest.fixture
def pair(qtbot: QtBot, tmp_path: Path, trace: Trace) -> Pair:
    """Return a window on the tab with a whole sentence and no weights yet."""
    window, engine = make_window(qtbot, tmp_path)
    window.receive(opened())
    translate(window, engine, "a b", trace)
    window.session.set(tab="computation", step=len(trace))
    return window, engine


def give(window: MainWindow, engine: FakeEngine) -> None:
    """Answer the request for weights of a stage that needs them, and go back."""
    before = window.session.state.stage
    window.session.set(stage="norms")
    stack, layer = engine.asked[-1]
    made = layer_parameters(CHECKPOINT, stack, layer)
    reply(window, Parameters, made)
    window.session.set(stage=before)


def computation(window: MainWindow) -> ComputationView:
    return view_of(window, ComputationView)


def said(view: ComputationView) -> str:
    return next(
        label.text()
        for label in view.findChildren(QLabel)
        if label.accessibleName() == "the numbers of the cell"
    )


def test_weights_are_asked_once_and_shown_when_they_come(
    pair: Pair, qtbot: QtBot
) -> None:
    window, engine = pair
    assert engine.asked == []  # the softmax does without them
    before = said(computation(window))
    window.session.set(stage="query")
    assert engine.asked == [("decoder", 0)]
    assert said(computation(window)) == before  # they are there in a moment
    qtbot.waitUntil(lambda: "needs the layer's weights" in said(computation(window)))
    window.session.set(stage="key")
    assert engine.asked == [("decoder", 0)]
    window.session.set(stage="query")
    give(window, engine)
    assert "q[dim 0] = " in said(computation(window))
    weight = unwrap(computation(window).maps.matrices[1])
    own = unwrap(layer_parameters(CHECKPOINT, "decoder", 0).cross_attention)
    assert (weight.values == own.query.weight[:, :8]).all()
    window.session.set(layer=1)
    assert engine.asked[-1] == ("decoder", 1)


def test_nothing_is_asked_of_an_engine_with_another_model(
    qtbot: QtBot, tmp_path: Path, trace: Trace
) -> None:
    window, engine = make_window(qtbot, tmp_path)
    window.session.set(tab="computation", stage="query")
    window.session.do(show_trace, trace)
    assert engine.asked == []  # it is starting
    assert "needs the layer's weights" in said(computation(window))
    window.receive(opened())  # its model made this trace
    assert engine.asked == [("decoder", 0)]


def test_another_model_drops_the_weights(pair: Pair) -> None:
    window, engine = pair
    window.session.set(stage="query")
    give(window, engine)
    assert window.session.state.parameters
    window.receive(opened())
    assert window.session.state.parameters == ()
    assert len(engine.asked) == 2


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_every_stage_of_every_kind_is_drawn(pair: Pair, kind: Kind) -> None:
    window, engine = pair
    window.session.set(kind=kind)
    give(window, engine)
    for name in stage_names():
        window.session.set(stage=name)
        window.grab()
        assert csv_of(computation(window).table.export)
        assert computation(window).maps.isVisible()


def hues(label: RoleLabel) -> dict[str, str]:
    return {label.text()[at : at + long]: role for at, long, role in label.spans}


def test_formulas_and_sentences_have_the_hues_of_query_and_key(pair: Pair) -> None:
    pair[0].session.set(tab="computation", stage="weighted")
    give(*pair)
    view, roles = computation(pair[0]), {"Q": "query", "Kᵀ": "key", "V": "value"}
    assert hues(view._formula).items() >= roles.items()
    assert list(hues(view._heading).values())[:2] == ["query", "key"]  # its tokens
    assert hues(view._heading).items() >= {"query": "query", "key": "key"}.items()
    pair[0].large.toggle_focused()
    for label in (pair[0].tabs.explanation, pair[0].large.words):
        assert set(hues(label).values()) == {"query", "key", "value"}


def test_keys_walk_the_stages_and_leave_the_windows_keys_alone(
    pair: Pair, qtbot: QtBot
) -> None:
    window, _ = pair
    view = computation(window)
    view.maps.maps[0].setFocus()
    qtbot.keyClick(view.maps.maps[0], Qt.Key.Key_Down)
    assert window.session.state.stage == "weighted"
    qtbot.keyClick(view.maps.maps[0], Qt.Key.Key_Up)
    qtbot.keyClick(window, Qt.Key.Key_BracketLeft)
    assert window.session.state.stage == "mask"
    qtbot.keyClick(window, Qt.Key.Key_BracketRight)
    assert window.session.state.stage == "softmax"
    step = window.session.state.step
    qtbot.keyClick(view.maps.maps[0], Qt.Key.Key_Left)
    assert window.session.state.step == step - 1
    qtbot.keyClick(view.maps.maps[0], Qt.Key.Key_1)
    assert window.session.state.kind == "encoder"


def middle(view: ComputationView, index: int, row: int, column: int) -> QPoint:
    """Return the middle of a cell of a map, in pixels of its canvas."""
    canvas, matrix = view.maps.maps[index].canvas, unwrap(view.maps.matrices[index])
    rows, columns = matrix.values.shape
    x = (column + 0.5) * canvas.width() / columns
    y = (row + 0.5) * canvas.height() / rows
    return QPointF(x, y).toPoint()


def test_a_click_in_any_matrix_moves_the_cell_of_all(pair: Pair, qtbot: QtBot) -> None:
    window, engine = pair
    give(window, engine)
    view = computation(window)
    window.session.set(locked=AttentionCell("cross", 1, 1))
    canvas = view.maps.maps[1].canvas  # the weights
    click(qtbot, canvas, middle(view, 1, 2, 3))
    assert window.session.state.locked == AttentionCell("cross", 2, 3)
    window.session.set(stage="product")
    canvas = view.maps.maps[0].canvas  # Q: its rows are queries
    click(qtbot, canvas, middle(view, 0, 4, 5))
    assert window.session.state.locked == AttentionCell("cross", 4, 3)
    # the dimension clicked is marked as a column of Q and as a row of K transposed
    assert view.maps.maps[0].canvas._cell == (4, 5)
    assert view.maps.maps[1].canvas._cell == (5, 3)
    assert view.maps.maps[2].canvas._cell == (4, 3)
    assert window.session.state.locked_dimensions == {"head": 5}
    view.maps.maps[0].hovered.emit((4, 1))
    assert window.session.state.dimensions == {"head": 1}
    assert view.maps.maps[1].canvas._cell == (1, 3)
    view.maps.maps[0].hovered.emit(None)
    assert view.maps.maps[1].canvas._cell == (5, 3)
    canvas = view.maps.maps[0].canvas
    click(qtbot, canvas, middle(view, 0, 4, 5))
    assert window.session.state.locked_dimensions == {}


def test_a_table_of_tokens_marks_and_picks_the_row_of_its_block(qtbot: QtBot) -> None:
    checkpoint = tiny_checkpoint(max_positions=128)
    trace = Decoding(checkpoint, "abcde" * 14, limit=2).finish()
    view = make_view(qtbot, ComputationView)
    view.session.set(
        **ran(trace),
        step=2,
        kind="encoder",
        stage="sublayers",
        locked=AttentionCell("encoder", 66, 0),
        parameters=(layer_parameters(checkpoint, "encoder", 0),),
    )
    assert view.table.marked[0] == 2  # the block begins with row 64
    view.table.picked.emit(MapCell(5, 0))
    assert view.session.state.locked == AttentionCell("encoder", 69, 0)


def test_hovering_marks_and_leaving_frees(pair: Pair) -> None:
    window, _ = pair
    view = computation(window)
    view.maps.maps[1].hovered.emit((1, 2))
    assert window.session.state.hovered == AttentionCell("cross", 1, 2)
    view.maps.maps[1].hovered.emit(None)
    assert window.session.state.hovered is None


def test_all_digits_are_copied(pair: Pair, qtbot: QtBot, trace: Trace) -> None:
    window, _ = pair
    view = computation(window)
    window.session.set(stage="product", locked=AttentionCell("cross", 1, 2))
    view.table.setFocus()
    qtbot.keyClick(view.table, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    lines = QGuiApplication.clipboard().text().splitlines()
    copied = np.array([float(n) for n in lines[1].split(",")[1:]], np.float32)
    assert (copied == trace.queries("cross", 0, 0)[1]).all()


def test_nothing_to_show_is_said(qtbot: QtBot, tmp_path: Path) -> None:
    window, engine = make_window(qtbot, tmp_path)
    window.session.set(tab="computation")
    assert "No sentence" in said(computation(window))
    assert engine.asked == []


def test_the_choosers_choose(pair: Pair) -> None:
    window, _ = pair
    kind, layer, head = computation(window).choosers
    for box, index in ((kind, 0), (layer, 1), (head, 1)):
        box.setCurrentIndex(index)
        box.activated.emit(index)
    state = window.session.state
    assert (state.kind, state.layer, state.head) == ("encoder", 1, 1)
    assert head.isVisible()
    window.session.set(stage="w1")  # where no head stands apart
    assert not head.isVisible()


def draw(maps: StageMaps, name: str, *, grid: bool = False) -> None:
    """Draw a stage of the encoder, a cell marked; ``grid``: in the columns it wants."""
    stage = shown(state_of(*traced(), kind="encoder"), name)
    columns = stage.columns if grid else 0
    maps.draw(stage.maps, {"query": 2, "key": 3}, columns=columns)


def test_maps_stand_in_as_many_rows_as_they_need(qtbot: QtBot) -> None:
    maps = put_up(qtbot, StageMaps(), 1400, 600)
    draw(maps, "scale")

    def places() -> tuple[int, int]:
        visible = [one.geometry() for one in maps.maps if one.isVisible()]
        assert all(box.width() >= 200 and box.height() >= 120 for box in visible)
        assert not any(one.intersects(two) for one, two in combinations(visible, 2))
        return len({box.x() for box in visible}), len({box.y() for box in visible})

    QApplication.sendPostedEvents()
    assert places() == (4, 1)
    maps.resize(700, 900)
    QApplication.sendPostedEvents()
    assert places() == (2, 2)
    maps.resize(300, 2400)
    QApplication.sendPostedEvents()
    assert places() == (1, 4)
    draw(maps, "projections", grid=True)
    maps.resize(1400, 900)
    QApplication.sendPostedEvents()
    assert places() == (3, 3)
    assert maps.minimumSizeHint().width() >= 600


def test_a_grid_that_is_wanted_asks_for_its_room(qtbot: QtBot) -> None:
    maps = put_up(qtbot, StageMaps())
    draw(maps, "projections", grid=True)
    maps.resize(maps.minimumSizeHint().width(), 900)
    QApplication.sendPostedEvents()
    parts = [
        part
        for part in (*maps.maps, *maps.findChildren(QLabel))
        if part.isVisible() and part.parentWidget() is maps
    ]
    for one, two in combinations(parts, 2):
        assert not one.geometry().intersects(two.geometry())


def test_row_times_column_runs_through_a_product_after_the_picture_stands(
    qtbot: QtBot,
) -> None:
    maps = put_up(qtbot, StageMaps(), 1400, 600)
    draw(maps, "product")
    q, k_t, product = (heat_map.canvas for heat_map in maps.maps[:3])
    at_rest = [(c._cell, c._rows, c._columns) for c in (q, k_t, product)]
    maps.run()
    motion = maps.motion
    assert motion.waiting.isActive()  # the picture is painted first
    assert [(c._cell, c._rows, c._columns) for c in (q, k_t, product)] == at_rest
    motion.waiting.timeout.emit()
    assert motion.running.duration() + AFTER_MS < 300
    seen = []
    for share in (0.1, 0.5, 0.9):
        motion.running.setCurrentTime(int(share * motion.running.duration()))
        seen.append((q._cell, k_t._cell))
    width = traced()[1].head_size("encoder")
    for (left, right), share in zip(seen, (0.1, 0.5, 0.9), strict=True):
        term = int(share * width)
        assert left == (2, term)
        assert right == (term, 3)
    motion.running.setCurrentTime(motion.running.duration())
    assert [(c._cell, c._rows, c._columns) for c in (q, k_t, product)] == at_rest
    motion.stop()
    set_motion(False)
    maps.run()
    assert not motion.waiting.isActive()


def test_a_sum_or_a_softmax_runs_nothing(qtbot: QtBot) -> None:
    maps = put_up(qtbot, StageMaps())
    for name in ("softmax", "residual"):
        draw(maps, name)
        maps.run()
        assert not maps.motion.waiting.isActive()


@pytest.mark.parametrize("presented", [False, True])
def test_the_blackboard_shows_every_digit(presented: bool, pair: Pair) -> None:
    window, _engine = pair
    checkpoint = load(paths.checkpoint("blackboard"))
    reader = Reader(*pair, checkpoint)
    reader.open()
    window.translate("b d a")
    reader.give(Decoding(checkpoint, "b d a").finish())
    for stage in STAGES:
        window.session.set(tab="computation", stage=stage.name, step=3)
        reader.answer()
        if presented:
            window.presentation.begin()
            window.showNormal()  # full screen without a screen is another size
            window.resize(1280, 800)
        settle(3)
        for heat_map in computation(window).maps.maps:
            matrix = heat_map.matrix
            if matrix is None or not heat_map.isVisible() or matrix.boolean:
                continue
            is_share = matrix.ends == ("0", "1")
            seen = matrix.values >= 0.005 if is_share else np.isfinite(matrix.values)
            words = painted(heat_map, heat_map.canvas).words
            assert len(words) == seen.sum(), (stage.name, matrix.title)
        window.presentation.end()
