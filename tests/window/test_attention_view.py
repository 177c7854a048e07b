from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QCoreApplication, QPoint, QRect, Qt

from tests.states import ran
from tests.states import showing as state
from tests.traces import make_trace
from tests.window.parts import click, unwrap
from tests.window.test_heatmap import colours, middle
from tests.window.windows import make_view, show
from visformer.pictures.attention import weights
from visformer.pictures.attention.mosaic import Mosaic, mosaic
from visformer.pictures.attention.reading import offered_scale
from visformer.pictures.selection import SCALE_TIPS, AttentionCell, Scale
from visformer.session.state import State
from visformer.ui.views.attention import attention
from visformer.ui.views.attention.attention import AttentionView
from visformer.ui.widgets.heatmap import HeatMap
from visformer.ui.widgets.labels import LEAST
from visformer.values.facts import KINDS, Kind


@pytest.fixture
def view(qtbot: Any) -> AttentionView:
    return make_view(qtbot, AttentionView, 1000, 600)


def test_another_scale_is_drawn_in_every_map(view: AttentionView) -> None:
    view.session.set(**ran(make_trace(5, 4)), step=4)
    view.session.set(scale="row")
    for kind in KINDS:
        matrix = unwrap(view.maps[kind].matrix)
        assert matrix.ends == ("0", "row max")
        assert np.allclose(matrix.shade.max(axis=1), 1)


@pytest.mark.parametrize("kind", KINDS)
def test_hovering_reports_the_cell(view: AttentionView, qtbot: Any, kind: Kind) -> None:
    show(view, state(make_trace(5, 4)))
    QCoreApplication.sendPostedEvents()  # everything is in its place
    heat_map = view.maps[kind]
    qtbot.mouseMove(heat_map.canvas, middle(heat_map, 2, 1))
    assert view.session.state.hovered == AttentionCell(kind, 2, 1)


def test_a_click_locks_and_another_frees(view: AttentionView, qtbot: Any) -> None:
    session = view.session
    session.set(**ran(make_trace(5, 4)), step=4)
    heat_map = view.maps["cross"]
    where = middle(heat_map, 3, 1)
    click(qtbot, heat_map.canvas, where)
    assert session.state.locked == AttentionCell("cross", 3, 1)
    assert session.state.kind == "cross"
    click(qtbot, heat_map.canvas, where)
    assert session.state.locked is None


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_a_click_on_a_small_picture_makes_it_the_large_one(
    view: AttentionView, qtbot: Any, kind: Kind
) -> None:
    session = view.session
    session.set(**ran(make_trace(5, 4)), step=4)
    view.grab()
    sizes = {name: one.width() * one.height() for name, one in view.maps.items()}
    assert max(sizes, key=lambda name: sizes[name]) == "cross"
    small = view.maps[kind]
    click(qtbot, small.canvas, middle(small, 2, 1))
    assert (session.state.kind, session.state.locked) == (kind, None)
    view.grab()
    areas = {name: one.width() * one.height() for name, one in view.maps.items()}
    assert max(areas, key=lambda name: areas[name]) == kind
    assert areas[kind] == pytest.approx(sizes["cross"], rel=0.2)


@pytest.mark.parametrize("size", [(620, 420), (1000, 600), (500, 900), (1600, 500)])
@pytest.mark.parametrize("folded", [False, True])
def test_nothing_overlaps_and_no_map_is_too_small(
    view: AttentionView, size: tuple[int, int], folded: bool
) -> None:
    view.resize(*size)
    view.session.set(**ran(make_trace(9, 8)), step=8)
    view.overview.header.fold.setChecked(folded)
    view.grab()
    parts = [*view.panels.values(), view.heads]
    places = [QRect(one.mapTo(view, QPoint()), one.size()) for one in parts]
    for place in places:
        assert view.rect().contains(place)
        assert sum(place.intersects(other) for other in places) == 1
    for heat_map in view.maps.values():
        canvas = heat_map.canvas.geometry()
        assert heat_map.rect().contains(canvas)
        assert min(canvas.width(), canvas.height()) >= LEAST - 1


