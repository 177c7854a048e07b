"""The kept image of a diagram, against one that is painted from nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QFont, QFontMetricsF, QImage, QPainter, QPixmap
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from visformer.pictures.diagram.columns import Arrow, Box, Drawing
from visformer.ui.look.theme import THEMES, palette
from visformer.ui.views.architecture.architecture import DiagramImage
from visformer.ui.views.architecture.diagram_canvas import Painting, Words, lettering

UNITS = 7.3, 16.6  # pixels: a character, a line
BOXES = (
    Box(x=1, y=1, width=30, height=8, style="frame"),
    Box(x=2, y=2, width=20, title="Norm", detail="512", style="norm", id="norm"),
    Box(x=2, y=4, width=20, title="Linear W_Q", id="linear"),
    Box(x=2, y=6, width=9, title="▁chat", style="token"),
    Box(x=12, y=6, width=12, style="row", id="row"),
    Box(x=34, y=2, width=20, title="with K and V", style="text"),
)
ARROWS = (Arrow(points=((10, 4), (10, 3.3))),)
DRAWING = Drawing(width=60, height=12, boxes=BOXES, arrows=ARROWS)


@pytest.fixture
def widget(qtbot: QtBot) -> QWidget:
    widget = QWidget()
    qtbot.addWidget(widget)
    widget.resize(460, 220)
    return widget


def of(image: DiagramImage, drawing: Drawing, widget: QWidget) -> QImage:
    return image.of(drawing, widget, widget.font(), UNITS).toImage()


def with_box(at: int, **changes: Any) -> Drawing:
    changed = replace(BOXES[at], **changes)
    return replace(DRAWING, boxes=(*BOXES[:at], changed, *BOXES[at + 1 :]))


DIFFERENT = {
    "title": with_box(1, title="Final norm"),
    "detail": with_box(1, detail="shared"),
    "token": with_box(3, width=12, title="▁chien", strong=True),
    "words": with_box(5, title="with Q"),
    "x": with_box(1, x=3),
    "y": with_box(1, y=2.2),
    "width": with_box(1, width=22),
    "height": with_box(1, height=1.1),
    "style": with_box(2, style="outside"),
    "strong": with_box(2, strong=True),
    "role": with_box(2, role="query"),
    "stack": with_box(2, stack=3),
    "row": with_box(4, title="no tokens"),
    "chosen": replace(DRAWING, chosen="linear"),
    "chosen row": replace(DRAWING, chosen="row"),
    "one box less": replace(DRAWING, boxes=BOXES[:2] + BOXES[3:]),
    "arrow": replace(DRAWING, arrows=(replace(ARROWS[0], strong=True),)),
    "no arrow": replace(DRAWING, arrows=()),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_what_differs_is_painted_and_nothing_is_left_behind(
    widget: QWidget, name: str
) -> None:
    image = DiagramImage()
    before = of(image, DRAWING, widget)
    after = of(image, DIFFERENT[name], widget)
    assert after != before
    assert after == of(DiagramImage(), DIFFERENT[name], widget)
    assert of(image, DRAWING, widget) == before


def test_another_size_font_or_theme_paints_everything(widget: QWidget) -> None:
    image = DiagramImage()
    seen = [of(image, DRAWING, widget)]
    widget.resize(400, 180)
    seen.append(of(image, DRAWING, widget))
    font = widget.font()
    font.setPointSizeF(0.8 * font.pointSizeF())
    widget.setFont(font)
    seen.append(of(image, DRAWING, widget))
    widget.setPalette(palette(THEMES["dark"]))
    seen.append(of(image, DRAWING, widget))
    assert seen[-1] == of(DiagramImage(), DRAWING, widget)
    for at, one in enumerate(seen):
        assert one not in seen[at + 1 :]


@pytest.mark.parametrize(
    ("name", "painted"),
    [("title", "words"), ("token", "words"), ("strong", "boxes and words")],
)
def test_boxes_are_painted_only_where_one_changes(
    widget: QWidget, name: str, painted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = DiagramImage()
    of(image, DRAWING, widget)
    calls: list[str] = []
    monkeypatch.setattr(Painting, "draw", lambda *_drawn: calls.append("boxes"))
    monkeypatch.setattr(Painting, "write", lambda *_drawn: calls.append("words"))
    of(image, DIFFERENT[name], widget)
    of(image, replace(DIFFERENT[name]), widget)  # an equal one: nothing is painted
    assert " and ".join(calls) == painted


def test_boxes_gone_back_to_are_not_painted_again(
    widget: QWidget, monkeypatch: pytest.MonkeyPatch
) -> None:
    image, other = DiagramImage(), DIFFERENT["strong"]
    seen = of(image, DRAWING, widget), of(image, other, widget)
    monkeypatch.setattr(Painting, "draw", lambda *_drawn: pytest.fail("boxes"))
    assert (of(image, DRAWING, widget), of(image, other, widget)) == seen


# ---- words of boxes ---------------------------------------------------------------


ROOM = QRectF(20.3, 4.6, 150.7, 21.2)
LONG = "Scaled dot-product attention of a long name"


def words(
    title: str,
    detail: str = "",
    *,
    left: bool = False,
    bold: bool = False,
    width: float = ROOM.width(),
) -> Words:
    return Words(title, detail, bold, left, "", width, ROOM.height())


def painted(paint: Callable[[QPainter], object], font: QFont) -> QImage:
    pixmap = QPixmap(200, 40)
    pixmap.fill(Qt.GlobalColor.white)
    painter = QPainter(pixmap)
    painter.setFont(font)
    paint(painter)
    painter.end()
    return pixmap.toImage()


@pytest.mark.parametrize("bold", [False, True])
@pytest.mark.parametrize("text", ["Multi-head attention", "“猫” [55, 256]", "▁it"])
@pytest.mark.parametrize("left", [False, True])
def test_a_line_is_written_where_qt_writes_it(
    qapp: QApplication, text: str, left: bool, bold: bool
) -> None:
    side = Qt.AlignmentFlag.AlignLeft if left else Qt.AlignmentFlag.AlignHCenter
    flags = side | Qt.AlignmentFlag.AlignVCenter
    font = QFont(qapp.font())
    (line,) = lettering(font, 6.0)(words(text, left=left, bold=bold))
    font.setBold(bold)
    for down in range(8):  # where half pixels are rounded
        room = ROOM.translated(down / 7, down / 8)
        start = room.topLeft() + line.start

        def ours(painter: QPainter) -> None:
            line.layout.draw(painter, start)  # noqa: B023

        def qts(painter: QPainter) -> None:
            painter.drawText(room, flags, text)  # noqa: B023

        assert painted(ours, font) == painted(qts, font)


@pytest.mark.parametrize(
    ("share", "size", "cut"), [(1.0, 1.0, False), (0.8, 0.8, False), (0.4, 0.75, True)]
)
def test_a_line_that_is_too_long_is_smaller_and_then_cut(
    qapp: QApplication, share: float, size: float, cut: bool
) -> None:
    width = share * QFontMetricsF(qapp.font()).horizontalAdvance(LONG) + 0.01
    (line,) = lettering(qapp.font(), 6.0)(words(LONG, left=True, width=width))
    points = line.layout.font().pointSizeF() / qapp.font().pointSizeF()
    assert points == pytest.approx(size, abs=0.01)
    assert line.layout.text().endswith("…") == cut


def test_a_detail_stands_on_the_right_where_there_is_room(qapp: QApplication) -> None:
    write = lettering(qapp.font(), 6.0)
    name, detail = write(words("Norm", "512"))
    assert name.start.x() == 0
    edge = detail.start.x() + detail.layout.lineAt(0).naturalTextWidth()
    assert edge == pytest.approx(ROOM.width(), abs=0.1)
    whole = QFontMetricsF(qapp.font()).horizontalAdvance(LONG)
    (alone,) = write(words(LONG, "512", width=whole + 20))
    assert alone.layout.text() == LONG


def test_symbols_of_formulas_have_their_roles(qapp: QApplication) -> None:
    lines = lettering(qapp.font(), 6.0)(words("with K and V", left=True))
    inks = [(line.layout.text(), line.ink) for line in lines]
    assert inks == [("with ", "text"), ("K", "key"), (" and ", "text"), ("V", "value")]
    across = [line.start.x() for line in lines]
    assert across == sorted(across)


def test_what_was_laid_out_is_kept(qapp: QApplication) -> None:
    write = lettering(qapp.font(), 6.0)
    assert write(words("Norm")) is write(words("Norm"))
