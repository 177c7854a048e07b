"""Paints a Drawing: boxes, arrows and words in a widget's own colours."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Literal, NamedTuple

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontMetricsF,
    QPainter,
    QPalette,
    QPen,
    QPolygonF,
    QTextLayout,
)
from PySide6.QtWidgets import QWidget

from visformer.pictures.diagram.columns import SMALL, Arrow, Box, Drawing, Point
from visformer.pictures.picture import AttentionRole
from visformer.pictures.words.role_text import ROLES, RoleText, role_text
from visformer.ui.look.theme import hue, sized
from visformer.ui.widgets.plain_label import written

BEHIND = 0.35  # of a character and of a line: the offset between a stack's boxes
HEAD = 0.42  # of a line: the length of an arrow's head
ColorRole = QPalette.ColorRole
_PENS = {
    "flow": Qt.PenStyle.SolidLine,
    "residual": Qt.PenStyle.DotLine,
    "memory": Qt.PenStyle.SolidLine,
    "next": Qt.PenStyle.DashLine,
}


class Painting:
    """One paint event's painter, and the size of a character and a line."""

    def __init__(
        self, painter: QPainter, widget: QWidget, wide: float, high: float
    ) -> None:
        self._painter, self._palette = painter, widget.palette()
        self._wide, self._high = wide, high
        self._focused = widget.hasFocus()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)

    def draw(self, drawing: Drawing) -> None:
        """Paint frames, then arrows, then boxes, without words and tokens."""
        for box in drawing.boxes:
            if box.style == "frame":
                self._box(box, chosen=False)
        for strong in (False, True):
            for arrow in drawing.arrows:
                if arrow.strong == strong:
                    self._arrow(arrow)
        for box in drawing.boxes:
            if box.style not in ("frame", "token"):
                self._box(box, chosen=bool(box.id) and box.id == drawing.chosen)

    def write(
        self, drawing: Drawing, lettering: Callable[[Words], tuple[InkedText, ...]]
    ) -> None:
        """Paint tokens, and all words."""
        inks: dict[Ink, QColor] = {
            "text": self._colour(ColorRole.Text),
            "faint": self._colour(ColorRole.PlaceholderText),
            **{role: hue(self._palette, role) for role in ROLES},
        }
        for box in drawing.boxes:
            if box.style == "token":
                self._box(box, chosen=bool(box.id) and box.id == drawing.chosen)
            if box.title or box.detail:
                corner, words = self._words(box)
                for written in lettering(words):
                    self._painter.setPen(inks[written.ink])
                    written.layout.draw(self._painter, corner + written.start)

    def _words(self, box: Box) -> tuple[QPointF, Words]:
        bare = box.style in ("text", "head")
        edge = 0.0 if bare else self._wide / 2
        words = Words(
            title=written((box.title,))[0],
            detail=box.detail,
            bold=box.style == "head" or (box.style == "token" and box.strong),
            left=bare,
            role=box.role,
            width=box.width * self._wide - 2 * edge,
            height=box.height * self._high,
        )
        return self._point((box.x, box.y)) + QPointF(edge, 0.0), words

    def token(self, drawing: Drawing, share: float) -> None:
        """Paint the newest row, ``share`` of its way through the decoder."""
        start, end = (self._point(point) for point in drawing.path)
        at = start + (end - start) * share
        radius = 0.45 * self._high
        self._painter.setPen(QPen(self._colour(ColorRole.Base), 2))
        self._painter.setBrush(self._colour(ColorRole.Highlight))
        self._painter.drawEllipse(at, radius, radius)

    # ---- parts -----------------------------------------------------------------

    def _colour(self, role: QPalette.ColorRole) -> QColor:
        return self._palette.color(role)

    def _point(self, at: Point) -> QPointF:
        return QPointF(at[0] * self._wide, at[1] * self._high)

    def _rect(self, box: Box) -> QRectF:
        corner = self._point((box.x, box.y))
        return QRectF(
            corner.x(), corner.y(), box.width * self._wide, box.height * self._high
        )

    def _arrow(self, arrow: Arrow) -> None:
        role = ColorRole.Highlight if arrow.strong else ColorRole.PlaceholderText
        if arrow.line == "next":
            role = ColorRole.Highlight
        colour = self._colour(role)
        if arrow.role:
            colour = hue(self._palette, arrow.role)
        wide = arrow.strong or arrow.role
        pen = QPen(colour, 2.2 if wide else 1.2, _PENS[arrow.line])
        pen.setCapStyle(Qt.PenCapStyle.FlatCap)
        *line, before, tip = (self._point(point) for point in arrow.points)
        x, y = tip.x() - before.x(), tip.y() - before.y()
        length = math.hypot(x, y)
        self._painter.setPen(pen)
        self._painter.setBrush(Qt.BrushStyle.NoBrush)
        if not arrow.head or not length:
            self._painter.drawPolyline([*line, before, tip])
            return
        size = min(HEAD * self._high, 0.8 * length)
        x, y = x / length * size, y / length * size
        back, side = QPointF(tip.x() - x, tip.y() - y), QPointF(-0.4 * y, 0.4 * x)
        self._painter.drawPolyline([*line, before, back])
        self._painter.setPen(Qt.PenStyle.NoPen)
        self._painter.setBrush(colour)
        self._painter.drawPolygon(QPolygonF([tip, back + side, back - side]))

    def _box(self, box: Box, *, chosen: bool) -> None:
        if not has_ground(box, chosen=chosen):
            return
        rect, painter = self._rect(box), self._painter
        painter.setPen(self._pen(box, chosen))
        painter.setBrush(self._ground(box))
        step = QPointF(BEHIND * self._wide * 2, BEHIND * self._high)
        for behind in range(box.stack - 1, 0, -1):
            painter.drawRoundedRect(rect.translated(step * behind / 2), 4, 4)
        if box.style == "add":
            painter.drawEllipse(rect)
        else:
            radius = 0.3 * self._high
            painter.drawRoundedRect(rect, radius, radius)

    def _pen(self, box: Box, chosen: bool) -> QPen:
        if chosen:
            return QPen(
                self._colour(ColorRole.Highlight), 3.5 if self._focused else 2.5
            )
        style = Qt.PenStyle.SolidLine
        if box.style in ("outside", "row", "mask"):
            style = Qt.PenStyle.DashLine
        if box.role:
            return QPen(hue(self._palette, box.role), 2, style)
        if box.strong:
            return QPen(self._colour(ColorRole.Highlight), 1.4, style)
        return QPen(self._colour(ColorRole.Mid), 1.2, style)

    def _ground(self, box: Box) -> QColor:
        """Return a box's ground; norms and layers differ, the step's path is tinted."""
        roles = {
            "frame": ColorRole.Window,
            "norm": ColorRole.AlternateBase,
            "layer": ColorRole.AlternateBase,
            "outside": ColorRole.Window,
            "row": ColorRole.Window,
        }
        ground = self._colour(roles.get(box.style, ColorRole.Base))
        share = {"frame": 0.03, "token": 0.22}.get(box.style, 0.1)
        if box.strong:
            ground = mixed(ground, self._colour(ColorRole.Highlight), share)
        return ground


