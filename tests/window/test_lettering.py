"""The words of a diagram's boxes: where they stand, and what is kept of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QFont, QFontMetricsF, QImage, QPainter, QPixmap
from PySide6.QtWidgets import QApplication

from visformer.ui.views.architecture.diagram_canvas import Words, lettering

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
