from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PySide6.QtGui import QColor, QPalette
from PySide6.QtWidgets import (
    QApplication,
    QComboBox,
    QLabel,
    QLineEdit,
    QPushButton,
    QSpinBox,
    QWidget,
)
from pytestqt.qtbot import QtBot

from tests.opened import opened_model
from tests.states import ran
from tests.traces import make_trace
from tests.window.exports import csv_of
from tests.window.parts import unwrap
from tests.window.windows import make_view, named, show, words
from visformer.formats.loading import build
from visformer.session.state import State
from visformer.ui.views.positions.curves import Curves
from visformer.ui.views.positions.positions import PositionsView, PositionTable
from visformer.ui.widgets.heatmap import HeatMap
from visformer.values.encodings import sinusoid
from visformer.values.trace import Trace

TABLE = sinusoid(64, 16)


def shown(trace: Trace | None = None, **changes: Any) -> State:
    trace = trace or make_trace(source=5, target=4)
    made = State(
        opened=opened_model(make_trace(source=5, target=4).model, TABLE),
        **ran(trace),
        visible=trace,
        step=4,
    )
    return replace(made, **changes)


@pytest.fixture
def view(qtbot: Any) -> PositionsView:
    view = make_view(qtbot, PositionsView)
    view.resize(1000, 620)
    return view


def test_no_model_is_said(view: PositionsView) -> None:
    view.draw(State())
    assert "no model is open" in words(view, "what the table is")
    show(view, shown())
    view.draw(State())
    assert "no model is open" in words(view, "what the table is")


def test_the_table_is_said_to_be_what_it_is(view: PositionsView) -> None:
    show(view, shown())
    assert "the paper's sinusoids" in words(view, "what the table is")
    learned = np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32)
    show(view, shown(opened=opened_model(make_trace().model, learned)))
    assert "measured from the table" in words(view, "what the table is")
    assert "measured from the table" in words(view, "curve 1 in words")


def test_a_table_new_on_screen_is_drawn_in_two_turns_and_painted_whole(
    view: PositionsView, qtbot: QtBot
) -> None:
    view.draw(State())
    view.show()
    QApplication.processEvents()
    show(view, shown())
    page = view.page(PositionTable)
    heat_map = named(view, HeatMap, "positional encodings, positions by dimensions")
    assert heat_map.matrix is not None
    assert "no model is open" in words(view, "what the table is")
    assert not page.updatesEnabled()
    qtbot.waitUntil(page.updatesEnabled)
    assert "the paper's sinusoids" in words(view, "what the table is")
    assert words(view, "curve 1 in words")


def test_another_table_takes_the_place_of_one_that_is_not_drawn_yet(
    view: PositionsView, qtbot: QtBot
) -> None:
    view.show()
    QApplication.processEvents()
    show(view, shown())
    view.draw(State())
    qtbot.waitUntil(view.page(PositionTable).updatesEnabled)
    assert "no model is open" in words(view, "what the table is")


def test_hovering_says_value_position_and_dimension(view: PositionsView) -> None:
    show(view, shown())
    heat_map = named(view, HeatMap, "positional encodings, positions by dimensions")
    heat_map.hovered.emit((1, 0))
    told = words(view, "the cell pointed at")
    assert "pos 1 · source " in told
    assert "dim 0: 0.8415" in told
    named(view, QSpinBox, "first position").setValue(3)
    heat_map.hovered.emit((1, 0))
    assert "pos 4" in words(view, "the cell pointed at")
    heat_map.hovered.emit(None)
    assert "Point at the map" in words(view, "the cell pointed at")


def test_the_range_reaches_all_positions_and_survives_a_step(
    view: PositionsView,
) -> None:
    show(view, shown())
    first = named(view, QSpinBox, "first position")
    last = named(view, QSpinBox, "last position")
    assert (first.value(), last.value()) == (0, 31)
    show(view, shown(trace=make_trace(source=40, target=3)))
    assert last.value() == 39
    named(view, QPushButton, "show all positions").click()
    assert (first.value(), last.value()) == (0, 63)
    show(view, shown(trace=make_trace(source=50, target=3)))
    assert last.value() == 63
    last.setValue(5)
    first.setValue(9)
    assert (first.value(), last.value()) == (9, 9)
    last.setValue(2)
    assert (first.value(), last.value()) == (2, 2)


