"""What is painted as SVG: the picture on screen, of shapes and outlined text.

Qt's own QSvgGenerator leaves out clips, smooths images and names fonts that another
computer lacks.
"""

import base64
from collections.abc import Callable, Iterable
from html import escape
from itertools import groupby
from typing import Any
from unicodedata import category

from PySide6.QtCore import QBuffer, QLineF, QPoint, QPointF, QRect, QRectF, QSize, Qt
from PySide6.QtGui import (
    QBrush,
    QColor,
    QFontMetricsF,
    QImage,
    QImageWriter,
    QPaintDevice,
    QPaintEngine,
    QPaintEngineState,
    QPainter,
    QPainterPath,
    QPen,
    QPolygonF,
    QTextItem,
    QTransform,
)

from visformer.language import tag

MOST_CELLS = 1 << 16  # pixels that are drawn as rectangles
SHARP = 4  # pixels of what cannot be a shape, per unit, in each direction
_CAPS = {
    Qt.PenCapStyle.FlatCap: "butt",
    Qt.PenCapStyle.SquareCap: "square",
    Qt.PenCapStyle.RoundCap: "round",
}
_JOINS = {Qt.PenJoinStyle.BevelJoin: "bevel", Qt.PenJoinStyle.RoundJoin: "round"}
_DPI = 96
_METRICS = {
    QPaintDevice.PaintDeviceMetric.PdmDpiX: _DPI,
    QPaintDevice.PaintDeviceMetric.PdmDpiY: _DPI,
    QPaintDevice.PaintDeviceMetric.PdmPhysicalDpiX: _DPI,
    QPaintDevice.PaintDeviceMetric.PdmPhysicalDpiY: _DPI,
    QPaintDevice.PaintDeviceMetric.PdmDevicePixelRatio: 1,
    QPaintDevice.PaintDeviceMetric.PdmDevicePixelRatioScaled: 1 << 16,
    QPaintDevice.PaintDeviceMetric.PdmNumColors: 1 << 24,
    QPaintDevice.PaintDeviceMetric.PdmDepth: 32,
}


def svg(
    size: QSize, paint: Callable[[QPainter], object], title: str, width: str
) -> bytes:
    """Return what is painted as an SVG file.

    ``title`` is what the picture is called; ``width`` its size as CSS has it, such as
    "8.5cm", or "". Words stay findable: they are labels of their outlines.
    """
    device = _SvgDevice(size)
    painter = QPainter(device)
    paint(painter)
    painter.end()
    wide, high = size.width(), size.height()
    sized = f'width="{width or wide}"' + ("" if width else f' height="{high}"')
    return "\n".join(
        (
            '<?xml version="1.0" encoding="UTF-8"?>',
            f'<svg xmlns="http://www.w3.org/2000/svg" lang="{tag()}" {sized} '
            f'viewBox="0 0 {wide} {high}" role="img">',
            f"<title>{_text(title)}</title>",
            *device.engine.parts,
            "</svg>\n",
        )
    ).encode()


class _SvgDevice(QPaintDevice):
    def __init__(self, size: QSize) -> None:
        super().__init__()
        self._size, self.engine = size, _SvgEngine()

    def paintEngine(self) -> QPaintEngine:
        return self.engine

    def metric(self, metric: QPaintDevice.PaintDeviceMetric) -> int:
        sizes = {
            QPaintDevice.PaintDeviceMetric.PdmWidth: self._size.width(),
            QPaintDevice.PaintDeviceMetric.PdmHeight: self._size.height(),
            QPaintDevice.PaintDeviceMetric.PdmWidthMM: self._size.width() * 25 // _DPI,
            QPaintDevice.PaintDeviceMetric.PdmHeightMM: self._size.height()
            * 25
            // _DPI,
        }
        return {**_METRICS, **sizes}.get(metric, 1)


