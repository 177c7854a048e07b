"""What a widget paints: words, rectangles and images with their places in pixels.

The widget is drawn into an SVG, which keeps texts as texts; its elements are read back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np
from PySide6.QtCore import QBuffer, QPoint, QRect, QRectF
from PySide6.QtGui import QFont, QFontMetricsF, QImage, QTransform
from PySide6.QtSvg import QSvgGenerator
from PySide6.QtWidgets import QWidget

SVG = "{http://www.w3.org/2000/svg}"
FONT_SIZE = 13  # pixels


class Word(NamedTuple):
    """A text, the point where its baseline starts, its colour (#rrggbb), its font."""

    text: str
    x: float
    y: float
    ink: str
    font: QFont
    turned: QTransform

    def letters(self) -> Iterator[QRectF]:
        """Yield what each character covers."""
        metrics = QFontMetricsF(self.font)
        for at, letter in enumerate(self.text):
            from_left = metrics.horizontalAdvance(self.text[:at])
            cover = metrics.tightBoundingRect(letter).translated(from_left, 0)
            yield self.turned.mapRect(cover).translated(self.x, self.y)


class Box(NamedTuple):
    """A rectangle with the colour (#rrggbb) and width of its edge, and its filling."""

    rect: QRectF
    pen: str
    wide: float
    brush: str


@dataclass(frozen=True)
class Painted:
    """Everything that was painted, in the order of painting."""

    words: list[Word]
    boxes: list[Box]
    images: list[QRectF]

    def word(self, text: str) -> Word:
        """Return the only place where a text stands."""
        (only,) = (word for word in self.words if word.text == text)
        return only


def painted(widget: QWidget, part: QWidget | None = None) -> Painted:
    """Return what a widget paints, or a ``part`` of it, in the widget's pixels."""
    buffer = QBuffer()
    buffer.open(QBuffer.OpenModeFlag.WriteOnly)
    generator = QSvgGenerator()
    generator.setOutputDevice(buffer)
    generator.setSize(widget.size())
    generator.setResolution(96)
    target = part or widget
    offset = target.mapTo(widget, QPoint()) if part else QPoint()
    QWidget.render(target, generator, offset)  # a view of a scene has another render
    result = Painted([], [], [])
    for group in ElementTree.fromstring(bytes(buffer.data().data())).iter(f"{SVG}g"):
        _read(group, result)
    return result


def _read(group: ElementTree.Element, result: Painted) -> None:
    name = group.get("transform", "matrix(1,0,0,1,0,0)")
    numbers = [float(number) for number in name[len("matrix(") : -1].split(",")]
    transform = QTransform(*numbers)
    turned = transform * QTransform.fromTranslate(-numbers[4], -numbers[5])
    for element in group:
        at = {key: element.get(key, "0") for key in ("x", "y", "width", "height")}
        x, y = float(at["x"]), float(at["y"])
        if element.tag == f"{SVG}text":
            point = transform.map(x, y)
            assert isinstance(point, tuple)
            text, ink = (element.text or "").strip("\n"), element.get("fill", "")
            font = _font(element)  # a layout has one of its own
            result.words.append(Word(text, point[0], point[1], ink, font, turned))
            continue
        if element.tag not in (f"{SVG}rect", f"{SVG}image"):
            continue
        rect = QRectF(x, y, float(at["width"]), float(at["height"]))
        rect = transform.mapRect(rect)
        if element.tag == f"{SVG}image":
            result.images.append(rect)
            continue
        wide = float(group.get("stroke-width", "0"))
        pen, brush = group.get("stroke", "none"), group.get("fill", "none")
        result.boxes.append(Box(rect, pen, wide, brush))


def _font(text: ElementTree.Element) -> QFont:
    font = QFont(text.get("font-family", ""))
    font.setPixelSize(round(float(text.get("font-size", FONT_SIZE))))
    font.setWeight(QFont.Weight(int(text.get("font-weight", "400"))))
    return font


def fixed_font(widget: QWidget) -> None:
    """Give a widget a font of a size that no setting changes."""
    font = QFont("DejaVu Sans")
    font.setPixelSize(FONT_SIZE)
    widget.setFont(font)


def pixels(widget: QWidget) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return the widget as [height, width, 3], red first."""
    image = widget.grab().toImage().convertToFormat(QImage.Format.Format_RGB888)
    rows = np.frombuffer(image.constBits(), np.uint8)
    rows = rows.reshape(image.height(), image.bytesPerLine())
    return rows[:, : 3 * image.width()].reshape(image.height(), -1, 3).copy()


def inside(rect: QRectF, edge: int) -> QRect:
    """Return a rectangle's pixels without ``edge`` of them at each side."""
    return rect.toAlignedRect().adjusted(edge, edge, -edge, -edge)
