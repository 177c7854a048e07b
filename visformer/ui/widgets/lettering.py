"""Lettering: the words of a diagram's boxes, measured and laid out once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Literal, NamedTuple

from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QFont, QFontMetricsF, QTextLayout

from visformer.pictures.diagram.columns import SMALL
from visformer.pictures.picture import AttentionRole
from visformer.pictures.role_text import RoleText, role_text
from visformer.ui.theme import sized

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