class _SvgEngine(QPaintEngine):
    """Writes what is painted as elements of SVG."""

    def __init__(self) -> None:
        super().__init__(QPaintEngine.PaintEngineFeature.AllFeatures)
        self.parts: list[str] = []
        self._clips: dict[str, str] = {}  # their names, by their outlines
        self._moved, self._opacity, self._pen = QTransform(), 1.0, QPen()
        self._brush, self._origin = QBrush(), QPointF()
        self._clip: QPainterPath | None = None  # of the device; None: there is none

    def begin(self, device: QPaintDevice) -> bool:
        self.setActive(True)
        return True

    def end(self) -> bool:
        self.setActive(False)
        return True

    def type(self) -> QPaintEngine.Type:
        return QPaintEngine.Type.User

    def updateState(self, state: QPaintEngineState) -> None:
        """Copy what is used: the state lives no longer than the call."""
        self._moved, self._opacity = state.transform(), state.opacity()
        self._pen, self._brush = QPen(state.pen()), QBrush(state.brush())
        self._origin, flags = QPointF(state.brushOrigin()), state.state()
        path = QPainterPath()
        if flags & QPaintEngine.DirtyFlag.DirtyClipPath:
            path = state.clipPath()
        elif flags & QPaintEngine.DirtyFlag.DirtyClipRegion:
            path.addRegion(state.clipRegion())
        elif flags & QPaintEngine.DirtyFlag.DirtyClipEnabled:
            self._clip = self._clip if state.isClipEnabled() else None
            return
        else:
            return
        path, how = self._moved.map(path), state.clipOperation()
        if how == Qt.ClipOperation.NoClip:
            self._clip = None
        elif how == Qt.ClipOperation.IntersectClip and self._clip is not None:
            self._clip = self._clip.intersected(path)
        else:
            self._clip = path

    # ---- shapes --------------------------------------------------------------------

    def drawPath(self, path: QPainterPath) -> None:
        brush = self._brush
        plain = brush.style() in (Qt.BrushStyle.NoBrush, Qt.BrushStyle.SolidPattern)
        if not plain:
            self._draw_as_image(path, brush)
        filled = _fill(brush if plain else QBrush())
        how = f"{filled}{_stroke(self._pen)}"
        rule = path.fillRule() == Qt.FillRule.OddEvenFill
        self._add("path", f' d="{_outline(path)}"{how}', even=rule)

    def drawRects(self, rects: Iterable[QRect | QRectF]) -> None:
        for rect in rects:
            path = QPainterPath()
            path.addRect(QRectF(rect))
            self.drawPath(path)

    def drawEllipse(self, rect: QRect | QRectF) -> None:
        path = QPainterPath()
        path.addEllipse(QRectF(rect))
        self.drawPath(path)

    def drawLines(self, lines: Iterable[Any]) -> None:
        for line in lines:
            path = QPainterPath(QPointF(line.p1()))
            path.lineTo(QPointF(line.p2()))
            self._add("path", f' d="{_outline(path)}" fill="none"{_stroke(self._pen)}')

    def drawPoints(self, points: Iterable[QPoint | QPointF]) -> None:
        for point in points:
            at = QPointF(point)
            self.drawLines([QLineF(at, at + QPointF(0.01, 0))])

    def drawPolygon(
        self,
        points: Iterable[QPoint | QPointF],
        mode: QPaintEngine.PolygonDrawMode = QPaintEngine.PolygonDrawMode.OddEvenMode,
    ) -> None:
        path = QPainterPath()
        path.addPolygon(QPolygonF([QPointF(point) for point in points]))
        if mode == QPaintEngine.PolygonDrawMode.PolylineMode:
            how = f' d="{_outline(path)}" fill="none"{_stroke(self._pen)}'
            self._add("path", how)
            return
        path.closeSubpath()
        self.drawPath(path)

    # ---- text ------------------------------------------------------------------------

    def drawTextItem(self, place: Any, item: QTextItem) -> None:
        words, font, pen = item.text(), item.font(), self._pen
        if all(c.isspace() or category(c) == "Cf" for c in words):
            return  # there is nothing to see
        label = f' aria-label="{_text(words)}"'
        path = QPainterPath()
        path.addText(place, font, words)
        if path.isEmpty() or any(c >= "\U0001f000" or c == "\ufe0f" for c in words):
            self._draw_text_as_image(place, item, label)  # it has no outlines
            return
        metrics = QFontMetricsF(font)
        for flag, down in (
            (QTextItem.RenderFlag.Underline, metrics.underlinePos()),
            (QTextItem.RenderFlag.StrikeOut, -metrics.strikeOutPos()),
        ):
            if item.renderFlags() & flag:
                thick = max(1.0, metrics.lineWidth())
                at = place + QPointF(0, down - thick / 2)
                path.addRect(QRectF(at.x(), at.y(), item.width(), thick))
        how = f' d="{_outline(path)}"{_fill(QBrush(pen.color()))} stroke="none"'
        self._add("path", f"{how}{label}")

    def _draw_text_as_image(self, place: QPointF, item: QTextItem, label: str) -> None:
        box = QRectF(
            *(place.x(), place.y() - item.ascent()),
            *(item.width() + 2, item.ascent() + item.descent() + 2),
        )

        def paint(painter: QPainter) -> None:
            painter.setFont(item.font())
            painter.setPen(self._pen)
            painter.drawText(place, item.text())

        self._add_image(box, _drawn(box, paint), label)

    # ---- images ----------------------------------------------------------------------

    def drawPixmap(self, box: Any, pixmap: Any, source: Any) -> None:
        self.drawImage(box, pixmap.toImage(), source)

    def drawImage(
        self,
        box: Any,
        image: QImage,
        source: Any,
        flags: Qt.ImageConversionFlag = Qt.ImageConversionFlag.AutoColor,
    ) -> None:
        part = QRect(
            *(round(source.x()), round(source.y())),
            *(round(source.width()), round(source.height())),
        )
        shown = image.copy(part) if part != image.rect() else image
        larger = box.width() * box.height() > 2 * shown.width() * shown.height()
        if larger and shown.width() * shown.height() <= MOST_CELLS:
            self._add_cells(box, shown)
        else:
            self._add_image(box, shown)

    def drawTiledPixmap(self, box: Any, pixmap: Any, offset: Any) -> None:
        def paint(painter: QPainter) -> None:
            painter.drawTiledPixmap(box, pixmap, offset)

        self._add_image(box, _drawn(box, paint))

    def _draw_as_image(self, path: QPainterPath, brush: QBrush) -> None:
        """Draw what a pattern fills as pixels, inside of its path."""
        box = path.boundingRect()

        def paint(painter: QPainter) -> None:
            painter.setBrushOrigin(self._origin)
            painter.fillPath(path, brush)

        whole = QRectF(box.toAlignedRect())
        if not whole.isEmpty():  # patterns are as fine as the screen's pixels
            self._add_cells(whole, _drawn(whole, paint, sharp=1))

    def _add_cells(self, box: QRectF, image: QImage) -> None:
        """Draw pixels as rectangles: programs smooth an image that they magnify."""
        wide, high = box.width() / image.width(), box.height() / image.height()
        runs: dict[int, list[str]] = {}
        for row in range(image.height()):
            colours = [image.pixelColor(x, row).rgba() for x in range(image.width())]
            start = 0
            for colour, same in groupby(colours):
                length = len(list(same))
                x, y = box.x() + start * wide, box.y() + row * high
                across, down = _n(length * wide), _n(high)
                shape = f"M{_n(x)} {_n(y)}h{across}v{down}h-{across}z"
                runs.setdefault(colour, []).append(shape)
                start += length
        for colour, shapes in runs.items():
            fill = QColor.fromRgba(colour)
            if fill.alpha():
                how = f' d="{"".join(shapes)}"{_fill(QBrush(fill))}'
                self._add("path", f'{how} shape-rendering="crispEdges"')

    def _add_image(self, box: QRectF, image: QImage, label: str = "") -> None:
        buffer = QBuffer()
        buffer.open(QBuffer.OpenModeFlag.WriteOnly)
        QImageWriter(buffer, b"png").write(image)
        data = base64.b64encode(bytes(buffer.data().data())).decode()
        at = f' x="{_n(box.x())}" y="{_n(box.y())}"'
        size = f' width="{_n(box.width())}" height="{_n(box.height())}"'
        how = ' preserveAspectRatio="none" image-rendering="pixelated"'
        style = ' style="image-rendering:pixelated"'
        link = f' href="data:image/png;base64,{data}"'
        self._add("image", f"{at}{size}{how}{style}{link}{label}")

    # ---- elements --------------------------------------------------------------------

    def _add(self, name: str, how: str, *, even: bool = False) -> None:
        rule = ' fill-rule="evenodd"' if even else ""
        faint = f' opacity="{_n(self._opacity)}"' if self._opacity < 1 else ""
        element = f"<{name}{_moved(self._moved)}{faint}{rule}{how}/>"
        clip = self._clipped()
        self.parts.append(f"<g{clip}>{element}</g>" if clip else element)

    def _clipped(self) -> str:
        """Return the attribute of what all is clipped to; defined where it is new."""
        path, system = self._clip, self.systemClip()
        if not system.isEmpty():
            own = QPainterPath()
            own.addRegion(system)
            path = own if path is None else path.intersected(own)
        if path is None:
            return ""
        outline = _outline(path)
        if outline not in self._clips:
            name = self._clips[outline] = f"clip{len(self._clips)}"
            even = path.fillRule() == Qt.FillRule.OddEvenFill
            rule = ' clip-rule="evenodd"' if even else ""  # it may have holes
            shape = f'<path d="{outline}"{rule}/>'
            self.parts.append(f'<clipPath id="{name}">{shape}</clipPath>')
        return f' clip-path="url(#{self._clips[outline]})"'


