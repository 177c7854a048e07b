from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QWidget

from tests.states import ran
from tests.states import showing as state
from tests.traces import make_trace
from tests.unit.pictures.test_reading import ALL, sentence
from tests.window.exports import csv_of
from tests.window.painted import pixels
from tests.window.parts import click, put_up, unwrap
from tests.window.test_heatmap import middle
from tests.window.windows import make_view
from visformer.pictures.attention import reading as summary
from visformer.pictures.attention.arcs import arcs as arcs_of
from visformer.pictures.selection import SUMMARIES, AttentionCell, Form, Look, Summary
from visformer.session.state import Session
from visformer.ui.bars.look_bar import LookBar
from visformer.ui.views.attention import attention
from visformer.ui.views.attention.arc_map import ArcsCanvas
from visformer.ui.views.attention.attention import AttentionView
from visformer.ui.views.attention.overview import Overview
from visformer.ui.views.attention.running_text import RunningText
from visformer.values.facts import KINDS, Kind
from visformer.values.measured import Attribution, AttributionPlace, Attributions


@pytest.fixture
def view(qtbot: Any) -> AttentionView:
    return make_view(qtbot, AttentionView, 1000, 700)


def joined(view: AttentionView) -> Session:
    """Show a sentence; return the Session that it is shown by."""
    trace = sentence()
    view.session.set(**ran(trace), step=len(trace))
    return view.session


def point(widget: QWidget, at: QPointF) -> None:
    """Move the mouse there; offscreen, Qt's own way reaches no scrolled widget."""
    none = Qt.MouseButton.NoButton
    move = QEvent.Type.MouseMove
    where = widget.mapToGlobal(at)
    event = QMouseEvent(move, at, where, none, none, Qt.KeyboardModifier.NoModifier)
    widget.mouseMoveEvent(event)


def arcs(view: AttentionView, kind: Kind) -> ArcsCanvas:
    canvas = view.panels[kind].panel("arcs").canvas
    assert isinstance(canvas, ArcsCanvas)
    return canvas


def texts(view: AttentionView, kind: Kind) -> RunningText:
    canvas = view.panels[kind].panel("text").canvas
    assert isinstance(canvas, RunningText)
    return canvas


def token_point(canvas: ArcsCanvas, side: str, index: int) -> QPointF:
    """Find a point of a token's line."""
    x = 3.0 if side == "query" else canvas.width() - 3.0
    for y in range(0, canvas.height(), 2):
        if canvas.token_at(QPointF(x, y)) == (side, index):
            return QPointF(x, y)
    raise LookupError(side, index)


# ---- the row of controls ----------------------------------------------------------


def test_controls_change_one_thing_each(qtbot: Any) -> None:
    bar = LookBar()
    qtbot.addWidget(bar)
    looks: list[Look] = []
    bar.changed.connect(looks.append)
    start = Look(hide=frozenset({"pad"}), renormalise=True)
    bar.draw(start, "fixed", working=False)
    click(qtbot, bar.forms["arcs"])
    qtbot.keyClick(bar.summaries, Qt.Key.Key_Down)
    bar.draw(start, "fixed", working=False)
    bar.actions_["special"].trigger()
    bar.draw(start, "fixed", working=False)
    bar.actions_["words"].trigger()
    bar.draw(start, "fixed", working=False)
    bar.actions_["pad"].trigger()
    bar.draw(start, "fixed", working=False)
    bar.mass.setValue(10)
    assert looks == [
        replace(start, form="arcs"),
        replace(start, summary="mean"),
        replace(start, hide=frozenset({"pad", "special"})),
        replace(start, words=True),
        replace(start, hide=frozenset(), renormalise=False),
        replace(start, mass=0.5),
    ]


def test_renormalising_needs_something_hidden_and_the_slider_arcs(qtbot: Any) -> None:
    bar = put_up(qtbot, LookBar())
    bar.draw(Look(), "fixed", working=False)
    assert not bar.actions_["renormalise"].isEnabled()
    assert not bar.mass.isVisible()
    bar.draw(replace(ALL, form="arcs", mass=0.75), "fixed", working=False)
    assert bar.actions_["renormalise"].isEnabled()
    assert bar.mass.isVisible()
    assert bar.mass.value() / bar.mass.maximum() == 0.75
    assert bar.tokens.text() == "some words"


# ---- maps -------------------------------------------------------------------------