def test_the_locked_cell_is_found_in_every_head(
    view: AttentionView, qtbot: Any
) -> None:
    trace = make_trace(5, 4, layers=3, heads=2)
    session, question = view.session, view.overview.question
    session.set(**ran(trace), step=4)
    assert question.isHidden()
    session.set(locked=AttentionCell("cross", 2, 1))
    view.grab()
    assert question.isVisible()
    click(qtbot, question)
    matrix = unwrap(view.heads.finder.matrix)
    assert matrix.title == "Which head reads “s1” from “t2”?"
    expected = [
        [trace.attention("cross", la, h)[2, 1] for h in (0, 1)] for la in range(3)
    ]
    np.testing.assert_array_equal(matrix.values, expected)
    view.grab()
    finder = view.heads.finder
    click(qtbot, finder.canvas, middle(finder, 2, 1))
    assert (session.state.layer, session.state.head) == (2, 1)
    assert finder.canvas._cell == (2, 1)
    session.set(locked=AttentionCell("cross", 3, 0))
    assert unwrap(finder.matrix).values[2, 1] == trace.attention("cross", 2, 1)[3, 0]
    click(qtbot, view.heads.back)
    assert view.heads.currentWidget() is view.overview


def test_a_paler_map_offers_its_own_range(view: AttentionView, qtbot: Any) -> None:
    view.session.set(**ran(make_trace(60, 8)), step=8)
    heat_map = view.maps["cross"]
    matrix = unwrap(heat_map.matrix)
    assert matrix.values.max() < 0.3
    view.grab()
    offer = heat_map.bar.offer
    assert (
        offer.accessibleName() == f"use this map's maximum, {matrix.values.max():.2g}"
    )
    click(qtbot, offer)
    assert view.bar.scales.currentData() == "head"
    assert view.bar.scales.toolTip() == SCALE_TIPS["head"]
    matrix = unwrap(heat_map.matrix)
    assert matrix.shade.max() == 1
    small = unwrap(view.maps["encoder"].matrix)
    assert (small.offer, bool(small.note)) == ("", True)  # this range is its own
    click(qtbot, heat_map.bar.offer)
    assert view.bar.scales.currentData() == "fixed"
    assert view.bar.scales.toolTip() == SCALE_TIPS["fixed"]
    notes = [view.maps[kind].matrix.note for kind in KINDS]  # type: ignore[union-attr]
    assert notes == ["", "", "0 to 1, linear"]


def test_a_click_beside_the_cells_chooses_the_kind(
    view: AttentionView, qtbot: Any
) -> None:
    cell = AttentionCell("cross", 0, 0)
    show(view, state(make_trace(), locked=cell))
    click(qtbot, view.maps["encoder"], QPoint(3, 3))
    assert (view.session.state.kind, view.session.state.locked) == ("encoder", cell)


