"""Labels that are always there, digits in cells, the value at the mouse, the bar."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QFontInfo, QFontMetrics, QFontMetricsF
from PySide6.QtWidgets import QApplication, QWidget

from tests.window.painted import fixed_font, painted
from tests.window.parts import click, unwrap
from tests.window.test_heatmap import matrix, middle
from tests.window.test_painted_map import cell, middle_of, named
from visformer.pictures.attention.gist import NO_GIST, Gist
from visformer.pictures.picture import Matrix
from visformer.ui.look.theme import CAPTION, hue, sized
from visformer.ui.views.output.output import CellTexts
from visformer.ui.widgets.canvas import Canvas
from visformer.ui.widgets.heatmap import HeatMap
from visformer.ui.widgets.labels import LEAST, axis_title, label_font, labels_width


@pytest.fixture
def heat_map(qtbot: Any) -> HeatMap:
    return shown_map(qtbot, HeatMap("map"))


def shown_map(qtbot: Any, widget: HeatMap) -> HeatMap:
    qtbot.addWidget(widget)
    fixed_font(widget)
    widget.resize(400, 360)
    widget.show()
    return widget


def tall(**changes: Any) -> Matrix:
    """Return sixty rows, more than there is room to label."""
    made = matrix(60, 60, row_role="query", column_role="key")
    names = tuple(f"r{at}" for at in range(60)), tuple(f"c{at}" for at in range(60))
    return replace(made, **{"rows": names[0], "columns": names[1], **changes})


# ---- labels ------------------------------------------------------------------------


@pytest.mark.parametrize("current", [7, 30, 58])
def test_the_current_row_and_the_marked_ones_are_always_labelled(
    heat_map: HeatMap, current: int
) -> None:
    heat_map.draw(tall(current=current, marked=(31, 17)))
    rows = painted(heat_map, heat_map.row_labels).words
    columns = painted(heat_map, heat_map.column_labels).words
    assert {f"r{current}", "r31"} <= {word.text for word in rows}
    assert "c17" in {word.text for word in columns}
    line = heat_map.fontMetrics().height()
    for words in (sorted(word.y for word in rows), sorted(word.x for word in columns)):
        assert 8 < len(words) < 40  # thinned
        assert min(np.diff(words)) > line - 1  # none touches another


def test_no_two_labels_overlap_at_any_size(heat_map: HeatMap) -> None:
    heat_map.draw(replace(tall(current=30), rows=(*(f"r{at}" for at in range(60)),)))
    small = QFontMetrics(sized(heat_map.font(), CAPTION)).height()
    for high in range(260, 1400, 21):
        heat_map.resize(1400, high)
        rows = painted(heat_map, heat_map.row_labels).words
        apart = min(np.diff(sorted(word.y for word in rows)))
        assert apart > small - 1.1, high
        if len(rows) < 60:  # thinned, then in the larger type
            assert apart > heat_map.fontMetrics().height() - 1.1, high


def test_numbers_stand_upright_in_round_steps(heat_map: HeatMap) -> None:
    heat_map.draw(replace(matrix(8, 256), columns=tuple(map(str, range(256)))))
    words = painted(heat_map, heat_map.column_labels).words
    steps = np.diff([int(word.text) for word in words])
    assert set(steps) == {steps[0]}
    assert str(steps[0]).strip("0") in ("1", "2", "5")
    assert len({word.y for word in words}) == 1  # in one line, not turned
    end = words[-1].x + heat_map.fontMetrics().horizontalAdvance(words[-1].text)
    assert end <= heat_map.width()


@pytest.mark.parametrize("marked", [(7, 0), (7, 9), (7, 16)])
def test_a_low_map_names_all_rows_that_fit_and_the_marked_column(
    heat_map: HeatMap, marked: tuple[int, int]
) -> None:
    heat_map.resize(400, 190)
    made = replace(matrix(8, 17), columns=(*(f"a column {at}" for at in range(17)),))
    heat_map.draw(replace(made, rows=(*(f"a row {at}" for at in range(8)),)))
    row, column = marked
    heat_map.mark(marked, rows=(row,), columns=(column,))
    rows = painted(heat_map, heat_map.row_labels).words
    assert "a row 7" in {word.text for word in rows}
    (word,) = painted(heat_map, heat_map.column_labels).words
    assert word.text == f"a column {column}"
    wide = heat_map.fontMetrics().horizontalAdvance(word.text)
    assert word.x >= 0
    assert word.x + wide <= heat_map.width()
    assert heat_map.canvas.height() >= LEAST - 1


def test_labels_and_axes_have_the_hue_of_their_role(heat_map: HeatMap) -> None:
    heat_map.draw(tall(row_axis="who reads", column_axis="who is read"))
    picture, palette = painted(heat_map), heat_map.palette()
    assert picture.word("r0").ink == hue(palette, "query").name()
    assert picture.word("who reads").ink == hue(palette, "query").name()
    assert picture.word("c0").ink == hue(palette, "key").name()
    assert picture.word("who is read").ink == hue(palette, "key").name()
    heat_map.draw(tall(row_role="", column_role="", column_axis="who is read"))
    faint = palette.placeholderText().color().name()
    assert painted(heat_map).word("who is read").ink == faint


def test_chinese_labels_are_larger_and_have_more_room(heat_map: HeatMap) -> None:
    heat_map.draw(tall(rows=("但是",) * 60))
    line = heat_map.fontMetrics().height()
    for high in range(300, 420, 10):
        heat_map.resize(400, high)
        words = painted(heat_map, heat_map.row_labels).words
        assert min(np.diff(sorted(word.y for word in words))) > 1.05 * line
    font = heat_map.font()
    assert label_font(font, "但是").pixelSize() > label_font(font, "ab").pixelSize()
    assert labels_width(font, ("但是",)) > labels_width(font, ("on",))


def test_the_current_rows_label_is_whole_though_it_is_bold(heat_map: HeatMap) -> None:
    rows = *(f"row {at}" for at in range(5)), "the longest"
    heat_map.draw(replace(matrix(6, 6), rows=rows, current=5))
    assert painted(heat_map).word("the longest")  # not elided


def test_single_characters_stand_upright_over_their_columns(heat_map: HeatMap) -> None:
    heat_map.resize(300, 360)
    texts = (*("column", "'", "columns", "."), *(f"more {at}" for at in range(8)))
    heat_map.draw(replace(matrix(12, 12), columns=texts))
    assert not heat_map.column_labels.upright
    picture = painted(heat_map)
    canvas = heat_map.canvas.geometry()
    for column, text in ((1, "'"), (3, ".")):
        at = middle_of(picture.word(text), heat_map)
        pitch = canvas.width() / 12
        assert at.x() == pytest.approx(canvas.x() + (column + 0.5) * pitch, abs=1)
        assert canvas.y() - heat_map.fontMetrics().height() < at.y() < canvas.y()


def test_labels_of_a_wide_map_of_square_cells_are_whole(heat_map: HeatMap) -> None:
    heat_map.resize(1200, 400)  # the cells take a third of the width
    names = tuple(f"column{at:02}" for at in range(12))
    heat_map.draw(replace(matrix(12, 12), columns=names))
    told = {word.text for word in painted(heat_map, heat_map.column_labels).words}
    assert told <= set(names)
    assert len(told) > 6


# ---- cells -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([[0.46, 0.0, 1.0]], [".46", "", "1.0"]),
        ([[0.001, 0.999, 0.25]], ["", "1.0", ".25"]),
        ([[-72.66, 3.0, 0.5]], ["−72.66", "3.00", "0.50"]),
        ([[-2.66, -0.004, 0.0]], ["−2.66", "0.00", "0.00"]),
        ([[1.0, 0.0, 1.0]], ["1", "0", "1"]),
    ],
)
def test_large_cells_hold_their_numbers(
    heat_map: HeatMap, values: list[list[float]], texts: list[str]
) -> None:
    made = np.array(values, np.float32)
    heat_map.draw(matrix(1, 3, values=made, shade=np.clip(made, 0, 1)))
    picture = painted(heat_map, heat_map.canvas)
    written = [(at, text) for at, text in enumerate(texts) if text]
    assert [word.text for word in picture.words] == [text for _at, text in written]
    for (column, _text), word in zip(written, picture.words, strict=True):
        inside = heat_map.canvas.box(0, column).translated(heat_map.canvas.pos())
        assert QRectF(inside).contains(middle_of(word, heat_map))


@pytest.mark.parametrize(("side", "least", "most"), [(60, 12, 22), (300, 20, 36)])
def test_numbers_grow_with_their_cells(
    heat_map: HeatMap, side: int, least: int, most: int
) -> None:
    heat_map.resize(4 * side, 4 * side)
    heat_map.draw(matrix(3, 3, values=np.full((3, 3), 0.5, np.float32)))
    (size,) = {w.font.pixelSize() for w in painted(heat_map, heat_map.canvas).words}
    high = heat_map.canvas.height() / 3
    assert least <= size <= most
    body = QFontInfo(heat_map.font()).pixelSize()
    assert size == min(round(0.32 * high), round(2.5 * body))


def test_numbers_have_as_many_decimals_as_cells_have_room_for(
    heat_map: HeatMap,
) -> None:
    values = np.array([[-72.66] * 9], np.float32)
    heat_map.draw(matrix(1, 9, values=values, shade=np.zeros_like(values)))
    seen = set[str]()
    for width in range(300, 900, 20):
        heat_map.resize(width, 300)
        QApplication.processEvents()
        seen.update(word.text for word in painted(heat_map, heat_map.canvas).words)
    assert seen == {"−72.7", "−72.66"}


def test_small_cells_and_hidden_ones_hold_none(heat_map: HeatMap) -> None:
    heat_map.draw(tall())
    assert painted(heat_map, heat_map.canvas).words == []
    heat_map.canvas.look_at(QRectF(0, 0, 4, 4))
    assert painted(heat_map, heat_map.canvas).words
    values = np.zeros((1, 3), np.float32)
    masked = np.array([[True, False, False]])
    heat_map.draw(matrix(1, 3, values=values, shade=values, masked=masked))
    assert len(painted(heat_map, heat_map.canvas).words) == 2


@pytest.mark.parametrize("size", [(400, 360), (700, 300), (300, 700)])
def test_cells_are_square(heat_map: HeatMap, size: tuple[int, int]) -> None:
    heat_map.resize(*size)
    heat_map.draw(matrix(6, 8))
    canvas = heat_map.canvas
    assert canvas.width() / 8 == pytest.approx(canvas.height() / 6, abs=1)


@pytest.mark.parametrize("shape", [(2, 60), (60, 2), (3, 3), (40, 40)])
def test_no_map_is_narrower_than_it_must_be(
    heat_map: HeatMap, shape: tuple[int, int]
) -> None:
    heat_map.resize(220, 220)
    heat_map.draw(replace(matrix(*shape), rows=("a long label",) * shape[0]))
    canvas = heat_map.canvas.geometry()
    assert min(canvas.width(), canvas.height()) >= LEAST
    assert heat_map.rect().contains(canvas)


# ---- the value ---------------------------------------------------------------------


def test_the_value_stands_beside_the_cell_and_says_who_reads_whom(
    heat_map: HeatMap, qtbot: Any
) -> None:
    heat_map.draw(named(row_role="query", column_role="key"))
    heat_map.hovered.connect(lambda at: heat_map.mark(at))
    for at in ((0, 0), (1, 2), (2, 3)):
        qtbot.mouseMove(heat_map.canvas, middle(heat_map, *at))
        assert heat_map.value.isVisible()
        box = heat_map.canvas.box(*at).translated(heat_map.canvas.pos())
        assert not heat_map.value.geometry().intersects(box)
        assert heat_map.rect().contains(heat_map.value.geometry())
        words = painted(heat_map, heat_map.value).words
        assert [word.text.strip() for word in words[1:]] == [
            f"q{at[0]}",
            "reads",
            f"k{at[1]}",
        ]
        shown = unwrap(heat_map.matrix)
        assert float(words[0].text) == pytest.approx(shown.values[at], abs=1e-4)
        inks = [hue(heat_map.palette(), role).name() for role in ("query", "key")]
        assert [words[1].ink, words[3].ink] == inks
    heat_map.mark(None)
    assert not heat_map.value.isVisible()


def test_a_marked_cell_out_of_sight_has_no_value(heat_map: HeatMap) -> None:
    heat_map.draw(matrix(20, 20, marked=(2, 2)))
    assert heat_map.value.isVisible()
    heat_map.canvas.look_at(QRectF(10, 10, 4, 4))
    assert not heat_map.value.isVisible()


# ---- the colour bar ----------------------------------------------------------------


@pytest.mark.parametrize("width", [180, 250, 400])
def test_numbers_of_the_bar_are_whole_at_any_width(
    heat_map: HeatMap, width: int
) -> None:
    heat_map.resize(width, 300)
    heat_map.draw(matrix(ends=("−0.07266", "+0.07266"), note="a long note on a scale"))
    picture = painted(heat_map, heat_map.bar)
    assert {"−0.07266", "+0.07266"} <= {word.text for word in picture.words}
    high = picture.word("+0.07266")
    end = high.x + heat_map.fontMetrics().horizontalAdvance(high.text)
    assert end <= width


@pytest.mark.parametrize("width", [150, 500])
def test_another_range_is_offered_beside_the_bar(
    heat_map: HeatMap, qtbot: Any, width: int
) -> None:
    heat_map.setStyleSheet("QPushButton { padding: 0 20px }")
    heat_map.resize(width, 300)
    heat_map.draw(matrix())
    assert not heat_map.bar.offer.isVisible()
    heat_map.draw(matrix(offer="use this map's maximum, 0.08"))
    button = heat_map.bar.offer
    needed = min(button.sizeHint().width(), heat_map.bar.width())
    assert button.width() >= needed  # nothing is cut that has room
    assert button.isVisible()
    assert heat_map.bar.rect().contains(button.geometry())
    text, metrics = button.text(), button.fontMetrics()
    assert metrics.horizontalAdvance(text) <= button.width()  # its beginning is seen
    assert text == "use this map's maximum, 0.08" or (
        width == 150 and text[:4] == "use "
    )
    assert button.accessibleName() == "use this map's maximum, 0.08"
    words = painted(heat_map, heat_map.bar)
    other = [word for word in words.words if word.text in ("0", "1")]
    assert all(not button.geometry().contains(int(w.x), int(w.y)) for w in other)
    with qtbot.waitSignal(heat_map.offer_taken):
        click(qtbot, button)


@pytest.mark.parametrize(
    ("title", "shorter"),
    [
        ("query: target token that reads", ["query"]),
        ("query: word being written", ["query"]),
        ("model dimension (dim)", ["model dimension", "dim"]),
        ("layer", []),
    ],
)
def test_titles_of_axes_are_shortened_to_what_they_name(
    title: str, shorter: list[str], heat_map: HeatMap
) -> None:
    metrics = heat_map.fontMetrics()
    for text in (title, *shorter):
        assert axis_title(title, metrics, metrics.horizontalAdvance(text)) == text
    assert axis_title(title, metrics, 20).endswith("…")


def test_a_gist_that_has_no_room_beside_the_title_stands_below_it(qtbot: Any) -> None:
    heat_map = shown_map(qtbot, HeatMap("map", gist=True))
    heat_map.draw(replace(matrix(5, 5), title="decoder self"))
    heat_map.heading.say(Gist("rests on it: 0.57", ""))
    title, gist = heat_map.heading.title, heat_map.heading.gist
    assert gist.x() > title.geometry().right()
    top = heat_map.canvas.y()
    heat_map.resize(200, 360)
    assert gist.y() > title.geometry().bottom()
    assert not gist.cut
    assert heat_map.canvas.y() > top
    heat_map.heading.say(NO_GIST)
    assert heat_map.canvas.y() > top  # it moves nothing


def test_a_gist_says_where_the_mouse_rests_what_its_number_is(
    heat_map: HeatMap,
) -> None:
    heat_map.draw(replace(matrix(5, 5), title="decoder self"))
    heat_map.heading.say(Gist("rests on <s>: 0.57", "mean weight & 0.57."))
    label = heat_map.heading.gist
    assert heat_map.childAt(label.geometry().center()) is label
    words = "rests on &lt;s&gt;: 0.57<br>mean weight &amp; 0.57."
    assert label.toolTip() == f"<qt>{words}</qt>"
    heat_map.heading.say(NO_GIST)
    assert label.toolTip() == ""


# ---- texts in cells ---------------------------------------------------------------


def test_what_is_written_in_a_cell_stands_in_it(qtbot: Any) -> None:
    heat_map = shown_map(qtbot, HeatMap("map"))
    values = np.zeros((3, 4), np.float32)
    values[2, 3] = 1
    heat_map.draw(named(values=values, shade=values))
    written = CellTexts(heat_map.canvas)
    written.setGeometry(heat_map.canvas.rect())
    written.show()
    texts = tuple(
        tuple((f"t{row}{column}", f"n{row}{column}") for column in range(4))
        for row in range(3)
    )
    written.draw(heat_map.matrix, texts)
    picture = painted(heat_map)
    for row, column in np.ndindex(3, 4):
        token, number = (picture.word(text) for text in texts[row][column])
        for word in (token, number):
            at, box = middle_of(word, heat_map), cell(heat_map, row, column)
            assert box.contains(at)
            assert at.x() == pytest.approx(box.center().x(), abs=2)
        assert token.y < number.y
        light = QColor(token.ink).lightness() > 128
        assert light == (values[row, column] == 1)  # its ground is dark


@pytest.mark.parametrize(("columns", "numbered"), [(3, True), (8, False)])
def test_a_long_token_leaves_room_for_its_number(
    qtbot: Any, columns: int, numbered: bool
) -> None:
    values = np.zeros((4, columns), np.float32)
    around = QWidget()
    qtbot.addWidget(around)
    canvas = Canvas(around)
    fixed_font(canvas)
    canvas.resize(400, 100)
    canvas.set_whole(*values.shape)
    written = CellTexts(canvas)
    written.resize(canvas.size())
    texts = tuple((("abcdefghij" * 3, ".12"),) * columns for _ in values)
    written.draw(named(values=values, shade=values), texts)
    words = painted(written).words
    tokens = [word for word in words if word.text.startswith("abc")]
    numbers = [word for word in words if word.text == ".12"]
    assert len(tokens) == values.size
    assert len(numbers) == (values.size if numbered else 0)
    for token, number in zip(tokens, numbers, strict=False):
        wide = QFontMetricsF(token.font).horizontalAdvance(token.text)
        assert token.x + wide < number.x


def test_a_number_that_is_nearly_0_is_not_written(qtbot: Any) -> None:
    heat_map = shown_map(qtbot, HeatMap("map"))
    values = np.zeros((1, 2), np.float32)
    heat_map.draw(named(values=values, shade=values))
    written = CellTexts(heat_map.canvas)
    written.setGeometry(heat_map.canvas.rect())
    written.show()
    written.draw(heat_map.matrix, ((("il", ".57"), ("on", "~0")),))
    assert {word.text for word in painted(written).words} == {"il", ".57", "on"}