def _drawn(
    box: QRectF, paint: Callable[[QPainter], object], *, sharp: int = SHARP
) -> QImage:
    """Return what is painted into a box, with so many pixels per unit."""
    size = (box.size() * sharp).toSize().expandedTo(QSize(1, 1))
    image = QImage(size, QImage.Format.Format_ARGB32_Premultiplied)
    image.fill(Qt.GlobalColor.transparent)
    painter = QPainter(image)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.scale(size.width() / box.width(), size.height() / box.height())
    painter.translate(-box.topLeft())
    paint(painter)
    painter.end()
    return image


def _n(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".")


def _text(words: str) -> str:
    """Escape words; what XML cannot hold is replaced."""
    held = (c if c in "\t\n" or c >= " " else "�" for c in words)
    return escape("".join(held))


def _moved(by: QTransform) -> str:
    if by.isIdentity():
        return ""
    values = (by.m11(), by.m12(), by.m21(), by.m22(), by.dx(), by.dy())
    return f' transform="matrix({" ".join(map(_n, values))})"'


def _fill(brush: QBrush) -> str:
    if brush.style() == Qt.BrushStyle.NoBrush:
        return ' fill="none"'
    colour = brush.color()
    faint = f' fill-opacity="{_n(colour.alphaF())}"' if colour.alpha() < 255 else ""
    return f' fill="{colour.name()}"{faint}'


