"""The page Compare of the tab Runs: what is drawn is of both runs, and linked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from tests.opened import opened_model
from tests.traces import make_trace
from tests.window.parts import click, unwrap, view_of
from tests.window.windows import Pair, answer, make_window, translate
from visformer.analysis.run_comparison import compare_runs
from visformer.engine.mirror import Decoded
from visformer.pictures.attention.weights import head_weights
from visformer.pictures.candidates import token_bars
from visformer.pictures.selection import AttentionCell
from visformer.session import runs, tree
from visformer.session.both import show_beside
from visformer.ui.views.attention.attention import AttentionView
from visformer.ui.views.computation.computation import ComputationView
from visformer.ui.views.output.output import NextToken, OutputView
from visformer.ui.views.runs.runs import RunsView
from visformer.ui.views.runs.side_by_side import ComparePage
from visformer.ui.widgets.canvas import MapCell
from visformer.ui.window.window import MainWindow
from visformer.values.facts import KINDS
from visformer.values.intervention import parse
from visformer.values.trace import Trace

HIDDEN = parse(["hide 3"])
ONE = make_trace(source=6, target=6, layers=2, heads=3, d_model=12)


def parted(trace: Trace = ONE, at: int = 3, seed: int = 5) -> Trace:
    """Return a run whose decoder differs, and which writes another word at a step."""
    other = make_trace(source=6, target=6, layers=2, heads=3, d_model=12, seed=seed)
    steps, target = [*trace.steps], [*trace.target]
    text = " ".join([*trace.steps[at - 1].text.split()[: at - 1], "else"])
    steps[at - 1] = replace(steps[at - 1], token="▁else", id=49, text=text)
    for row in range(at, len(steps)):
        steps[row] = replace(steps[row], text=f"{text} {row}")
    target[at] = "▁else"
    return replace(
        trace,
        decoder_rows=other.decoder_rows,
        steps=tuple(steps),
        target=tuple(target),
        target_ids=np.where(np.arange(len(target)) == at, 49, trace.target_ids),
        intervention=HIDDEN,
    )


@pytest.fixture
def pair(qtbot: QtBot, tmp_path: Path) -> Pair:
    """A run and one with a change, which writes another word at step 3."""
    window, engine = make_window(qtbot, tmp_path)
    window.receive(opened_model(ONE.model, path="/m"))
    translate(window, engine, "a b c d e f", ONE)
    window.session.set(step=6, tab="runs", kind="cross", layer=1, head=2)
    window.change_run(HIDDEN)
    answer(window, engine, parted())
    window.session.set(step=6)
    runs_view(window).turn("compare")
    return window, engine


@pytest.fixture
def page(qtbot: QtBot, pair: Pair) -> ComparePage:
    return ready(qtbot, pair[0])


def runs_view(window: MainWindow) -> RunsView:
    return view_of(window, RunsView)


def ready(qtbot: QtBot, window: MainWindow) -> ComparePage:
    """Return the page once all heads are compared."""
    page = runs_view(window).page(ComparePage)
    qtbot.waitUntil(lambda: not page.drawing)
    return page


def shown(page: ComparePage) -> list[str]:
    return [name for name, one in page.sides.maps.items() if one.isVisibleTo(page)]


def test_both_maps_and_their_difference_are_of_the_chosen_head(
    page: ComparePage,
) -> None:
    state = page.session.state
    assert shown(page) == ["a", "b", "difference"]
    other, now = unwrap(state.compared), unwrap(state.run)
    assert other.trace is not None
    assert now.trace is not None
    weights = [head_weights(one, "cross", 1, 2) for one in (other.trace, now.trace)]
    made = [page.sides.maps[name].matrix for name in ("a", "b", "difference")]
    assert [matrix is not None for matrix in made] == [True] * 3
    for matrix, values in zip(made, weights, strict=False):
        assert matrix is not None
        np.testing.assert_allclose(matrix.values, values)
    top = max(float(one.max()) for one in weights)
    for matrix, values in zip(made, weights, strict=False):  # one range, as printed
        assert matrix is not None
        np.testing.assert_allclose(matrix.shade, values / top, atol=1e-6)
        assert float(matrix.ends[1]) == pytest.approx(top, rel=1e-2)
    difference = unwrap(made[2])
    assert difference.signed
    wanted = (weights[1] - weights[0])[:3]  # the rows before they part, and that row
    np.testing.assert_allclose(difference.values, wanted, atol=1e-6)
    reach = float(np.abs(wanted).max())
    np.testing.assert_allclose(difference.shade, wanted / 2 / reach + 0.5, atol=1e-6)
    assert difference.ends[0] == f"−{difference.ends[1]}"


def test_the_step_where_they_part_is_a_line_in_every_panel(page: ComparePage) -> None:
    for name in ("a", "b", "difference"):
        matrix = unwrap(page.sides.maps[name].matrix)
        assert matrix.border == (2, 0)  # row 3 of cross attention writes another word
    page.session.set(kind="decoder")
    matrix = unwrap(page.sides.maps["b"].matrix)
    assert matrix.border == (3, 3)  # its row 4 reads it
    line, _now = page.log_p._lines
    assert line.isVisible()
    assert line.value() == 2.5
    assert "They part at step 3" in page.words.text()
    page.session.set(kind="encoder")
    matrix = unwrap(page.sides.maps["b"].matrix)
    assert matrix.border is None


def test_the_grid_is_that_of_the_analysis_and_a_click_goes_there(
    page: ComparePage,
) -> None:
    assert page._traces is not None
    found = compare_runs(*page._traces)
    for kind in KINDS:
        matrix = unwrap(page.grids[kind].matrix)
        np.testing.assert_allclose(matrix.values, found.divergences[kind])
    top = max(float(grid.max()) for grid in found.divergences.values())
    cross = unwrap(page.grids["cross"].matrix)
    np.testing.assert_allclose(cross.shade, cross.values / top, atol=1e-6)
    page.grids["decoder"].clicked.emit(MapCell(0, 1))
    state = page.session.state
    assert (state.kind, state.layer, state.head) == ("decoder", 0, 1)
    title = unwrap(page.sides.maps["a"].matrix)
    assert title.title == "run 1: decoder self · layer 1, head 2"


def test_only_what_differs_is_shown_unless_all_is_wanted(page: ComparePage) -> None:
    assert page.all.isChecked()
    assert page.grids["encoder"].isHidden()  # its rows are the same
    assert not page.grids["cross"].isHidden()
    assert "encoder self attention: the same in every head" in page.words.text()
    page.all.click()
    assert not page.grids["encoder"].isHidden()
    assert page.session.state.views.compare_all


def test_what_differs_is_presented(qtbot: QtBot, page: ComparePage) -> None:
    window = page.window()
    assert isinstance(window, MainWindow)
    for picture in (page.sides.maps["a"], page.grids["cross"], page.log_p):
        qtbot.keyClick(window, Qt.Key.Key_F5)
        assert unwrap(window.large.picture).isAncestorOf(picture)
        qtbot.keyClick(window, Qt.Key.Key_Escape)
        unwrap(picture.parentWidget()).hide()  # as where nothing of it differs
    qtbot.keyClick(window, Qt.Key.Key_F5)
    assert not window.presentation.on
    assert "no picture" in window.session.state.notice


def test_a_cell_of_one_map_is_marked_in_all(page: ComparePage) -> None:
    page.sides.maps["a"].hovered.emit(MapCell(1, 4))
    assert page.session.state.hovered == AttentionCell("cross", 1, 4)
    for name in ("a", "b", "difference"):
        assert page.sides.maps[name].marks[:3] == ((1, 4), (1,), (4,))
    page.sides.maps["difference"].hovered.emit(MapCell(2, 0))
    assert page.session.state.hovered == AttentionCell("cross", 2, 0)
    page.sides.maps["b"].hovered.emit(MapCell(5, 0))  # after they part
    assert page.session.state.hovered == AttentionCell("cross", 5, 0)
    assert page.sides.maps["a"].marks[:3] == (None, (), (0,))
    page.sides.maps["a"].hovered.emit(MapCell(5, 0))  # a row without a counterpart
    assert page.session.state.hovered is None


def test_maps_end_at_the_step_and_keep_their_room(page: ComparePage) -> None:
    place = page.sides.maps["a"].canvas.geometry()
    page.session.set(step=2)
    for name in ("a", "b"):
        assert len(unwrap(page.sides.maps[name].matrix).rows) == 2
    assert page.sides.maps["a"].canvas.geometry() == place


def test_log_p_is_drawn_of_both(page: ComparePage) -> None:
    found = unwrap(page._found)
    for side, curve in enumerate(page.log_p._plot.curves):
        _places, values = curve.getData()
        wanted = [token.log_p[side] for token in found.reference]
        np.testing.assert_allclose(values, wanted)
    table = unwrap(page.log_p.table())
    assert table.columns == ("run 1", "run 2")
    assert len(table.rows) == 3


def test_the_next_tokens_are_those_of_the_step(page: ComparePage) -> None:
    page.session.set(step=2)
    numbers = unwrap(page.next.numbers)
    assert numbers.rows == ("run 1", "run 2", "difference")
    best = unwrap(page._traces)[1].steps[1].candidates[0]
    at = int(np.argmax(np.nan_to_num(numbers.values[1])))
    assert numbers.values[1, at] == pytest.approx(best.probability)


def test_another_run_is_chosen_and_pinned(qtbot: QtBot, pair: Pair) -> None:
    window, engine = pair
    window.session.do(runs.force, 7)
    answer(window, engine, parted(seed=8))
    page = ready(qtbot, window)
    titles = [page.other.itemText(at) for at in range(page.other.count())]
    assert titles == ["run 1", "run 2 (it came from this)"]
    assert page.sides.maps["a"].matrix is not None
    assert page.sides.maps["a"].matrix.title.startswith("run 2: ")
    page.other.setCurrentIndex(0)
    page.other.activated.emit(0)
    page = ready(qtbot, window)
    assert unwrap(page.sides.maps["a"].matrix).title.startswith("run 1: ")
    assert window.session.state.pinned == window.session.state.tree[0].key


def test_a_deletion_closes_the_comparison_with_a_sentence(
    qtbot: QtBot, pair: Pair
) -> None:
    window, _engine = pair
    window.turn_to(tree.delete, window.session.state.tree[0].key)
    page = ready(qtbot, window)
    assert "“run 1” is deleted, and its comparison is closed" in (
        window.session.state.notice
    )
    assert shown(page) == []
    assert "one run only" in page.words.text()
    window.ways.undo()
    page = ready(qtbot, window)
    assert "Choose a run to compare “run 2” with." in page.words.text()


def test_nothing_is_compared_while_a_run_grows(pair: Pair) -> None:
    window, engine = pair
    window.session.do(runs.force, 7)
    part = Decoded(number=len(engine.decodes), trace=parted().until(4), limit=20)
    window.receive(part)
    page = runs_view(window).page(ComparePage)
    assert page.words.text() == "The runs are compared once both have ended."
    assert shown(page) == []


def test_nan_is_painted_as_nan_and_said(qtbot: QtBot, pair: Pair) -> None:
    window, engine = pair
    window.session.do(runs.force, 7)
    broken = parted()
    nan = np.full_like(broken.decoder_rows, np.nan)
    answer(window, engine, replace(broken, decoder_rows=nan))
    page = ready(qtbot, window)
    matrix = unwrap(page.grids["decoder"].matrix)
    assert np.isnan(matrix.values).all()
    assert np.isnan(matrix.shade).all()
    assert "decoder self attention: 6 heads are NaN" in page.words.text()
    assert np.isnan(unwrap(page.sides.maps["difference"].matrix).values).all()


def test_two_sentences_are_aligned_as_is_chosen(qtbot: QtBot, pair: Pair) -> None:
    window, engine = pair
    window.change_run(parse([]))
    text = "x b c d"
    spans = ((0, 1), (2, 3), (4, 5), (6, 7))
    other = make_trace(source=4, target=6, layers=2, heads=3, d_model=12, seed=9)
    other = replace(other, source=("x", "b", "c", "d"), source_spans=spans)
    first = tuple((2 * at, 2 * at + 1) for at in range(6))
    named = replace(ONE, source=tuple("abcdef"), source_spans=first)
    translate(window, engine, "a b c d e f", named)
    translate(window, engine, text, other)
    page = ready(qtbot, window)
    assert page.aligned.isVisibleTo(page)
    assert "They read different sentences: 3 groups" in page.words.text()
    matrix = unwrap(page.sides.maps["difference"].matrix)
    assert [str(name) for name in matrix.columns] == ["b", "c", "d", "(others)"]
    page.aligned.setCurrentIndex(1)
    page.aligned.activated.emit(1)
    page = ready(qtbot, window)
    assert "4 groups of source tokens are aligned, 2 tokens" in page.words.text()


def test_the_other_translation_is_fed_to_this_run(qtbot: QtBot, pair: Pair) -> None:
    window, engine = pair
    page = ready(qtbot, window)
    assert page.feed.isVisibleTo(page)
    click(qtbot, page.feed)
    assert engine.decodes[-1].reference == ONE.text
    assert window.reference.text() == ONE.text
    assert window.session.state.pinned == window.session.state.tree[0].key


# ---- both runs on other tabs -------------------------------------------------------


def test_the_switch_is_grey_with_the_reason_where_there_is_one_run(
    qtbot: QtBot, tmp_path: Path
) -> None:
    window, engine = make_window(qtbot, tmp_path)
    window.receive(opened_model(ONE.model, path="/m"))
    translate(window, engine, "a b c d e f", ONE)
    switch = view_of(window, AttentionView).beside
    assert not switch.isEnabled()
    assert "There is one run only" in switch.toolTip()
    qtbot.waitUntil(window.isActiveWindow)
    qtbot.keyClick(window, Qt.Key.Key_B, Qt.KeyboardModifier.ControlModifier)
    assert "There is one run only" in window.session.state.notice
    assert not window.session.state.views.beside


def test_attention_shows_both_maps_with_one_cursor(qtbot: QtBot, pair: Pair) -> None:
    window, _engine = pair
    window.session.set(tab="attention", step=4)
    view = view_of(window, AttentionView)
    click(qtbot, view.beside)
    shown = [name for name, one in view.both.maps.items() if one.isVisibleTo(view)]
    assert shown == ["a", "b", "difference"]
    small = [kind for kind, one in view.panels.items() if one.isVisibleTo(view)]
    assert small == ["encoder", "decoder"]
    for name, trace in (("a", ONE), ("b", parted())):
        matrix = unwrap(view.both.maps[name].matrix)
        wanted = head_weights(trace, "cross", 1, 2)[:4]
        np.testing.assert_allclose(matrix.values, wanted)
    assert "They part at step 3" in window.tabs.explanation.text()
    view.both.maps["a"].hovered.emit(MapCell(1, 4))
    assert window.session.state.hovered == AttentionCell("cross", 1, 4)
    assert view.both.maps["b"].marks.cell == (1, 4)
    assert view.main_picture() is view.both
    window.setFocus()
    qtbot.keyClick(window, Qt.Key.Key_A)  # of both there are maps alone
    assert not view.beside.isChecked()
    assert view.panels["cross"].isVisibleTo(view)


def test_a_head_that_a_run_lacks_is_named_in_its_place(
    qtbot: QtBot, pair: Pair
) -> None:
    window, engine = pair
    translate(
        window, engine, "g h i", make_trace(source=6, target=3, layers=2, heads=2)
    )
    window.session.set(tab="attention", step=3)
    shorter = window.session.state.tree[-1].key
    window.turn_to(tree.show, window.session.state.tree[0].key)
    window.session.do(tree.pin, shorter)
    window.tabs.setFocus()
    qtbot.keyClick(window, Qt.Key.Key_B, Qt.KeyboardModifier.ControlModifier)
    window.session.set(kind="cross", head=2)
    view = view_of(window, AttentionView)
    matrix = unwrap(view.both.maps["a"].matrix)
    assert matrix.note == "“run 3” has no such head."
    assert view.both.maps["difference"].isHidden()
    window.session.set(head=1, step=5)
    matrix = unwrap(view.both.maps["a"].matrix)
    said = "“run 3” has no step 5: it ended at step 3."
    assert (matrix.note, len(matrix.rows)) == (said, 3)
    page = view_of(window, OutputView)
    window.session.set(tab="output")
    next_token = page.page(NextToken)
    assert next_token._names[0].text() == said
    assert not next_token.other.isVisibleTo(page)


def test_output_shows_both_distributions(qtbot: QtBot, pair: Pair) -> None:
    window, _engine = pair
    window.session.set(tab="output", step=2)
    page = view_of(window, OutputView).page(NextToken)
    click(qtbot, page.beside)
    assert page.other.bars == token_bars(ONE.until(2))
    assert page.bars.bars == token_bars(parted().until(2))
    assert page.other.isVisibleTo(page)
    assert unwrap(page.both.numbers).rows == ("run 1", "run 2", "difference")
    click(qtbot, page.beside)
    assert not page.other.isVisibleTo(page)


def test_computation_shows_a_stage_of_both_on_one_range(pair: Pair) -> None:
    window, _engine = pair
    window.session.do(show_beside)
    window.session.set(tab="computation", stage="softmax", step=2)
    view = view_of(window, ComputationView)
    made = view.maps.matrices[:4]
    titles = [matrix.title for matrix in made if matrix is not None]
    assert titles == [
        *("run 1: masked scores [2, 6]", "run 1: weights [2, 6]"),
        *("run 2: masked scores [2, 6]", "run 2: weights [2, 6]"),
    ]
    for one, other in zip(made[:2], made[2:], strict=True):
        assert one is not None
        assert other is not None
        assert one.ends == other.ends
    scores, others = unwrap(made[0]), unwrap(made[2])
    top = max(float(np.abs(one.values).max()) for one in (scores, others))
    for one in (scores, others):
        np.testing.assert_allclose(one.shade, one.values / 2 / top + 0.5, atol=1e-6)
    np.testing.assert_allclose(scores.values, ONE.until(2).scores("cross", 1)[2], 1e-5)
    assert "run 1: exp" in view._words.text()
    view.maps.hovered.emit({"query": 1, "key": 3})
    assert [one.marks.cell for one in view.maps.maps[:4]] == [(1, 3)] * 4
    view.present(on=True)
    view.maps.resize(500, 500)  # where not all have room, the last of both are seen
    seen = [one.isVisibleTo(view.maps) for one in view.maps.maps[:4]]
    assert seen == [False, True, False, True]
