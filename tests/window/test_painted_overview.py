"""What the overview paints, where, and which head a click chooses."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QImage, QPainter, QPalette

from tests.window.painted import Painted, fixed_font, painted, pixels
from tests.window.parts import click
from visformer.pictures.attention.mosaic import Mosaic
from visformer.pictures.attention.ranking import Ranking
from visformer.pictures.picture import codes
from visformer.ui.views.attention.overview import GAP, Overview
from visformer.ui.widgets.colour_bar import colour_table

LAYERS, HEADS = 2, 3
VALUES = np.array([[0.1, 0.9, 0.4], [0.7, 0.2, 0.6]], np.float32)
RANKED = ((1, 2), (0, 1), (1, 0), (0, 0), (1, 1), (0, 2))


def mosaic() -> Mosaic:
    return Mosaic(
        title="all heads",
        image=codes(np.kron(VALUES, np.ones((4, 5), np.float32))),
        layers=LAYERS,
        heads=HEADS,
        height=4,
        width=5,
        shape=(4, 5),
        filled=(4, 5),
        chosen=(1, 2),
        note="0 to 1, linear",
    )


@pytest.fixture
def overview(qtbot: Any) -> Overview:
    widget = Overview(lambda: None)
    qtbot.addWidget(widget)
    fixed_font(widget)
    widget.resize(500, 260)
    widget.show()
    widget.draw(mosaic())
    return widget


def rank(overview: Overview) -> Ranking:
    captions = tuple(f"L{layer + 1} H{head + 1}" for layer, head in RANKED)
    ranking = Ranking(RANKED, captions, "highest first")
    overview.rank("maximum", ranking, "highest first")
    return ranking


def thumbnails(overview: Overview, picture: Painted) -> list[list[QRectF]]:
    """Return the frames of the thumbnails as painted, row by row of the grid."""
    edge = overview.palette().color(QPalette.ColorRole.Mid).name()
    boxes = [b.rect for b in picture.boxes if (b.pen, b.wide) == (edge, 1)]
    assert len(boxes) == LAYERS * HEADS
    boxes.sort(key=lambda box: (box.y(), box.x()))
    return [boxes[row * HEADS : (row + 1) * HEADS] for row in range(LAYERS)]


@pytest.mark.parametrize("ranked", [False, True])
def test_every_head_is_painted_in_its_place(overview: Overview, ranked: bool) -> None:
    order = rank(overview).order if ranked else tuple(np.ndindex(LAYERS, HEADS))
    picture, image = painted(overview), pixels(overview)
    colours = colour_table(overview.palette())[codes(VALUES), :3]
    for place, head in enumerate(order):
        box = thumbnails(overview, picture)[place // HEADS][place % HEADS]
        x, y = round(box.center().x()), round(box.y() + box.height() / 4)
        assert image[y, x].tolist() == colours[head].tolist()


@pytest.mark.parametrize("ranked", [False, True])
def test_a_click_chooses_the_head_that_is_painted_there(
    overview: Overview, qtbot: Any, ranked: bool
) -> None:
    order = rank(overview).order if ranked else tuple(np.ndindex(LAYERS, HEADS))
    rows = thumbnails(overview, painted(overview))
    for place, head in enumerate(order):
        at = rows[place // HEADS][place % HEADS].center()
        with qtbot.waitSignal(overview.chosen) as chosen:
            click(qtbot, overview, at.toPoint())
        assert tuple(chosen.args) == head
    assert overview.head_at(QPointF(1, 1)) is None


@pytest.mark.parametrize("ranked", [False, True])
def test_the_frame_lies_on_the_chosen_head(overview: Overview, ranked: bool) -> None:
    if ranked:
        rank(overview)
    picture = painted(overview)
    accent = overview.palette().color(QPalette.ColorRole.Highlight).name()
    (frame,) = (b.rect for b in picture.boxes if b.pen == accent)
    row, column = divmod(RANKED.index((1, 2)), HEADS) if ranked else (1, 2)
    box = thumbnails(overview, picture)[row][column]
    assert frame.center().x() == pytest.approx(box.center().x(), abs=GAP)
    assert frame.center().y() == pytest.approx(box.center().y(), abs=GAP)


def test_layers_and_heads_are_named_beside_them(overview: Overview) -> None:
    picture = painted(overview)
    rows = thumbnails(overview, picture)
    for head in range(HEADS):
        word, box = picture.word(f"H{head + 1}"), rows[0][head]
        assert box.left() < word.x < box.right()
        assert word.y <= box.top() + 1
    for layer in range(LAYERS):
        word, box = picture.word(f"L{layer + 1}"), rows[layer][0]
        assert box.top() < word.y < box.bottom()
        assert word.x < box.left()


def test_captions_stand_on_the_heads_that_they_name(overview: Overview) -> None:
    ranking = rank(overview)
    picture = painted(overview)
    rows = thumbnails(overview, picture)
    for place, caption in enumerate(ranking.captions):
        word = picture.word(caption)
        assert rows[place // HEADS][place % HEADS].contains(word.x, word.y)


@pytest.mark.parametrize("wide", [500, 260, 180, 90])
def test_a_caption_without_room_loses_its_measure_first(
    overview: Overview, wide: int
) -> None:
    captions = tuple(f"L{layer + 1} H{head + 1} −0.93" for layer, head in RANKED)
    overview.rank("maximum", Ranking(RANKED, captions, "highest"), "highest")
    overview.resize(wide, 260)
    written = [word.text for word in painted(overview).words if word.text[:1] == "L"]
    names = [caption[:5] for caption in captions]
    assert written == {500: list(captions), 260: names, 180: names, 90: []}[wide]


def test_what_is_not_decoded_is_not_painted(overview: Overview) -> None:
    overview.draw(replace(mosaic(), filled=(2, 5)))
    image = pixels(overview)
    window = overview.palette().color(QPalette.ColorRole.Window)
    ground = [window.red(), window.green(), window.blue()]
    for row in thumbnails(overview, painted(overview)):
        for box in row:
            x = round(box.center().x())
            upper, lower = (round(box.y() + s * box.height()) for s in (0.25, 0.75))
            assert image[lower, x].tolist() == ground
            assert image[upper, x].tolist() != ground


@pytest.mark.parametrize("shape", [(4, 5), (20, 10), (10, 40)])
def test_thumbnails_have_the_proportions_of_their_map(
    overview: Overview, shape: tuple[int, int]
) -> None:
    overview.draw(replace(mosaic(), shape=shape))  # reduced by another factor each way
    for row in thumbnails(overview, painted(overview)):
        for box in row:
            wide, high = box.width() + GAP, box.height() + GAP
            assert wide / high == pytest.approx(shape[1] / shape[0], rel=0.02)


def test_the_frame_hides_no_cell(overview: Overview) -> None:
    picture = painted(overview)
    accent = overview.palette().color(QPalette.ColorRole.Highlight).name()
    (frame,) = (b for b in picture.boxes if b.pen == accent)
    box = thumbnails(overview, picture)[1][2]
    assert frame.rect.adjusted(
        *(2 * [frame.wide / 2] + 2 * [-frame.wide / 2])
    ).contains(box)


def test_folded_it_is_one_line_that_names_the_head(overview: Overview) -> None:
    whole = overview.sizeHint().height()
    overview.header.fold.click()
    overview.resize(500, overview.sizeHint().height())
    assert overview.sizeHint().height() < whole / 3
    words = [word.text for word in painted(overview).words]
    assert words[0] == "all heads: layer 2, head 3"
    assert "L1" not in words
    assert overview.head_at(QPointF(250, 5)) is None


def test_no_cell_is_painted_where_the_grid_ends_with_a_gap(overview: Overview) -> None:
    image, grid = (
        QImage(overview.size(), QImage.Format.Format_RGB32),
        overview._grid(),
    )
    image.fill(Qt.GlobalColor.magenta)
    with QPainter(image) as painter:
        overview._paint_cells(painter, grid, overview.rect())
    y, magenta = round(grid.center().y()), QColor(Qt.GlobalColor.magenta)
    # on a screen that scales by 1.5 its last pixels might show beside what covers it
    assert image.pixelColor(math.ceil(grid.right()) - 2, y) == magenta
    assert image.pixelColor(round(grid.right()) - GAP, y) != magenta


@pytest.mark.parametrize(
    ("width", "said"),
    [
        (900, "L: layer, H: head; colour: 0 to 1, linear"),
        (470, "L: layer, H: head"),
        (330, ""),
    ],
)
def test_what_the_colours_mean_is_whole_or_not_there(
    overview: Overview, width: int, said: str
) -> None:
    overview.resize(width, 260)
    words = [word.text for word in painted(overview, overview.header).words]
    assert [text for text in words if text.startswith("L: ")] == (
        [said] if said else []
    )
    assert not any("…" in text for text in words)
