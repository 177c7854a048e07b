"""The Input and Lab pages of the Positions tab."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from pyqtgraph import GraphicsView, PlotCurveItem
from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QApplication, QLabel

from tests.opened import opened_model
from tests.traces import make_trace
from tests.window.parts import settle, unwrap, view_of
from tests.window.windows import FakeEngine, Pair, answer, reply, translate
from visformer.engine.messages import Shuffle
from visformer.pictures.selection import AttentionCell
from visformer.ui.views.positions.position_input import PositionInput
from visformer.ui.views.positions.positions import PositionLab, PositionsView
from visformer.ui.widgets.heatmap import HeatMap
from visformer.ui.window.window import MainWindow
from visformer.values.changes.position_change import PositionChange

Opened = tuple[MainWindow, FakeEngine, PositionsView]


@pytest.fixture
def opened(pair: Pair) -> Opened:
    window, engine = pair
    trace = make_trace(source=6, target=5)
    table = np.ones((16, trace.model.config.d_model), np.float32)
    window.receive(opened_model(trace.model, table))
    translate(window, engine, "one two", trace)
    window.session.set(tab="positions", step=3)
    return window, engine, view_of(window, PositionsView)


def test_choosing_a_form_runs_the_sentence_again(opened: Opened) -> None:
    window, engine, view = opened
    view.turn("lab")
    lab = view.page(PositionLab)
    assert lab.isVisible()
    assert not lab.amount.isVisible()
    lab.choose("shifted")
    assert engine.decodes[-1].intervention.positions == PositionChange("shifted", 5)
    assert lab.amount.isVisible()
    lab.amount.setValue(7)
    assert engine.decodes[-1].intervention.positions == PositionChange("shifted", 7)
    window.ways.undo()
    assert lab.amount.value() == 5
    lab.choose(None)
    assert not window.session.state.intervention
    assert lab.form.currentData() is None


def test_the_shuffled_run_is_said(opened: Opened) -> None:
    window, engine, view = opened
    view.turn("lab")
    view.page(PositionLab).shuffle.click()
    asked = engine.shuffles[-1]
    assert asked.source == "one two"
    assert len(asked.target) == 3
    shown = unwrap(window.session.state.visible)
    moved = replace(shown, source=shown.source[::-1])
    order = tuple(reversed(range(6)))
    reply(window, Shuffle, (order, shown, moved))
    assert "knows the order" in view.page(PositionLab).bag.text()
    translate(window, engine, "three", make_trace(source=4, target=5))
    assert view.page(PositionLab).bag.text() == ""


def test_what_both_runs_read_is_in_sight_in_large_text(opened: Opened) -> None:
    """The encodings stand beside what one run reads, and below what two read."""
    window, engine, view = opened
    view.turn("lab")
    lab = view.page(PositionLab)
    window.appearance.zoom_by(50)
    for _turn in range(3):
        QApplication.processEvents()
        window.resize(1280, 800)
    table, other_table = lab._tables
    own, modified = lab._attention

    def whole(heat_map: HeatMap) -> bool:
        return heat_map.visibleRegion().boundingRect() == heat_map.rect()

    assert whole(own)
    assert whole(table)
    lab.choose("none")
    changed = window.session.state.intervention
    other = make_trace(source=6, target=5, seed=1)
    answer(window, engine, replace(other, intervention=changed))
    settle(3)
    assert whole(own)
    assert whole(modified)
    below = own.mapTo(lab, QPoint(0, own.height())).y()
    for one in (table, other_table):
        assert one.isVisible()
        assert one.mapTo(lab, QPoint()).y() >= below


def test_the_input_page_adds_up(opened: Opened) -> None:
    window, _engine, view = opened
    view.turn("input")
    page = view.page(PositionInput)
    maps = page.maps

    def values(at: int) -> np.ndarray:
        return unwrap(maps[at].matrix).values

    assert values(2).shape == (6, 8)
    page.side.setCurrentText("target")
    np.testing.assert_allclose(values(0) + values(1), values(2), atol=1e-6)
    assert len(values(2)) == 3
    maps[0].clicked.emit((2, 4))
    assert page.position.value() == 2
    window.session.set(step=0)
    assert page.about.text().startswith("The sum is drawn once")


def test_the_labs_map_is_of_the_head_looked_at(opened: Opened) -> None:
    window, _engine, view = opened
    view.turn("lab")
    maps = view.page(PositionLab).findChildren(HeatMap)
    for layer, head in ((0, 0), (0, 1), (1, 1)):
        window.session.set(layer=layer, head=head)
        titles = [m.matrix.title for m in maps if m.matrix is not None]
        words = f"layer {layer + 1}, head {head + 1}"
        assert sum(title.endswith(words) for title in titles) == 1


def test_the_fingerprint_has_even_and_odd_dimensions_in_their_places(
    opened: Opened,
) -> None:
    _window, _engine, view = opened
    view.turn("input")
    name = "fingerprint of the chosen position"
    plots = view.page(PositionInput).findChildren(GraphicsView)
    (plot,) = [plot for plot in plots if plot.accessibleName() == name]
    curves = [item for item in plot.scene().items() if isinstance(item, PlotCurveItem)]
    even, odd = sorted(list(curve.getData()[0]) for curve in curves)
    assert (even, odd) == ([0, 2, 4, 6], [1, 3, 5, 7])


def test_pointing_at_a_cell_draws_no_map_of_the_labs(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    window, _engine, view = opened
    drawn: list[object] = []
    for page in ("table", "input", "lab"):
        view.turn(page)
        with monkeypatch.context() as spied:
            spied.setattr(HeatMap, "draw", lambda *given, **more: drawn.append(given))
            window.session.set(hovered=AttentionCell("cross", 1, 2))
            window.session.set(hovered=None, busy="", notice=page)
        assert not drawn
    window.session.set(step=2)
    assert len(unwrap(view.page(PositionLab)._attention[0].matrix).rows) == 2


def test_the_input_page_opens_on_a_word_with_its_digits(opened: Opened) -> None:
    window, _engine, view = opened
    view.turn("input")
    page = view.page(PositionInput)
    trace = unwrap(window.session.state.visible)
    longest = max(range(len(trace.source)), key=lambda at: len(trace.source[at]))
    assert page.position.value() == longest
    assert page.numbers.isVisible()
    assert f"pos {longest}" in page.numbers.numbers.rows[1]  # type: ignore[union-attr]
    assert str(trace.source_ids[0]) in page.ids.text()
    page.position.setValue(0)
    window.session.set(step=4)
    assert page.position.value() == 0  # a step keeps what was chosen
    assert all(title.text() for title in page._titles)


@pytest.mark.parametrize("page", ["table", "input", "lab"])
def test_pages_keep_their_pictures_where_there_is_little_room(
    opened: Opened, page: str
) -> None:
    window, _engine, view = opened
    view.turn(page)
    font = window.font()
    font.setPointSizeF(2 * font.pointSizeF())
    view.setFont(font)
    window.resize(900, 620)
    QApplication.sendPostedEvents()
    maps = [m for m in view.findChildren(HeatMap) if m.isVisible() and m.matrix]
    assert maps
    for heat_map in maps:
        assert heat_map.width() >= 240, heat_map.accessibleName()
        assert heat_map.height() >= 200
    for label in view.findChildren(QLabel):
        if label.isVisible() and label.wordWrap():
            needed = label.heightForWidth(label.width())
            assert label.height() >= needed, label.text()


def test_the_sum_is_in_sight_where_there_is_little_room(opened: Opened) -> None:
    window, _engine, view = opened
    view.turn("input")
    window.resize(900, 620)
    QApplication.sendPostedEvents()
    table = view.page(PositionInput).numbers
    place = table.visualRect(table.model().index(2, 0))
    assert table.viewport().rect().contains(place)
