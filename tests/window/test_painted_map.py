"""What a heat map paints, where: labels, colours, hatching, frame, bar, cell texts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPalette, QWheelEvent
from PySide6.QtWidgets import QApplication, QScrollArea, QWidget
from pytestqt.qtbot import QtBot

from tests.states import showing as state
from tests.traces import make_trace
from tests.window.painted import Painted, Word, fixed_font, inside, painted, pixels
from tests.window.test_heatmap import matrix
from tests.window.windows import make_view
from visformer.pictures.attention.maps import Marks
from visformer.pictures.attention.tinted import Tinted, TintedPiece
from visformer.pictures.picture import HIGH, LOW, MASKED, Matrix, codes
from visformer.ui.views.attention.arc_map import ArcsCanvas
from visformer.ui.views.attention.attention import AttentionView
from visformer.ui.views.attention.running_text import RunningText
from visformer.ui.widgets.cell_pixels import ALARM
from visformer.ui.widgets.colour_bar import colour_table
from visformer.ui.widgets.heatmap import HeatMap

ROWS, COLUMNS = ("q0", "q1", "q2"), ("k0", "k1", "k2", "k3")


def named(**changes: Any) -> Matrix:
    """Return three queries by four keys, each with a label of its own."""
    return replace(matrix(3, 4), **{"rows": ROWS, "columns": COLUMNS, **changes})


@pytest.fixture
def heat_map(qtbot: Any) -> HeatMap:
    widget = HeatMap("map")
    qtbot.addWidget(widget)
    fixed_font(widget)
    widget.resize(400, 360)
    widget.show()
    return widget


def cell(heat_map: HeatMap, row: int, column: int) -> QRectF:
    """Return a cell's rectangle in the pixels of the heat map; all cells are shown."""
    room = heat_map.canvas.geometry()
    wide = room.width() / len(COLUMNS)
    high = room.height() / len(ROWS)
    return QRectF(room.x() + column * wide, room.y() + row * high, wide, high)


def middle_of(word: Word, widget: QWidget) -> QPointF:
    """Return the middle of a text that is not turned."""
    metrics = QFontMetricsF(widget.font())
    across = word.x + metrics.horizontalAdvance(word.text) / 2
    return QPointF(across, word.y - (metrics.ascent() - metrics.descent()) / 2)


def accent(widget: QWidget) -> str:
    return widget.palette().color(QPalette.ColorRole.Highlight).name()


def frames(picture: Painted, colour: str, wide: float) -> list[QRectF]:
    return [b.rect for b in picture.boxes if (b.pen, b.wide) == (colour, wide)]


def near(one: QRectF, other: QRectF) -> bool:
    pairs = zip(sides(one), sides(other), strict=True)
    return all(abs(a - b) <= 1 for a, b in pairs)


def sides(rect: QRectF) -> tuple[float, float, float, float]:
    return rect.left(), rect.top(), rect.right(), rect.bottom()


# ---- labels ------------------------------------------------------------------------


def test_turned_column_labels_stand_above_their_columns(heat_map: HeatMap) -> None:
    texts = tuple(f"column {place}" for place in "abcd")
    heat_map.resize(200, 360)  # too narrow for them side by side
    heat_map.draw(named(columns=texts))
    picture, metrics = painted(heat_map), QFontMetricsF(heat_map.font())
    for column, text in enumerate(texts):
        word, box = picture.word(text), cell(heat_map, 0, column)
        # the baseline runs upwards, right of the column's middle
        across = word.x - (metrics.ascent() - metrics.descent()) / 2
        assert across == pytest.approx(box.center().x(), abs=2)
        assert word.y < box.top()


def test_marked_labels_keep_their_place(heat_map: HeatMap) -> None:
    heat_map.draw(named(marked=(1, 2)))
    picture = painted(heat_map)
    rows, columns = (
        painted(heat_map, part)
        for part in (heat_map.row_labels, heat_map.column_labels)
    )
    row = middle_of(rows.word("q1"), heat_map)
    column = middle_of(columns.word("k2"), heat_map)
    box = cell(heat_map, 1, 2)
    assert row.y() == pytest.approx(box.center().y(), abs=2)
    assert column.x() == pytest.approx(box.center().x(), abs=2)
    grounds = [b.rect for b in picture.boxes if b.brush == accent(heat_map)]
    assert any(ground.contains(row) for ground in grounds)
    assert any(ground.contains(column) for ground in grounds)