def test_dimensions_are_chosen_and_bad_ones_answered(
    view: PositionsView, qtbot: Any
) -> None:
    show(view, shown())
    field = named(view, QLineEdit, "dimensions to draw as curves")
    complaint = named(view, QLabel, "what is wrong with the dimensions")
    field.clear()
    qtbot.keyClicks(field, "2, 5")
    assert "2 (sin)" in words(view, "curve 1 in words")
    assert "5 (cos)" in words(view, "curve 2 in words")
    assert named(view, QLabel, "curve 3 in words").isHidden()
    qtbot.keyClicks(field, "x")
    assert "“5x” is not a dimension" in complaint.text()
    assert not complaint.isHidden()
    assert "5 (cos)" in words(view, "curve 2 in words")
    qtbot.keyClick(field, "\b")
    assert complaint.isHidden()


def test_similarity_is_by_dot_product_or_cosine(view: PositionsView) -> None:
    show(view, shown())
    assert "dot product of two" in words(view, "what the similarity map shows")
    named(view, QComboBox, "how positions are compared").setCurrentText("cosine")
    assert "both lengths" in words(view, "what the similarity map shows")
    named(view, HeatMap, "similarity of every two positions").hovered.emit((2, 2))
    assert words(view, "what the similarity map shows") == "pos 2 and pos 2: cosine 1"


def test_it_paints_in_light_and_dark(view: PositionsView) -> None:
    show(view, shown())
    view.show()
    for ground, text in (("white", "black"), ("black", "white")):
        palette = QPalette()
        palette.setColor(QPalette.ColorRole.Base, QColor(ground))
        palette.setColor(QPalette.ColorRole.Text, QColor(text))
        view.setPalette(palette)
        image = view.grab().toImage()
        pixels = [
            image.pixelColor(x, y).name()
            for x in range(0, image.width(), 5)
            for y in range(0, image.height(), 5)
        ]
        assert len(set(pixels)) > 20
        plot = named(
            view, QWidget, "curves of the chosen dimensions over the positions"
        )
        assert plot.grab().toImage().pixelColor(2, 2).name() == QColor(ground).name()


def test_the_curves_numbers_are_copied_as_csv(view: PositionsView) -> None:
    show(view, shown())
    named(view, QSpinBox, "last position").setValue(1)
    header, zero, _one = csv_of(view.findChildren(Curves)[0].export).splitlines()
    assert header.startswith(',"dim 0","dim 1"')
    assert zero.startswith('"pos 0",0.0,1.0')


def opened(preset: str, **sizes: Any) -> State:
    """Return the State right after a fresh model of a preset was opened."""
    small: dict[str, Any] = {"d_model": 16, "heads": 2, "feed_forward": 32}
    checkpoint = build(preset, **{**small, "max_positions": 40, **sizes})
    positions = unwrap(checkpoint.extras.positions)
    return State(opened=opened_model(checkpoint.facts, positions()))


def test_a_learned_table_is_the_models_and_is_called_learned(
    view: PositionsView,
) -> None:
    state = opened("labml", positions="learned")
    view.draw(state)
    heat_map = named(view, HeatMap, "positional encodings, positions by dimensions")
    first = csv_of(heat_map.export).splitlines()[1].split(",")[1]
    assert float(first) == float(unwrap(state.positions)[0, 0]) != 0
    said = words(view, "what the table is")
    assert "learned" in said
    assert "sin" not in said
    assert "of the batch" in said  # labml's own axis
    for row in (1, 2):
        curve = words(view, f"curve {row} in words")
        assert "measured from the table" in curve
        assert "wavelength" not in curve


def test_no_positions_is_a_sentence_and_no_plot(view: PositionsView) -> None:
    view.show()
    view.draw(opened("labml"))
    heat_map = named(view, HeatMap, "positional encodings, positions by dimensions")
    assert heat_map.isVisible()
    view.draw(opened("labml", positions="none"))
    assert "adds no positional encoding" in words(view, "what the table is")
    assert not heat_map.isVisible()
    view.draw(opened("labml"))
    assert heat_map.isVisible()


def test_marians_halves_are_named(view: PositionsView) -> None:
    view.draw(opened("marian"))
    assert "halves" in words(view, "what the table is")
    assert "wavelength" in words(view, "curve 1 in words")