def test_a_changed_map_is_labelled_shown_and_exported(view: AttentionView) -> None:
    joined(view).set(look=replace(ALL, summary="mean", renormalise=True))
    heat_map = view.maps["cross"]
    assert heat_map.canvas.cells.shape == (2, 3)
    text = csv_of(heat_map.export)
    assert text.startswith(
        '"cross · layer 1: mean of 2 heads; special tokens, pads, punctuation hidden, '
        "renormalised; subwords merged: keys summed, queries averaged"
        '","▁the","▁tired","▁cat"\n'
    )
    rows = [line.rsplit(",", 3)[1:] for line in text.splitlines()[1:]]
    assert np.allclose(np.array(rows, float).sum(1), 1, atol=1e-6)


def test_a_merged_cell_is_picked_by_its_first_tokens(
    view: AttentionView, qtbot: Any
) -> None:
    session = joined(view)
    session.set(look=ALL)
    heat_map = view.maps["cross"]
    click(qtbot, heat_map.canvas, middle(heat_map, 1, 1))
    assert session.state.locked == AttentionCell("cross", 3, 1)


def test_cells_keep_their_size_while_words_are_added(view: AttentionView) -> None:
    session = joined(view)
    session.set(look=ALL, step=2)
    before = view.maps["cross"].canvas.geometry()
    session.set(step=4)
    assert view.maps["cross"].canvas.geometry() == before


# ---- arcs -------------------------------------------------------------------------


@pytest.mark.parametrize(("side", "index"), [("query", 2), ("key", 3)])
def test_pointing_at_a_token_takes_its_strongest_cell(
    view: AttentionView, side: str, index: int
) -> None:
    session = joined(view)
    session.set(look=Look(form="arcs"))
    canvas = arcs(view, "cross")
    point(canvas, token_point(canvas, side, index))
    weights = sentence().attention("cross", 0, 0)
    best = weights[index] if side == "query" else weights[:, index]
    at = int(best.argmax())
    expected = (index, at) if side == "query" else (at, index)
    assert session.state.hovered == AttentionCell("cross", *expected)
    assert session.state.look.by == side
    canvas.leaveEvent(QEvent(QEvent.Type.Leave))
    assert session.state.hovered is None


def test_a_click_on_a_token_keeps_its_cell(view: AttentionView, qtbot: Any) -> None:
    session = joined(view)
    session.set(kind="decoder", look=Look(form="arcs"))
    canvas = arcs(view, "decoder")
    click(qtbot, canvas, token_point(canvas, "query", 1).toPoint())
    assert unwrap(session.state.locked).query == 1
    assert session.state.kind == "decoder"


def test_arcs_stand_out_and_the_threshold_takes_some_away(view: AttentionView) -> None:
    session = joined(view)
    session.set(look=Look(form="arcs"))
    canvas = arcs(view, "cross")
    plain = pixels(canvas)
    session.set(locked=AttentionCell("cross", 1, 1))
    marked = pixels(canvas)
    session.set(locked=None, look=Look(form="arcs", mass=0.05))
    few = pixels(canvas)
    assert not np.array_equal(plain, marked)
    assert np.count_nonzero(few != few[0, 0]) < np.count_nonzero(plain != plain[0, 0])