def test_labels_follow_zoom_and_drag(heat_map: HeatMap) -> None:
    heat_map.draw(named())
    heat_map.canvas.look_at(QRectF(2, 1, 2, 2))
    picture, room = painted(heat_map), heat_map.canvas.geometry()
    for place, (row, column) in enumerate(zip(ROWS[1:], COLUMNS[2:], strict=True)):
        beside = middle_of(picture.word(row), heat_map)
        above = middle_of(picture.word(column), heat_map)
        down, across = beside.y() - room.y(), above.x() - room.x()
        assert down == pytest.approx((place + 0.5) * room.height() / 2, abs=2)
        assert across == pytest.approx((place + 0.5) * room.width() / 2, abs=2)
        assert (beside.x() < room.left(), above.y() < room.top()) == (True, True)


def test_labels_of_arcs_stand_where_the_arcs_end(qtbot: Any) -> None:
    canvas = ArcsCanvas()
    qtbot.addWidget(canvas)
    fixed_font(canvas)
    values = np.zeros((3, 4), np.float32)
    values[0, 3] = 1  # one arc alone
    canvas.draw(named(values=values, shade=values), 1.0, (3, 4))
    canvas.mark(Marks((0, 3), (0,), (3,)), "query")
    line, title = 30, canvas._line()
    canvas.resize(300, title + 4 * line)
    canvas.show()
    picture, image = painted(canvas), pixels(canvas).astype(int)
    for labels in (ROWS, COLUMNS):
        for index, text in enumerate(labels):
            at = middle_of(picture.word(text), canvas)
            assert at.y() == pytest.approx(title + (index + 0.5) * line, abs=2)
            assert (at.x() < 150) == (labels is ROWS)
    marked = QPalette.ColorRole.HighlightedText
    inks = {word.text: word.ink for word in picture.words}
    light = [
        t for t, ink in inks.items() if ink == canvas.palette().color(marked).name()
    ]
    assert light == ["q0", "k3"]
    ink = np.abs(image - image[-1, 150])[title:].sum(axis=2) > 60
    starts, ends = ink[:, 40:60].any(axis=1), ink[:, 240:260].any(axis=1)
    assert np.flatnonzero(starts).mean() == pytest.approx(0.5 * line, abs=3)
    assert np.flatnonzero(ends).mean() == pytest.approx(3.5 * line, abs=3)
    number = middle_of(picture.word("1.0"), canvas)
    assert number.y() == pytest.approx(title + 3.5 * line, abs=2)
    assert 150 < number.x() < middle_of(picture.word("k3"), canvas).x()
    assert picture.word("query").x < 150 < picture.word("key").x


# ---- cells -------------------------------------------------------------------------


def test_every_cell_has_the_colour_of_its_number(heat_map: HeatMap) -> None:
    values = np.linspace(0, 1, 12, dtype=np.float32)
    values = np.random.default_rng(3).permutation(values).reshape(3, 4)
    heat_map.canvas.digits = False
    heat_map.draw(named(values=values, shade=values))
    image, colours = pixels(heat_map), colour_table(heat_map.palette())
    wanted = colours[codes(values, None), :3]
    for row, column in np.ndindex(3, 4):
        place = inside(cell(heat_map, row, column), 2)
        part = image[place.top() : place.bottom() + 1, place.left() : place.right() + 1]
        assert (part == wanted[row, column]).all()


@pytest.mark.parametrize("what", ["hidden", "NaN"])
@pytest.mark.parametrize("view", [QRectF(0, 0, 4, 3), QRectF(1, 1, 2, 2)])
def test_the_pattern_lies_on_its_cells_alone(
    heat_map: HeatMap, what: str, view: QRectF
) -> None:
    special = np.zeros((3, 4), bool)
    special[1, 1] = special[2, 2] = True
    values = np.zeros((3, 4), np.float32)
    masked = special if what == "hidden" else None
    values[special] = np.nan if what == "NaN" else 0
    canvas = heat_map.canvas
    canvas.digits = False
    heat_map.draw(named(values=values, shade=values, masked=masked))
    canvas.look_at(view)
    image = pixels(canvas)
    wide, high = canvas.width() / view.width(), canvas.height() / view.height()
    for row in range(int(view.top()), int(view.bottom())):
        for column in range(int(view.left()), int(view.right())):
            x, y = (column - view.x()) * wide, (row - view.y()) * high
            place = inside(QRectF(x, y, wide, high), 2)
            part = image[
                place.top() : place.bottom() + 1, place.left() : place.right() + 1
            ]
            patterned = len(np.unique(part.reshape(-1, 3), axis=0)) > 1
            assert patterned == special[row, column], (row, column)