def test_hovering_changes_marks_and_no_image(
    view: AttentionView, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = state(make_trace(5, 4))
    view.draw(shown)
    monkeypatch.setattr(HeatMap, "draw", None)
    view.draw(replace(shown, hovered=AttentionCell("cross", 1, 2)))
    description = view.maps["cross"].accessibleDescription()
    assert description.startswith("“t1” after “t0”, s2: 0.")


def test_a_step_leaves_the_encoder_alone(view: AttentionView) -> None:
    trace = make_trace(5, 4)
    session = view.session
    session.set(**ran(trace), step=2)
    encoder = view.maps["encoder"].canvas.cells
    cross = view.maps["cross"].canvas.geometry()
    session.set(step=3)
    assert view.maps["encoder"].canvas.cells is encoder
    assert view.maps["cross"].canvas.cells.shape == (3, 5)
    assert view.maps["cross"].canvas.geometry() == cross


def test_another_sentence_is_drawn_although_it_looks_the_same(
    view: AttentionView,
) -> None:
    view.draw(state(make_trace(seed=0)))
    before = view.maps["encoder"].canvas.cells
    view.draw(state(make_trace(seed=1)))
    assert not np.array_equal(view.maps["encoder"].canvas.cells, before)


@pytest.mark.parametrize(
    ("values", "scale", "offered"),
    [
        ([[0.2, 0.1]], "fixed", "head"),
        ([[0.4, 0.1], *[[0.1, 0.1]] * 9], "fixed", "row"),
        ([[0.9, 0.1]], "fixed", None),
        ([[0.0, 0.0]], "log", None),
        ([[0.2, 0.1]], "head", "fixed"),
        ([[0.2, 0.1]], "row", "fixed"),
    ],
)
def test_a_range_is_offered_where_all_is_pale(
    values: list[list[float]], scale: Scale, offered: Scale | None
) -> None:
    assert offered_scale(np.array(values, np.float32), scale) == offered


def test_arrows_walk_the_grid_and_stop_at_its_edge(
    view: AttentionView, qtbot: Any
) -> None:
    session = view.session
    session.set(**ran(make_trace(layers=2, heads=2)), step=4)
    for key in (Qt.Key.Key_Right, Qt.Key.Key_Right, Qt.Key.Key_Down):
        qtbot.keyClick(view.overview, key)
    assert (session.state.layer, session.state.head) == (1, 1)
    for key in (Qt.Key.Key_Left, Qt.Key.Key_Up, Qt.Key.Key_Up):
        qtbot.keyClick(view.overview, key)
    assert (session.state.layer, session.state.head) == (0, 0)


@pytest.mark.parametrize("target", [0, 4])
def test_nothing_decoded_is_drawn(view: AttentionView, target: int) -> None:
    view.draw(state(make_trace(target=target), 0))
    view.grab()
    view.draw(State())
    view.grab()
    view.draw(state(make_trace(1, 1, 1, 1)))
    assert len(colours(view.grab().toImage())) > 10


def test_resizing_reduces_again(
    view: AttentionView, monkeypatch: pytest.MonkeyPatch
) -> None:
    view.draw(state(make_trace(source=300, target=200, layers=1, heads=4)))
    sizes: list[tuple[int, int]] = []

    def spy(*given: Any, thumbnail: tuple[int, int], **extent: Any) -> Mosaic:
        sizes.append(thumbnail)
        return mosaic(*given, thumbnail=thumbnail, **extent)

    monkeypatch.setattr(attention, "mosaic", spy)
    view.resize(700, 500)
    view.grab()
    assert sizes
    assert sizes[-1] == view.overview.thumbnail(1, 4)


def test_the_overview_of_a_long_sentence_comes_in_slices(
    view: AttentionView, qtbot: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Mosaic | None] = []
    monkeypatch.setattr(attention, "is_large", lambda *_: True)
    monkeypatch.setattr(attention, "SLICE_MS", 0)
    monkeypatch.setattr(view.overview, "draw", drawn.append)
    shown = state(make_trace(20, 20, layers=3))
    view.draw(shown)
    qtbot.waitUntil(lambda: not view.drawing)
    assert shown.visible is not None
    size = view.overview.thumbnail(3, 2)
    whole = mosaic(
        shown.visible, shown.selection, "cross", extent=(20, 20), thumbnail=size
    )
    assert drawn
    assert np.array_equal(unwrap(drawn[-1]).image, whole.image)
    view.draw(replace(shown, kind="decoder"))
    qtbot.waitUntil(lambda: not view.drawing)
    before = len(drawn)
    view.draw(shown)
    assert len(drawn) == before + 1
    assert not view.drawing


def test_a_long_head_comes_in_slices_and_no_other_sentence_stands_for_it(
    view: AttentionView, qtbot: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, long = make_trace(6, 5), make_trace(20, 20)
    show(view, state(before))
    for limit in ("TOGETHER", "SLICE", "LONG"):
        monkeypatch.setattr(weights, limit, 0)
    monkeypatch.setattr(attention, "is_large", lambda *_: True)
    monkeypatch.setattr(attention, "SLICE_MS", 0)
    show(view, state(long))
    assert view.drawing
    assert {heat_map.matrix for heat_map in view.maps.values()} == {None}
    qtbot.waitUntil(lambda: not view.drawing)
    for kind, heat_map in view.maps.items():
        own = long.attention(kind, 0, 0)
        assert np.array_equal(unwrap(heat_map.matrix).values, own) is True
