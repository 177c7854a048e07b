"""Token labels beside a heat map, thinned to what fits."""

from __future__ import annotations

import math
from functools import lru_cache

from PySide6.QtCore import QRect, QRectF, Qt
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontMetrics,
    QFontMetricsF,
    QPainter,
    QPaintEvent,
    QPalette,
)
from PySide6.QtWidgets import QWidget

from visformer.pictures.picture import AttentionRole, TokenPair, bare
from visformer.ui.theme import CAPTION, hue, sized
from visformer.ui.widgets.plain_tip import plain_tip

LONGEST = 14  # characters of a label; more are cut in the middle
ROUNDING = 0.01  # of a pixel or a label
WIDE_SIZE = 1.2  # of characters that fill a square, beside Latin ones


def short(label: str) -> str:
    """Cut a long label in the middle; of a pair, each token."""
    if isinstance(label, TokenPair):
        return _short_pair(label.read, label.next, label.fed)
    return _cut(label, LONGEST)


@lru_cache(maxsize=2048)
def _short_pair(read: str, next: str, fed: str) -> str:
    return TokenPair(_cut(read, LONGEST - 5), _cut(next, LONGEST - 5), fed)


@lru_cache(maxsize=2048)
def _cut(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    head = longest // 2
    return f"{text[:head]}…{text[len(text) - (longest - 1 - head) :]}"


def label_font(font: QFont, text: str) -> QFont:
    """Return the font of a label: larger for Chinese, Japanese and Korean characters.

    Their fonts draw them smaller than Latin letters of the same nominal size.
    """
    return sized(font, WIDE_SIZE) if _is_wide(text) else font


def labels_width(font: QFont, labels: tuple[str, ...]) -> int:
    """Return the room of the widest label; only the longest few are measured.

    In bold, as the current step's is painted: no label changes its room with the step.
    """
    bold = sized(font, 1.0, bold=True)
    widest = max(
        (
            QFontMetricsF(label_font(bold, text)).horizontalAdvance(text)
            for text in _longest(labels)
        ),
        default=0.0,
    )
    return math.ceil(widest + QFontMetricsF(font).averageCharWidth())


@lru_cache(maxsize=64)
def _longest(labels: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted({short(label) for label in labels}, key=len)[-3:])


@lru_cache(maxsize=64)
def are_numbers(labels: tuple[str, ...]) -> bool:
    """Tell whether all labels are whole numbers, such as those of dimensions."""
    return bool(labels) and all(map(str.isdecimal, labels))


@lru_cache(maxsize=2048)
def _is_wide(text: str) -> bool:
    return any(
        "\u2e80" <= char <= "\u9fff"
        or "\uac00" <= char <= "\ud7af"
        or "\uf900" <= char <= "\ufaff"
        or "\uff01" <= char <= "\uff60"
        or "\U00020000" <= char <= "\U0003ffff"
        for char in text
    )


class Labels(QWidget):
    """Labels of the rows (vertical) or columns of the map beside them."""

    def __init__(self, orientation: Qt.Orientation, parent: QWidget) -> None:
        super().__init__(parent)
        self._rows = orientation is Qt.Orientation.Vertical
        self._labels: tuple[str, ...] = ()
        self._texts: tuple[str, ...] = ()  # the labels, cut to what fits
        self._has_wide = False  # some are Chinese, Japanese or Korean
        self._marked: tuple[int, ...] = ()
        self._current: int | None = None
        self._looks: set[tuple[str, bool, bool, bool, float, float]] = set()
        self._role: AttentionRole = ""
        self._first, self._span = 0.0, 1.0
        self._ink, self._face = QColor(), self.font()  # while painting
        self._metrics = self.fontMetrics()
        self.overhang = 0  # pixels beyond the map at both ends, for labels at its edge
        self.upright = True  # column labels that do not fit side by side are turned
        self.brief = False  # only what is marked has a label, which is never turned
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)

    def draw(
        self,
        labels: tuple[str, ...],
        marked: tuple[int, ...],
        *,
        current: int | None = None,
        role: AttentionRole = "",
    ) -> None:
        """Show these labels in their role's hue; those marked, and ``current``, always.

        The others are thinned to what has room beside those.
        """
        texts = self._texts
        if labels is not self._labels:  # marking alone comes with every mouse move
            self._labels, texts = labels, tuple(short(label) for label in labels)
            self._has_wide = any(map(_is_wide, texts))
        if (texts, marked, current, role) != (
            self._texts,
            self._marked,
            self._current,
            self._role,
        ):
            hued = role != self._role
            self._texts, self._marked = texts, marked
            self._current, self._role = current, role
            self._repaint(everything=hued)

    def look_at(self, first: float, span: float) -> None:
        """Label ``span`` cells from ``first`` on."""
        if (first, span) != (self._first, self._span):
            self._first, self._span = first, span
            self._repaint(everything=True)

    # ---- painting --------------------------------------------------------------

    def _repaint(self, *, everything: bool) -> None:
        """Paint again what is new or elsewhere, not what stays."""
        before = self._looks
        self._fit()
        self._looks = {(*self._how(index), middle) for index, middle in self._places()}
        if everything or self._stand_side_by_side or self.brief:
            self.update()
            return
        for look in before ^ self._looks:
            self.update(self._around(look[-1]))

    def _how(self, index: int) -> tuple[str, bool, bool, bool, float]:
        """Return all that a label's look depends on, but its place."""
        current, size = index == self._current, self._face.pointSizeF()
        stands = index in self._marked, current, self._is_turned(index)
        return self._texts[index], *stands, size

    def _fit(self) -> None:
        """Take the font that fits; the places of all labels follow from it."""
        self._face = self._fitting_face()
        self._metrics = QFontMetrics(self._face)

    def _around(self, middle: float) -> QRect:
        """Return all that a label is painted in, its overhang too."""
        if self._stand_side_by_side or self.brief:
            return self.rect()
        high = 2 * self.fontMetrics().height()
        first = math.floor(middle) - high
        if self._rows:
            return QRect(0, first, self.width(), 2 * high)
        return QRect(first, 0, 2 * high, self.height())

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the labels that have room, in their role's hue."""
        painter, region = QPainter(self), event.region()
        self._fit()
        self._ink = hue(self.palette(), self._role)
        painter.setFont(self._face)
        places = [at for at in self._places() if region.intersects(self._around(at[1]))]
        turned = [at for at in places if self._is_turned(at[0])]
        standing = [at for at in places if not self._is_turned(at[0])]
        for index, middle in standing:
            self._paint_label(painter, index, *self._box(index, middle))
        if turned:  # x now runs up, y to the right
            painter.translate(0, self.height())
            painter.rotate(-90)
        for index, middle in turned:
            high = self._metrics.height()
            box = QRectF(high // 5, middle - high / 2, self.height() - high // 5, high)
            side = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
            self._paint_label(painter, index, box, side)

    def _paint_label(
        self, painter: QPainter, index: int, box: QRectF, side: Qt.AlignmentFlag
    ) -> None:
        text, font = self._texts[index], self._face
        special = index == self._current or _is_wide(text)
        if special:
            font = label_font(font, text)
            current = index == self._current
            painter.setFont(sized(font, 1.0, bold=True) if current else font)
        if index in self._marked:
            painter.fillRect(box, self.palette().highlight())
            painter.setPen(self.palette().color(QPalette.ColorRole.HighlightedText))
        else:
            painter.setPen(self._ink)
        metrics = painter.fontMetrics() if special else self._metrics
        # cut visibly where there is no room; a single character overhangs
        if len(text) > 2 and metrics.horizontalAdvance(text) > box.width():
            cut = Qt.TextElideMode.ElideMiddle
            text = metrics.elidedText(text, cut, int(box.width()))
        painter.drawText(box, side | Qt.TextFlag.TextDontClip, text)
        if special:
            painter.setFont(self._face)

    def _fitting_face(self) -> QFont:
        """Return a caption's font where all labels have room in it, but not in ours."""
        if self._stand_side_by_side or self.brief:
            return self.font()
        small, pitch = sized(self.font(), CAPTION), self._pitch()
        fits = [
            self._high(QFontMetrics(face)) <= pitch for face in (self.font(), small)
        ]
        return small if fits == [False, True] else self.font()

    @property
    def _stand_side_by_side(self) -> bool:
        return not self._rows and self.upright

    def _pitch(self) -> float:
        side = self.height() if self._rows else self.width()
        return (side - 2 * self.overhang) / self._span

    def _every(self) -> int:
        """Return that one of so many labels is painted: numbers, in round steps."""
        needed = max(1, math.ceil(self._needed() / self._pitch() - ROUNDING))
        if not are_numbers(self._labels):
            return needed
        scale: int = 10 ** (len(str(needed)) - 1)
        steps: tuple[int, ...] = (scale, 2 * scale, 5 * scale, 10 * scale)
        return next(step for step in steps if step >= needed)

    def _needed(self) -> float:
        """Return the pixels from the middle of one label to that of the next."""
        if not self._stand_side_by_side:
            return self._high(self._metrics)
        if are_numbers(self._labels):
            return labels_width(self._face, self._labels)
        return 0.0  # they are turned where they have no room so

    def _high(self, metrics: QFontMetrics) -> float:
        """Return the height of a label; of several scripts, the largest."""
        return metrics.height() * (WIDE_SIZE if self._has_wide else 1.0)

    def _is_turned(self, index: int) -> bool:
        """Tell whether a column's label reads upwards; single characters stand."""
        if self._rows or self.upright or self.brief:
            return False
        text = self._texts[index]
        if len(bare(text)) > 1:
            return True
        font = label_font(self._face, text)
        room = self._every() * self._pitch()
        return QFontMetricsF(font).horizontalAdvance(text) > room and len(text) > 1

    def _places(self) -> list[tuple[int, float]]:
        """Return the labels to paint, each with its middle along the axis."""
        every, needed = self._every(), self._needed()
        first = max(0, math.floor(self._first))
        last = min(len(self._texts), math.ceil(self._first + self._span))
        always = {index for index in self._marked if first <= index < last}
        if self._current is not None and first <= self._current < last:
            always.add(self._current)
        kept = self._apart(sorted(always))
        if self.brief:
            return kept
        others = (
            (index, self._middle(index))
            for index in range(-(-first // every) * every, last, every)
            if index not in always and self._is_whole(index)
        )
        return kept + [
            (index, middle)
            for index, middle in others
            if all(abs(middle - one) >= needed - ROUNDING for _, one in kept)
        ]

    def _is_whole(self, index: int) -> bool:
        """Tell whether a number beside the others ends before the map's right edge."""
        parent = self.parentWidget()
        if not self._stand_side_by_side or parent is None:
            return True
        wide = self._metrics.horizontalAdvance(self._texts[index])
        return self._middle(index) + wide / 2 <= parent.width() - self.x()

    def _middle(self, index: int) -> float:
        return (index + 0.5 - self._first) * self._pitch() + self.overhang

    def _apart(self, indices: list[int]) -> list[tuple[int, float]]:
        """Move labels that must be there off one another, but not over the edge."""
        least = self._needed()
        middles = [self._middle(index) for index in indices]
        for at in range(1, len(middles)):
            missing = least - (middles[at] - middles[at - 1])
            if missing > 0:
                middles[at - 1] -= missing / 2
                middles[at] += missing / 2
        end = (self.height() if self._rows else self.width()) - least / 2
        for at in reversed(range(len(middles))):
            middles[at] = min(middles[at], end)
            end = middles[at] - least
        return list(zip(indices, middles, strict=True))

    def _box(self, index: int, middle: float) -> tuple[QRectF, Qt.AlignmentFlag]:
        """Return the place of a label that is not turned."""
        high, pitch = self._metrics.height(), self._pitch()
        centre = Qt.AlignmentFlag.AlignVCenter
        if self._rows:
            box = QRectF(0, middle - high / 2, self.width() - high // 5, high)
            return box, Qt.AlignmentFlag.AlignRight | centre
        wide = max(pitch, float(self._metrics.averageCharWidth()))
        if self.brief or are_numbers(self._labels):
            text = self._texts[index]
            font = label_font(self._face, text)
            wide = QFontMetricsF(font).horizontalAdvance(text)
            wide += self._metrics.averageCharWidth() / 2
        left = middle - wide / 2
        if self.brief:
            left = max(0.0, min(left, self.width() - wide))
        down = 0 if self.upright else max(0, self.height() - high)
        box = QRectF(left, down, wide, self.height() - down)
        return box, Qt.AlignmentFlag.AlignHCenter | centre


class Caption(QWidget):
    """One line of plain text in its role's hue that reads upwards."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._text = ""
        self._role: AttentionRole = ""
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)

    def set_text(self, text: str, role: AttentionRole = "") -> None:
        if (text, role) != (self._text, self._role):
            self._text, self._role = text, role
            self.setToolTip(plain_tip(text))
            self.update()

    def wanted(self) -> int:
        """Return the height that the whole text needs."""
        return self.fontMetrics().horizontalAdvance(self._text) + 2

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the text, elided if it does not fit."""
        painter = QPainter(self)
        painter.setPen(axis_ink(self.palette(), self._role))
        painter.rotate(-90)
        metrics = self.fontMetrics()
        text = metrics.elidedText(
            self._text, Qt.TextElideMode.ElideRight, self.height()
        )
        box = QRectF(-self.height(), 0, self.height(), self.width())
        painter.drawText(box, Qt.AlignmentFlag.AlignCenter, text)


def axis_ink(palette: QPalette, role: AttentionRole) -> QColor:
    """Return the colour of an axis's title: its role's hue, or a faint one."""
    if role:
        return hue(palette, role)
    return palette.color(QPalette.ColorRole.PlaceholderText)