def _stroke(pen: QPen) -> str:
    if pen.style() == Qt.PenStyle.NoPen:
        return ""
    colour = pen.color()
    width = pen.widthF() or 1.0
    faint = f' stroke-opacity="{_n(colour.alphaF())}"' if colour.alpha() < 255 else ""
    dashes = ""
    if pen.style() != Qt.PenStyle.SolidLine:
        lengths = " ".join(_n(width * length) for length in pen.dashPattern())
        dashes = f' stroke-dasharray="{lengths}"'
    fixed = ' vector-effect="non-scaling-stroke"' if pen.isCosmetic() else ""
    ends = f' stroke-linecap="{_CAPS.get(pen.capStyle(), "butt")}"'
    joins = f' stroke-linejoin="{_JOINS.get(pen.joinStyle(), "miter")}"'
    how = f"{faint}{dashes}{fixed}{ends}{joins}"
    return f' stroke="{colour.name()}" stroke-width="{_n(width)}"{how}'


def _outline(path: QPainterPath) -> str:
    """Return a path as SVG has it."""
    said, at, count = [], 0, path.elementCount()
    while at < count:
        one = path.elementAt(at)
        if one.isMoveTo():
            said.append(f"M{_n(one.x)} {_n(one.y)}")
        elif one.isLineTo():
            said.append(f"L{_n(one.x)} {_n(one.y)}")
        else:
            three = [path.elementAt(at + more) for more in range(3)]
            said.append("C" + " ".join(f"{_n(e.x)} {_n(e.y)}" for e in three))
            at += 2
        at += 1
    return "".join(said)