def test_the_frame_lies_on_the_chosen_cell(heat_map: HeatMap) -> None:
    heat_map.draw(named(marked=(1, 2)))
    picture, room = painted(heat_map), QRectF(heat_map.canvas.geometry())
    (frame,) = frames(picture, accent(heat_map), 3)
    box = cell(heat_map, 1, 2)
    assert near(frame, box)
    bands = [r for r in frames(picture, accent(heat_map), 1) if room.contains(r)]
    assert len(bands) == 2
    assert near(bands[0], QRectF(room.x(), box.y(), room.width(), box.height()))
    assert near(bands[1], QRectF(box.x(), room.y(), box.width(), room.height()))


def test_a_token_is_hidden_where_it_is_masked_and_has_no_weight(qtbot: Any) -> None:
    canvas = RunningText()
    qtbot.addWidget(canvas)
    fixed_font(canvas)
    canvas.resize(300, 120)
    shades = ((0.5, True), (0.0, True), (0.5, False), (0.0, False))
    pieces = tuple(
        TintedPiece(text=f"t{at}", spaced=True, shade=p, masked=masked, chosen=False)
        for at, (p, masked) in enumerate(shades)
    )
    canvas.draw(Tinted((), pieces, "queries:", "keys:"))
    canvas.show()
    colours = [QColor(*c).name() for c in colour_table(canvas.palette()).tolist()]
    middle = LOW + round(0.5 * (HIGH - LOW))
    expected = [colours[code] for code in (middle, MASKED, middle, LOW)]
    assert [b.brush for b in painted(canvas).boxes if b.brush in expected] == expected
    assert len(set(expected)) == 3


# ---- the mouse ---------------------------------------------------------------------