def test_of_a_long_sentence_the_rows_in_sight_are_painted(
    view: AttentionView, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[range] = []

    def spy(matrix: Any, share: float, rows: range) -> Any:
        asked.append(rows)
        return arcs_of(matrix, share, rows)

    monkeypatch.setattr("visformer.ui.views.attention.arc_map.arcs", spy)
    long = make_trace(300, 20, heads=1, layers=1)
    view.draw(state(long, kind="encoder", look=Look(form="arcs")))
    panel = view.panels["encoder"].panel("arcs")
    panel.area.verticalScrollBar().setValue(10**6)
    panel.canvas.repaint()
    assert asked
    assert all(len(rows) < 100 for rows in asked)
    assert asked[-1].stop == 300 or any(rows.stop == 300 for rows in asked)


def test_the_newest_row_of_many_is_in_sight(view: AttentionView) -> None:
    session = joined(view)
    session.set(**ran(make_trace(5, 120)), step=1, look=Look(form="arcs"))
    view.grab()
    session.set(step=110)
    canvas = arcs(view, "cross")
    assert canvas.visibleRegion().contains(QPoint(5, round(canvas.line_of(109))))


# ---- text -------------------------------------------------------------------------


def test_pointing_into_the_text_tints_the_other_side(view: AttentionView) -> None:
    session = joined(view)
    session.set(look=Look(form="text"))
    canvas = texts(view, "cross")
    before = pixels(canvas)
    box = canvas.boxes("key", 3)[0]
    point(canvas, box.center())
    assert unwrap(session.state.hovered).key == 3
    assert session.state.look.by == "key"
    assert not np.array_equal(before, pixels(canvas))
    box = canvas.boxes("query", 2)[0]
    assert canvas.token_at(box.center()) == ("query", 2)
    assert canvas.token_at(QPointF(-5, -5)) is None


def test_right_to_left_and_wide_tokens_are_found_where_they_stand(
    view: AttentionView,
) -> None:
    source = ("▁של", "ום", "▁עולם", "▁我有", "🙂", "</s>")
    view.draw(state(sentence(source=source), look=Look(form="text")))
    canvas = texts(view, "cross")
    canvas.grab()
    for index in range(len(source)):
        for box in canvas.boxes("key", index):
            assert canvas.token_at(box.center()) == ("key", index)
    first, second = canvas.boxes("key", 0)[0], canvas.boxes("key", 2)[0]
    assert first.x() > second.x()  # the sentence begins at the right


# ---- everything -------------------------------------------------------------------


def looks() -> Iterator[tuple[Form, Summary]]:
    """Yield each summary as a map and, by turns, in one of the other forms."""
    others: list[Form] = ["arcs", "text"]
    for name, other in zip(SUMMARIES, cycle(others), strict=False):
        yield from (("map", name), (other, name))


@pytest.mark.parametrize(("form", "name"), [*looks()])
def test_every_look_of_every_step_is_drawn(
    view: AttentionView, form: Any, name: Any
) -> None:
    session = joined(view)
    trace, ones = unwrap(session.state.visible), np.ones((20, 20), np.float32)
    places = [AttributionPlace(name, kind, at) for kind in KINDS for at in range(3)]
    known = dict.fromkeys(places, Attribution(values=ones))
    session.set(attributions=Attributions(of=trace.storage, known=known))
    for kind in KINDS:
        for step in (0, 1, 5):
            look = replace(ALL, form=form, summary=name)
            session.set(step=step, kind=kind, look=look)
            view.grab()
        mapped = form == "map" or name == "gradient"  # which is signed
        panel = view.maps[kind] if mapped else view.panels[kind].panel(form)
        assert csv_of(panel.export)
        small = [view.maps[other] for other in KINDS if other != kind]
        assert all(csv_of(heat_map.export) for heat_map in small)
    session.set(**ran(None))
    view.grab()


def test_a_long_summary_comes_in_slices(
    view: AttentionView, qtbot: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = joined(view)
    monkeypatch.setattr(summary, "LARGE", 0)
    monkeypatch.setattr(attention, "SLICE_MS", 0)
    session.set(look=Look(summary="rollout"))
    assert view.drawing
    session.set(hovered=AttentionCell("cross", 1, 1))  # of the picture before
    qtbot.waitUntil(lambda: not view.drawing)
    text = csv_of(view.maps["cross"].export)
    assert text.startswith('"cross · layer 1: mean of 2 heads')
    session.set(look=Look())
    assert csv_of(view.maps["cross"].export).startswith(',"▁the"')


# ---- the overview's order ---------------------------------------------------------


def head_at(overview: Overview, layer: int, head: int) -> QPoint:
    for y in range(0, overview.height(), 4):
        for x in range(0, overview.width(), 4):
            if overview.head_at(QPointF(x, y)) == (layer, head):
                return QPoint(x, y)
    raise LookupError(layer, head)


def test_heads_are_chosen_where_their_order_puts_them(
    view: AttentionView, qtbot: Any
) -> None:
    session = joined(view)
    overview = view.overview
    plain = pixels(overview)
    qtbot.keyClick(overview.orders, Qt.Key.Key_Down)
    assert session.state.look.order == "entropy"
    assert not np.array_equal(plain, pixels(overview))
    ranking = unwrap(overview._ranking)
    places = [head_at(overview, *at) for at in ranking.order]
    assert sorted(places, key=lambda at: (at.y(), at.x())) == places
    last = ranking.order[-1]
    click(qtbot, overview, places[-1])
    assert (session.state.layer, session.state.head) == last
    qtbot.keyClick(overview, Qt.Key.Key_Left)
    assert (session.state.layer, session.state.head) == ranking.order[-2]


def test_a_long_sentence_is_ordered_in_slices(
    view: AttentionView, qtbot: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = joined(view)
    monkeypatch.setattr(attention, "is_large", lambda *_: True)
    monkeypatch.setattr(attention, "SLICE_MS", 0)
    session.set(look=Look(order="maximum"))
    assert view.overview._ranking is None
    qtbot.waitUntil(lambda: not view.drawing)
    assert view.overview._ranking is not None


def test_what_a_head_does_stands_apart_from_its_title(view: AttentionView) -> None:
    joined(view).set(look=Look(form="text"))
    panel = view.panels["cross"].panel("text")
    view.grab()
    title, gist = panel._title.geometry(), panel._gist.geometry()
    assert gist.left() - title.right() >= panel.fontMetrics().height() / 2
