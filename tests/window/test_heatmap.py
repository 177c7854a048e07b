from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QImage, QPalette
from PySide6.QtWidgets import QLabel, QWidget
from pytestqt.qtbot import QtBot

from tests.window.painted import painted
from tests.window.parts import put_up
from visformer.pictures.attention.mosaic import pooled
from visformer.pictures.picture import HIGH, LOW, MASKED, NAN, Label, Matrix, codes
from visformer.ui.widgets.canvas import FAINT, Canvas
from visformer.ui.widgets.cell_pixels import cells_in_sight
from visformer.ui.widgets.colour_bar import colour_table
from visformer.ui.widgets.heatmap import HeatMap
from visformer.ui.widgets.labels import Labels, short


def matrix(rows: int = 3, columns: int = 4, **changes: Any) -> Matrix:
    values = np.linspace(0, 1, rows * columns, dtype=np.float32).reshape(rows, columns)
    made = Matrix(
        title="cross · layer 1, head 1",
        values=values,
        shade=values,
        rows=tuple(f"row {index}" for index in range(rows)),
        columns=tuple(f"column {index}" for index in range(columns)),
        row_axis="query",
        column_axis="key",
        ends=("0", "1"),
        note="0 to 1, linear",
    )
    return replace(made, **changes)


@pytest.fixture
def heat_map(qtbot: Any) -> HeatMap:
    return put_up(qtbot, HeatMap("map"), 400, 360)


def middle(heat_map: HeatMap, row: int, column: int) -> QPoint:
    """Return the middle of a cell, in pixels of the canvas."""
    canvas, view = heat_map.canvas, heat_map.canvas.view
    x = (column + 0.5 - view.x()) / view.width() * canvas.width()
    y = (row + 0.5 - view.y()) / view.height() * canvas.height()
    return QPoint(int(x), int(y))


def colours(image: QImage) -> set[int]:
    across, down = range(0, image.width(), 3), range(0, image.height(), 3)
    return {image.pixel(x, y) for x in across for y in down}


def pixel(heat_map: HeatMap, row: int, column: int) -> QColor:
    return QColor(heat_map.canvas.grab().toImage().pixel(middle(heat_map, row, column)))


def test_codes_tell_zero_hidden_and_nan_apart() -> None:
    shade = np.array([[0, 0, 1, np.nan, 0.5]], np.float32)
    masked = np.array([[False, True, True, False, False]])
    expected = [[LOW, MASKED, HIGH, NAN, 128]]
    assert codes(shade, masked).tolist() == expected


@pytest.mark.parametrize("base", ["#ffffff", "#000000"])
def test_lightness_runs_one_way(base: str) -> None:
    palette = QPalette()
    palette.setColor(QPalette.ColorRole.Base, QColor(base))
    ramp = colour_table(palette)[LOW : HIGH + 1, :3] @ np.array([0.21, 0.72, 0.07])
    steps = np.diff(ramp)
    assert (steps <= 0.5).all() if base == "#ffffff" else (steps >= -0.5).all()


def test_a_signed_scale_is_chosen_by_the_data_not_by_labels(heat_map: HeatMap) -> None:
    for signed in (True, False):
        heat_map.draw(matrix(ends=("low", "high"), signed=signed))
        colours = colour_table(heat_map.palette(), signed=signed)
        assert pixel(heat_map, 0, 0) == QColor(*colours[LOW, :3].tolist())
        assert pixel(heat_map, 2, 3) == QColor(*colours[HIGH, :3].tolist())
    assert not (colour_table(heat_map.palette(), signed=True) == colours).all()