def turn_wheel(
    heat_map: HeatMap, at: QPoint, clicks: int, *, control: bool = False
) -> bool:
    """Turn the wheel over a map; tell whether the map took it."""
    held = Qt.KeyboardModifier
    canvas, none = heat_map.canvas, Qt.MouseButton.NoButton
    event = QWheelEvent(
        at.toPointF(),
        canvas.mapToGlobal(at).toPointF(),
        QPoint(),
        QPoint(0, 120 * clicks),
        none,
        held.ControlModifier if control else held.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(canvas, event)
    return event.isAccepted()


def test_the_wheel_turned_away_from_the_hand_magnifies(heat_map: HeatMap) -> None:
    heat_map.draw(matrix(20, 20))
    whole = heat_map.canvas.view
    before = painted(heat_map).boxes
    at = QPoint(20, 20)
    turn_wheel(heat_map, at, 2)
    assert heat_map.canvas.view.width() == pytest.approx(20 / 1.25**2)
    assert heat_map.canvas.view.height() == pytest.approx(20 / 1.25**2)
    assert len(painted(heat_map).boxes) == len(before)
    turn_wheel(heat_map, at, -1)
    assert heat_map.canvas.view.width() == pytest.approx(20 / 1.25)
    turn_wheel(heat_map, at, -3)
    assert heat_map.canvas.view == whole


def test_on_a_page_that_scrolls_the_wheel_scrolls_and_with_control_magnifies(
    qtbot: QtBot,
) -> None:
    heat_map, area = HeatMap("map"), QScrollArea()
    qtbot.addWidget(area)
    heat_map.setFixedSize(400, 900)
    area.setWidget(heat_map)
    area.resize(420, 300)
    area.show()
    heat_map.draw(matrix(20, 20))
    whole, at = heat_map.canvas.view, QPoint(20, 20)
    assert not turn_wheel(heat_map, at, 1)  # it goes to what is around the map
    assert heat_map.canvas.view == whole
    assert turn_wheel(heat_map, at, 1, control=True)
    assert heat_map.canvas.view.width() == pytest.approx(20 / 1.25)


def test_bars_reach_as_far_across_their_cells_as_their_shares(
    heat_map: HeatMap,
) -> None:
    shares = np.array([[0, 0.5], [1, 0.25]], np.float32)
    heat_map.draw(replace(matrix(2, 2, values=shares, shade=shares), bars=True))
    canvas = heat_map.canvas
    wide = canvas.width() / 2
    accent = canvas.palette().highlight().color().name()
    bars = [box.rect for box in painted(canvas).boxes if box.brush == accent]
    assert [bar.width() for bar in bars] == pytest.approx([0, wide / 2, wide, wide / 4])
    assert [bar.left() for bar in bars] == pytest.approx([0, wide, 0, wide])


def test_framed_columns_have_a_frame_from_top_to_bottom(heat_map: HeatMap) -> None:
    heat_map.draw(replace(matrix(4, 20), framed=slice(5, 10)))
    canvas = heat_map.canvas
    frames = [box.rect for box in painted(canvas).boxes if box.wide == 2]
    edges = canvas.box(0, 5).left(), canvas.box(0, 9).right()
    assert [(round(f.left()), round(f.right())) for f in frames] == [
        (edges[0] + 1, edges[1])
    ]


# ---- the colour bar ----------------------------------------------------------------


def test_the_bar_has_its_ends_in_words_and_colours(heat_map: HeatMap) -> None:
    heat_map.draw(matrix(ends=("low", "high"), note="a scale"))
    picture, image = painted(heat_map), pixels(heat_map)
    low, high = picture.word("low"), picture.word("high")
    ramp = painted(heat_map, heat_map.bar).images[0]
    assert low.x < ramp.left() < ramp.right() < high.x < picture.word("a scale").x
    y, colours = round(ramp.center().y()), colour_table(heat_map.palette())
    for x, code in ((ramp.left() + 1, LOW), (ramp.right() - 2, HIGH)):
        wanted = colours[code, :3].astype(int)
        assert np.abs(image[y, round(x)].astype(int) - wanted).max() < 12


@pytest.mark.parametrize(
    ("scale", "low"), [("log", "≤ 0.0001"), ("fixed", "0"), ("head", "0"), ("row", "0")]
)
def test_the_bar_of_a_scale_says_where_it_begins(
    qtbot: Any, scale: str, low: str
) -> None:
    view = make_view(qtbot, AttentionView, 1200, 700)
    view.draw(state(make_trace(5, 4), scale=scale))
    heat_map = view.maps["cross"]
    bar = painted(heat_map, heat_map.bar)
    first = min(bar.words, key=lambda word: word.x)
    assert first.text == low
    assert first.x < bar.images[0].left()


def test_axes_and_title_say_what_they_are(heat_map: HeatMap) -> None:
    heat_map.draw(matrix(row_axis="query rows", column_axis="key columns"))
    picture, room = painted(heat_map), heat_map.canvas.geometry()
    assert picture.word("key columns").y < room.top()
    beside = picture.word("query rows")
    assert beside.x < room.left()
    assert room.top() < beside.y < room.bottom()
    assert picture.word("cross · layer 1, head 1").y < picture.word("key columns").y


# ---- boolean maps, and what must not have been read ---------------------------------


def test_a_boolean_map_has_two_values_and_no_range(heat_map: HeatMap) -> None:
    allowed = np.ones((3, 4), np.float32)
    heat_map.draw(named(values=allowed, shade=allowed, masked=allowed == 0))
    ranged = painted(heat_map)
    heat_map.draw(
        named(values=allowed, shade=allowed, masked=allowed == 0, boolean=True)
    )
    picture = painted(heat_map)
    texts = [word.text for word in picture.words]
    assert {"may attend", "masked"} <= set(texts)
    assert not {"0", "1", "False", "True"} & set(texts)
    assert "may attend" not in [word.text for word in ranged.words]


def test_what_must_not_have_been_read_has_a_frame_and_a_sign(heat_map: HeatMap) -> None:
    alarms = np.zeros((3, 4), bool)
    alarms[0, 2] = True
    heat_map.draw(named(alarms=alarms))
    picture = painted(heat_map)
    framed = frames(picture, ALARM[0], 2)
    assert len(framed) == 1
    assert near(framed[0], cell(heat_map, 0, 2).adjusted(1, 1, -1, -1))
    (sign,) = [word for word in picture.words if word.text == "!"]
    assert cell(heat_map, 0, 2).contains(middle_of(sign, heat_map))
    heat_map.draw(named())
    assert not frames(painted(heat_map), ALARM[0], 2)