def has_ground(box: Box, *, chosen: bool) -> bool:
    """Tell whether a box is more than words."""
    bare = box.style == "row" and not (chosen or box.title)
    return not bare and box.style not in ("text", "head")


def mixed(low: QColor, high: QColor, share: float) -> QColor:
    """Return the colour ``share`` of the way from one to another."""
    pairs = zip(low.getRgb()[:3], high.getRgb()[:3], strict=True)  # type: ignore[index]
    return QColor(*(round(a + (b - a) * share) for a, b in pairs))


NARROWEST = 0.75  # of its size: a line that is too long; then it is cut
BOXES = 512  # whose words are kept: those of a few steps
UNBROKEN = 1e6  # pixels: the width in which a line is laid out
Ink = AttentionRole | Literal["text", "faint"]
Alignment = Literal["left", "centre", "right"]


class Words(NamedTuple):
    """What a box says, and the room for it in pixels."""

    title: str
    detail: str
    bold: bool
    left: bool  # where there is no detail; else in the middle
    role: AttentionRole
    width: float
    height: float


class InkedText(NamedTuple):
    """A line, or the part of one in one ink, and where it starts in its box."""

    layout: QTextLayout
    start: QPointF
    ink: Ink


class _Type(NamedTuple):
    font: QFont
    metrics: QFontMetricsF


def lettering(font: QFont, wide: float) -> Callable[[Words], tuple[InkedText, ...]]:
    """Return what tells how a box is written on in a font.

    ``wide``: a character's width in pixels. Qt measures and shapes a text anew whenever
    it is painted, and most words of a step are those of the step before: they are kept
    as they were laid out.
    """
    small, bold = QFont(font), QFont(font)
    small.setPointSizeF(SMALL * font.pointSizeF())
    bold.setBold(True)
    types = _typed(font), _typed(small), _typed(bold)

    @lru_cache(BOXES)
    def write(words: Words) -> tuple[InkedText, ...]:
        return tuple(_written(words, *types, gap=1.5 * wide))

    return write


def _typed(font: QFont) -> _Type:
    return _Type(font, QFontMetricsF(font))


def _written(
    words: Words, body: _Type, small: _Type, bold: _Type, *, gap: float
) -> Iterator[InkedText]:
    """Write the name, and the detail if both fit side by side."""
    title, detail = words.title, words.detail
    name = bold if words.bold else body
    taken = name.metrics.horizontalAdvance(title)
    more = small.metrics.horizontalAdvance(detail)
    if title:
        side: Alignment = "left" if detail or words.left else "centre"
        yield from _line(title, taken, words, name, words.role or "text", side)
    if detail and (taken + more + gap <= words.width or not title):
        at: Alignment = "right" if title else "left"
        yield from _line(detail, more, words, small, "faint", at)


def _line(
    text: str, taken: float, words: Words, kind: _Type, ink: Ink, side: Alignment
) -> Iterator[InkedText]:
    """Write a line, smaller where it is too long; on the left, symbols have roles.

    ``taken``: the width that it would have.
    """
    if taken > words.width:
        share = words.width / taken
        kind = _typed(sized(kind.font, max(NARROWEST, share)))
        if share < NARROWEST:
            cut = Qt.TextElideMode.ElideRight
            text = kind.metrics.elidedText(text, cut, words.width)
    hued = side == "left" and ink in ("text", "faint")
    x = 0.0
    for part, role in (role_text(text) if hued else RoleText(text)).parts():
        written = _part(part, kind.font, role or ink, x, words, side)
        yield written
        x += written.layout.lineAt(0).horizontalAdvance()


def _part(
    text: str, font: QFont, ink: Ink, x: float, words: Words, side: Alignment
) -> InkedText:
    """Lay a text out; it stands where QPainter.drawText would write it."""
    layout = QTextLayout(text, font)
    layout.setCacheEnabled(True)
    layout.beginLayout()
    line = layout.createLine()
    line.setLineWidth(UNBROKEN)
    layout.endLayout()
    room = words.width - line.horizontalAdvance()
    x += {"left": 0.0, "centre": room / 2, "right": room}[side]
    y = (words.height - line.ascent() - line.descent()) / 2
    return InkedText(layout, QPointF(x, y), ink)