def test_a_click_beside_the_cells_is_reported_as_such(
    heat_map: HeatMap, qtbot: Any
) -> None:
    heat_map.draw(matrix())
    with qtbot.waitSignal(heat_map.clicked) as found:  # whatever widget lies there
        at = QPoint(3, heat_map.height() // 2)
        qtbot.mouseClick(heat_map.windowHandle(), Qt.MouseButton.LeftButton, pos=at)
    assert found.args == [None]


def test_a_picture_that_was_gone_stands_where_it_stood(heat_map: HeatMap) -> None:
    shown = matrix(marked=(1, 2))
    heat_map.draw(shown)
    before = painted(heat_map)
    heat_map.draw(None)
    assert [word.text for word in painted(heat_map).words] == ["Nothing to show yet."]
    heat_map.draw(shown)
    assert painted(heat_map) == before
    heat_map.draw(None)
    heat_map.resize(500, 300)
    heat_map.draw(shown)
    other = painted(heat_map)
    heat_map.draw(matrix(4, 5))
    heat_map.draw(shown)
    assert painted(heat_map) == other


def test_reserved_room_holds_no_cells(heat_map: HeatMap) -> None:
    heat_map.draw(matrix(3, 4), extent=(6, 8))
    cell = middle(heat_map, 1, 1)
    assert heat_map.canvas.cell_at(QPointF(middle(heat_map, 2, 3))) == (2, 3)
    assert heat_map.canvas.cell_at(QPointF(middle(heat_map, 3, 3))) is None
    assert heat_map.canvas.cell_at(QPointF(middle(heat_map, 2, 4))) is None
    heat_map.draw(matrix(4, 4), extent=(6, 8))
    assert middle(heat_map, 1, 1) == cell


def test_cells_keep_to_the_room_that_maps_share(heat_map: HeatMap) -> None:
    """With their labels and titles; where it is too little they do not."""
    heat_map.resize(400, 400)
    heat_map.draw(matrix())
    alone, (first, last) = heat_map.canvas.geometry(), heat_map.span
    assert first == alone.top()
    axis = heat_map._column_axis.y()
    heat_map.share((first + 30, last - 20))
    cells = heat_map.canvas.geometry()
    assert cells.top() == first + 30
    assert cells.bottom() <= last - 20
    assert heat_map.column_labels.geometry().bottom() == cells.top() - 1
    assert heat_map._column_axis.y() == axis + 30
    assert heat_map.span == (first, last)
    for too_much in ((0, 1000), (first + 100, first + 150)):
        heat_map.share(too_much)
        assert heat_map.canvas.geometry() == alone


def test_zoom_keeps_the_cell_under_the_mouse(heat_map: HeatMap, qtbot: Any) -> None:
    heat_map.draw(matrix(20, 20))
    canvas, at = heat_map.canvas, QPointF(middle(heat_map, 7, 11))
    canvas.zoom(2, at)
    assert canvas.view.width() == pytest.approx(10)
    assert canvas.cell_at(at) == (7, 11)
    qtbot.keyClick(heat_map, Qt.Key.Key_0)
    assert canvas.view.width() == 20
    qtbot.keyClick(heat_map, Qt.Key.Key_Plus)
    assert canvas.view.width() < 20


def test_a_drag_pans_and_is_no_click(heat_map: HeatMap, qtbot: Any) -> None:
    heat_map.draw(matrix(20, 20))
    canvas = heat_map.canvas
    canvas.zoom(2)
    before = canvas.view
    with qtbot.assertNotEmitted(heat_map.clicked):
        qtbot.mousePress(canvas, Qt.MouseButton.LeftButton, pos=QPoint(100, 100))
        qtbot.mouseMove(canvas, QPoint(60, 100))
        qtbot.mouseRelease(canvas, Qt.MouseButton.LeftButton, pos=QPoint(60, 100))
    assert canvas.view.x() > before.x()
    assert canvas.view.y() == before.y()


def test_nothing_and_no_rows_are_drawn(heat_map: HeatMap) -> None:
    heat_map.draw(None)
    heat_map.grab()
    assert any("Nothing" in label.text() for label in heat_map.findChildren(QLabel))
    heat_map.draw(matrix(0, 4, note="no row yet"), extent=(5, 4))
    heat_map.grab()
    assert any(label.text() == "no row yet" for label in heat_map.findChildren(QLabel))
    assert heat_map.canvas.cell_at(QPointF(middle(heat_map, 0, 0))) is None


@pytest.mark.parametrize("size", [(1, 1), (1, 40), (40, 1), (300, 2)])
def test_odd_shapes_are_drawn(heat_map: HeatMap, size: tuple[int, int]) -> None:
    heat_map.draw(matrix(*size, masked=np.ones(size, bool), marked=(0, 0)))
    heat_map.grab()
    assert heat_map.canvas.cell_at(QPointF(middle(heat_map, 0, 0))) == (0, 0)


def test_a_large_picture_loses_no_peak(heat_map: HeatMap) -> None:
    shade = np.zeros((1500, 1500), np.float32)
    shade[777, 333] = 1
    heat_map.draw(matrix(1500, 1500, values=shade, shade=shade))
    image = heat_map.canvas.cells
    assert image.size < shade.size
    assert image.max() == HIGH


def test_palette_and_font_are_followed(heat_map: HeatMap) -> None:
    heat_map.draw(matrix())
    canvas, light = heat_map.canvas.geometry(), pixel(heat_map, 0, 0)
    heat_map.setPalette(QPalette(QColor("#202020")))
    assert pixel(heat_map, 0, 0) != light
    font = QFont(heat_map.font())
    font.setPointSizeF(2 * font.pointSizeF())
    heat_map.setFont(font)
    assert heat_map.canvas.geometry() != canvas


def test_long_labels_are_cut_in_the_middle() -> None:
    assert short("cat") == "cat"
    assert short("a" * 10 + "b" * 10) == "aaaaaaa…bbbbbb"


def test_labels_with_little_room_are_cut(qtbot: QtBot) -> None:
    parent = QWidget()
    qtbot.addWidget(parent)
    labels = Labels(Qt.Orientation.Vertical, parent)
    labels.draw(("elle", "extraordinary"), (), current=0)
    labels.look_at(0.0, 2.0)
    labels.resize(7 * labels.fontMetrics().averageCharWidth(), 80)
    short, long = (word.text for word in painted(labels).words)
    assert short == "elle"
    assert "…" in long


def test_a_row_that_is_not_written_yet_is_faint(qtbot: QtBot) -> None:
    heat_map = HeatMap("weights")
    qtbot.addWidget(heat_map)
    heat_map.resize(400, 300)
    palette = heat_map.palette()
    palette.setColor(QPalette.ColorRole.PlaceholderText, QColor("#808080"))
    heat_map.setPalette(palette)
    rows = "a", Label("b", faint=True), "c"
    heat_map.draw(replace(matrix(3), rows=rows))
    written = {word.text: word.ink for word in painted(heat_map).words}
    assert written["b"] == "#808080" != written["a"] == written["c"]


def test_the_menu_is_ours_and_says_what_it_does(heat_map: HeatMap) -> None:
    heat_map.draw(matrix())
    titles = [
        action.text().replace("&", "") for action in heat_map.export.menu().actions()
    ]
    assert titles[:4] == [
        "Copy picture",
        "Save picture…",
        "Copy numbers (CSV)",
        "Save numbers…",
    ]
    heat_map.draw(None)
    assert not any(action.isEnabled() for action in heat_map.export.menu().actions())


def test_every_label_is_plain_text(heat_map: HeatMap) -> None:
    heat_map.draw(matrix(title="<s>"))
    for label in heat_map.findChildren(QLabel):
        assert label.textFormat() == Qt.TextFormat.PlainText


def test_rows_ahead_are_faint_and_stand_where_they_will_be(qtbot: QtBot) -> None:
    canvas = Canvas()
    qtbot.addWidget(canvas)
    canvas.digits = False
    canvas.resize(200, 200)
    canvas.set_whole(2, 2)
    shades = np.eye(2, dtype=np.float32)
    run = codes(shades)
    table = colour_table(canvas.palette())

    def seen(x: int, y: int) -> list[int]:
        colour = canvas.grab().toImage().pixelColor(x, y)
        return [colour.red(), colour.green(), colour.blue()]

    canvas.draw(shades[:1], None, table)
    window = seen(150, 150)
    canvas.draw_ahead(run)
    full = seen(50, 50)
    faint = [a + FAINT * (b - a) for a, b in zip(window, full, strict=True)]
    assert np.abs(np.subtract(seen(150, 150), faint)).max() <= 2
    canvas.draw(shades, None, table)
    assert seen(150, 150) == full


def test_what_the_current_row_reads_most_is_always_named(qtbot: QtBot) -> None:
    """In a map so small that only some columns have a label."""
    for most in (7, 8):
        values = np.full((3, 40), 0.01, np.float32)
        values[2, most] = 0.9
        shown = HeatMap("map")
        qtbot.addWidget(shown)
        shown.resize(300, 300)
        shown.draw(matrix(3, 40, values=values, current=2))
        shown.show()
        named = [word.text for word in painted(shown, shown.column_labels).words]
        assert any(f"{most}" in name.split() for name in named)
        assert len(named) < 30


@pytest.mark.parametrize("hidden", ["none", "some", "rows"])
def test_what_is_in_sight_of_many_cells_has_the_codes_of_all(hidden: str) -> None:
    random = np.random.default_rng(0)
    shades = random.random((60, 45), np.float32) ** 20
    shades[7, 3], shades[20:30, 20:30] = np.nan, 0
    masked = None
    if hidden != "none":
        masked = random.random(shades.shape) < 0.5
        masked[20:30, 20:30] = True
        shades[masked & (random.random(shades.shape) < 0.9)] = 0
    if hidden == "rows":
        masked = np.broadcast_to(shades[:1] == 0, shades.shape)
    whole = codes(shades, masked)
    for view in (QRectF(0, 0, 45, 60), QRectF(10.5, 5.5, 20, 40), QRectF(3, 7, 1, 1)):
        made, rect = cells_in_sight(shades, masked, view, 9, 10)
        top, left = int(view.top()), int(view.left())
        part = whole[top : math.ceil(view.bottom()), left : math.ceil(view.right())]
        factors = max(1, part.shape[0] // 10), max(1, part.shape[1] // 9)
        assert np.array_equal(made, pooled(part, factors)) is True
        assert (rect.top(), rect.left()) == (top, left)
