"""Token labels beside a heat map, thinned to what fits."""

import math
import re
from functools import lru_cache
from operator import is_
from typing import NamedTuple

from PySide6.QtCore import QEvent, QRect, QRectF, Qt
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

from visformer.pictures.picture import AttentionRole, Label
from visformer.ui.look.theme import CAPTION, TITLE, hue, letter_width, sized
from visformer.ui.widgets.plain_label import cut_to_room, plain_tip, written

ROUNDING = 0.01  # of a pixel or a label
LEFT, RIGHT, MIDDLE = (
    side.value | Qt.AlignmentFlag.AlignVCenter.value | Qt.TextFlag.TextDontClip.value
    for side in (
        Qt.AlignmentFlag.AlignLeft,
        Qt.AlignmentFlag.AlignRight,
        Qt.AlignmentFlag.AlignHCenter,
    )
)


# text, whether it is marked, current, turned; size, middle along the axis
LabelLook = tuple[str, bool, bool, bool, float, float]


class _Spacing(NamedTuple):
    """What the places of all labels follow from."""

    face: QFont
    metrics: QFontMetrics
    pitch: float  # pixels of a cell along the axis
    needed: float  # pixels from the middle of one label to that of the next
    every: int  # of this many labels one is painted


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
        self._role: AttentionRole = ""
        self._first, self._span = 0.0, 1.0
        self.overhang = 0  # pixels beyond the map at both ends, for labels at its edge
        self.upright = True  # column labels that do not fit side by side are turned
        self.brief = False  # only what is marked has a label, which is never turned
        # found for one arrangement of the map, and what is marked in it
        self._arranged: tuple[object, ...] = ()
        self._fitted_for: tuple[object, ...] = ()
        self._fit = _Spacing(self.font(), self.fontMetrics(), 1.0, 0.0, 1)
        self._places: list[tuple[int, float]] = []  # labels, with their middles
        self._found: set[LabelLook] | None = None  # how they look there, once asked
        self._widths: dict[str, int] = {}  # of texts in the face that fits
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
            texts = self._shortened(labels)
            self._labels = labels
        if (texts, marked, current, role) != (
            self._texts,
            self._marked,
            self._current,
            self._role,
        ):
            before = self._looks() if role == self._role and self._stands else None
            self._texts, self._marked = texts, marked
            self._current, self._role = current, role
            self._repaint(before)

    def _shortened(self, labels: tuple[str, ...]) -> tuple[str, ...]:
        """Return the labels cut to what fits; a step adds one to those known."""
        known = len(self._labels)
        if len(labels) < known or not all(map(is_, labels, self._labels)):
            known = 0
        new = tuple(map(short, written(labels[known:])))
        self._has_wide = is_wide("".join(new)) or (known > 0 and self._has_wide)
        return self._texts[:known] + new

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange and "_labels" in self.__dict__:
            labels, self._labels = self._labels, ()
            self.draw(labels, self._marked, current=self._current, role=self._role)

    def look_at(self, first: float, span: float) -> None:
        """Label ``span`` cells from ``first`` on."""
        if (first, span) != (self._first, self._span):
            self._first, self._span = first, span
            self.update()

    # ---- painting --------------------------------------------------------------

    def _repaint(self, before: set[LabelLook] | None) -> None:
        if before is None or self._stand_side_by_side or self.brief:
            self._arranged = ()
            self.update()
            return
        self._arrange()
        for look in before ^ self._looks():
            self.update(self._around(look[-1]))

    @property
    def _stands(self) -> bool:
        """Whether the map is arranged as it was when the labels were."""
        return self._arranged == self._arrangement()

    def _looks(self) -> set[LabelLook]:
        if self._found is None:
            size, texts = self._fit.face.pointSizeF(), self._texts
            self._found = {
                (
                    texts[index],
                    index in self._marked,
                    index == self._current,
                    self._is_turned(index),
                    size,
                    middle,
                )
                for index, middle in self._places
            }
        return self._found

    def _arrangement(self) -> tuple[object, ...]:
        """Return what the labels' places follow from, but for the labels themselves."""
        parent = self.parentWidget()
        wide = parent.width() if parent is not None else 0
        how = self.overhang, self.upright, self.brief
        return self.geometry(), wide, self._first, self._span, self.font(), *how

    def _arrange(self) -> None:
        """Find the font that fits, and the places of all labels in it."""
        self._arranged, numbers = self._arrangement(), are_numbers(self._labels)
        fitted_for = *self._arranged, self._has_wide, numbers and self._labels
        if fitted_for != self._fitted_for:
            fit, self._fitted_for = self._fitted(numbers=numbers), fitted_for
            if fit.face != self._fit.face:
                self._widths.clear()
            self._fit = fit
        self._places, self._found = self._placed(), None

    def _around(self, middle: float) -> QRect:
        """Return all that a label is painted in, its overhang too."""
        if self._stand_side_by_side or self.brief:
            return self.rect()
        reach = self._reach()
        first = math.floor(middle) - reach
        if self._rows:
            return QRect(0, first, self.width(), 2 * reach)
        return QRect(first, 0, 2 * reach, self.height())

    def _reach(self) -> int:
        """Return how far from its middle a label is painted at most, in pixels."""
        lines = 0.75 if self._rows else 1.0  # two letters may stand upright
        high = self._fit.metrics.height()
        return math.ceil(max(lines * high, self._fit.pitch / 2)) + 1

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        if not self._stands:
            self._arrange()
        ink, places = hue(self.palette(), self._role), self._places
        painter.setFont(self._fit.face)
        part = event.rect()
        if part != self.rect() and not (self._stand_side_by_side or self.brief):
            over = self._reach()
            first, last = part.top() - over, part.bottom() + over
            if not self._rows:
                first, last = part.left() - over, part.right() + over
            places = [at for at in places if first <= at[1] <= last]
        turned = []
        for index, middle in places:
            if self._is_turned(index):
                turned.append((index, middle))
            else:
                self._paint_label(painter, ink, index, *self._box(index, middle))
        if turned:  # x now runs up, y to the right
            painter.translate(0, self.height())
            painter.rotate(-90)
        high = self._fit.metrics.height()
        for index, middle in turned:
            box = QRectF(high // 5, middle - high / 2, self.height() - high // 5, high)
            self._paint_label(painter, ink, index, box, LEFT)

    def _paint_label(
        self, painter: QPainter, ink: QColor, index: int, box: QRectF, side: int
    ) -> None:
        text, font = self._texts[index], self._fit.face
        special = index == self._current or is_wide(text)
        if special:
            font = label_font(font, text)
            if index == self._current:
                font = sized(font, 1.0, bold=True)
            painter.setFont(font)
        if index in self._marked:
            painter.fillRect(box, self.palette().highlight())
            painter.setPen(self.palette().color(QPalette.ColorRole.HighlightedText))
        else:
            label = self._labels[index]
            faint = isinstance(label, Label) and label.faint
            painter.setPen(self.palette().placeholderText().color() if faint else ink)
        # cut visibly where there is no room; a single character overhangs
        if len(text) > 2:
            text = cut_to(text, font, int(box.width()))
        painter.drawText(box, side, text)
        if special:
            painter.setFont(self._fit.face)

    def _wide(self, text: str) -> int:
        if text not in self._widths:
            self._widths[text] = self._fit.metrics.horizontalAdvance(text)
        return self._widths[text]

    # ---- where labels are ------------------------------------------------------

    def _fitted(self, *, numbers: bool) -> _Spacing:
        """Return a caption's font where all labels have room in it, but not in ours."""
        face, small = self.font(), sized(self.font(), CAPTION)
        side = self.height() if self._rows else self.width()
        pitch = (side - 2 * self.overhang) / self._span
        if not (self._stand_side_by_side or self.brief):
            high, less = (self._high(QFontMetrics(one)) for one in (face, small))
            face = small if less <= pitch < high else face
        metrics = QFontMetrics(face)
        needed = self._high(metrics)
        if self._stand_side_by_side:  # where others have no room they are turned
            needed = labels_width(face, self._labels) if numbers else 0.0
        every = max(1, math.ceil(needed / pitch - ROUNDING))
        return _Spacing(
            face, metrics, pitch, needed, _round(every) if numbers else every
        )

    @property
    def _stand_side_by_side(self) -> bool:
        return not self._rows and self.upright

    def _high(self, metrics: QFontMetrics) -> float:
        return metrics.height() * (WIDE_SIZE if self._has_wide else 1.0)

    def _is_turned(self, index: int) -> bool:
        """Tell whether a column's label reads upwards; single characters stand."""
        turns = not (self._rows or self.upright or self.brief)
        return turns and len(self._texts[index]) > 1

    def _placed(self) -> list[tuple[int, float]]:
        every, least = self._fit.every, self._fit.needed - ROUNDING
        first = max(0, math.floor(self._first))
        last = min(len(self._texts), math.ceil(self._first + self._span))
        always = {index for index in self._marked if first <= index < last}
        if self._current is not None and first <= self._current < last:
            always.add(self._current)
        kept = self._apart(sorted(always))
        if self.brief:
            return kept
        others = range(-(-first // every) * every, last, every)
        pitch, start = self._fit.pitch, self._middle(0)
        free = [(at, start + at * pitch) for at in others if at not in always]
        for _, near in kept:
            free = [place for place in free if not -least < place[1] - near < least]
        if self._stand_side_by_side:
            free = [place for place in free if self._is_whole(*place)]
        return kept + free

    def _is_whole(self, index: int, middle: float) -> bool:
        """Tell whether a number beside the others ends before the map's right edge."""
        parent = self.parentWidget()
        if parent is None:
            return True
        return middle + self._wide(self._texts[index]) / 2 <= parent.width() - self.x()

    def _middle(self, index: int) -> float:
        return (index + 0.5 - self._first) * self._fit.pitch + self.overhang

    def _apart(self, indices: list[int]) -> list[tuple[int, float]]:
        """Move labels that must be there off one another, but not over the edge."""
        least = self._fit.needed
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

    def _box(self, index: int, middle: float) -> tuple[QRectF, int]:
        metrics = self._fit.metrics
        high = metrics.height()
        if self._rows:
            box = QRectF(0, middle - high / 2, self.width() - high // 5, high)
            return box, RIGHT
        wide = max(self._fit.pitch, float(letter_width(metrics)))
        if self.brief or are_numbers(self._labels):
            text = self._texts[index]
            font = label_font(self._fit.face, text)
            font = sized(font, 1.0, bold=index == self._current)
            wide = QFontMetricsF(font).horizontalAdvance(text)
            wide += letter_width(metrics) / 2
        left = middle - wide / 2
        if self.brief:
            left = max(0.0, min(left, self.width() - wide))
        down = 0 if self.upright else max(0, self.height() - high)
        return QRectF(left, down, wide, self.height() - down), MIDDLE


def _round(step: int) -> int:
    """Return the next of 1, 2, 5, 10, 20, 50, …: numbers are labelled in such steps."""
    scale: int = 10 ** (len(str(step)) - 1)
    steps: tuple[int, ...] = (scale, 2 * scale, 5 * scale, 10 * scale)
    return next(one for one in steps if one >= step)


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
        painter = QPainter(self)
        painter.setPen(axis_ink(self.palette(), self._role))
        painter.rotate(-90)
        text = axis_title(self._text, self.fontMetrics(), self.height())
        box = QRectF(-self.height(), 0, self.height(), self.width())
        painter.drawText(box, Qt.AlignmentFlag.AlignCenter, text)


def axis_ink(palette: QPalette, role: AttentionRole) -> QColor:
    """Return the colour of an axis's title: its role's hue, or a faint one."""
    if role:
        return hue(palette, role)
    return palette.color(QPalette.ColorRole.PlaceholderText)


LEAST = 120  # pixels of a map's sides: smaller ones stretch, or lose labels
ROWS_SHARE, COLUMNS_SHARE = 0.4, 0.35  # of the width and height, at most for labels
FEWEST = 5  # letters of a row's label below which it is left out


class MapRoom(NamedTuple):
    """Where the cells lie, and what stands around them, in pixels."""

    cells: QRect
    left: int  # the row labels' width; 0: there is no room for them
    above: int  # the column labels' height; 0: there is no room for them
    upright: bool  # no column label is turned
    brief: bool  # only marked columns have a label, and the axis has no title


def map_room(
    extent: tuple[int, int],
    whole: QRect,
    stretch: float,
    longest: tuple[int, int],
    type_size: tuple[int, int],
    *,
    numbered: bool,
) -> MapRoom:
    """Share ``whole`` out to cells and labels; ``longest``: the widest row and column.

    Where all labels would leave less than LEAST for the cells, columns are named by
    the marked one alone, then not at all; rows, cut short, then not at all.
    ``type_size``: a line's height and a letter's width; ``numbered``: the columns have
    numbers, which are never turned.
    """
    line, letter = type_size
    wide, high = whole.width(), whole.height()
    left = min(longest[0], int(wide * ROWS_SHARE), wide - line - LEAST)
    left = left if left >= min(longest[0], FEWEST * letter) else 0
    beside = line + left if left else 0
    inside = whole.adjusted(beside, 2 * line, 0, 0)
    pitch = square_cells(extent, inside, stretch).width() / extent[1]
    upright = numbered or longest[1] <= pitch
    above = line if upright else min(longest[1], int(high * COLUMNS_SHARE))
    brief = high - line - above < LEAST
    if brief:
        above = line if high - line >= LEAST else 0
    down = above if brief else line + above
    down = down or (line // 2 if left else 0)  # the first row's label begins higher
    cells = square_cells(extent, whole.adjusted(beside, down, 0, 0), stretch)
    return MapRoom(cells, left, above, upright, brief)


def square_cells(extent: tuple[int, int], within: QRect, stretch: float) -> QRect:
    """Return where ``extent`` (rows, columns) cells lie: at the top left of ``within``.

    They are square where the map is large enough so; ``stretch`` is the largest ratio
    of their sides otherwise.
    """
    rows, columns = extent
    wide, high = max(1, within.width()) / columns, max(1, within.height()) / rows
    across = min(wide, stretch * high) * columns
    down = min(high, stretch * wide) * rows
    across = max(across, min(LEAST, wide * columns))
    down = max(down, min(LEAST, high * rows))
    corner = within.topLeft()
    return QRect(corner.x(), corner.y(), max(1, int(across)), max(1, int(down)))


LONGEST = 14  # characters of a label; more are cut in the middle
LongestLabels = tuple[tuple[str, ...], tuple[str, ...]]  # of a map's rows and columns
TITLED = 20  # lines of a map's width from which its title is large
WIDE_SIZE = 1.2  # of characters that fill a square, beside Latin ones


@lru_cache(maxsize=1024)
def short(label: str) -> str:
    """Cut a long label in the middle."""
    if len(label) <= LONGEST:
        return str(label)
    head = LONGEST // 2
    return f"{label[:head]}…{label[len(label) - (LONGEST - 1 - head) :]}"


@lru_cache(maxsize=1024)
def cut_to(label: str, font: QFont, room: int) -> str:
    """Cut a label to ``room`` pixels."""
    metrics = QFontMetrics(font)
    return metrics.elidedText(label, Qt.TextElideMode.ElideMiddle, room)


def axis_title(title: str, metrics: QFontMetrics, room: int) -> str:
    """Return the title of an axis, or what it is short for, as it fits into ``room``.

    “query: target token that reads” is a query, “model dimension (dim)” a dim.
    """
    name = re.split("[:：]", title, maxsplit=1)[0]
    words, symbol = [*re.split(r" ?[(（]", name, maxsplit=1), ""][:2]
    for text in (title, name, words, symbol.rstrip(")）")):
        if text and metrics.horizontalAdvance(text) <= room:
            return text
    return cut_to_room(words, metrics, room)


def label_font(font: QFont, text: str) -> QFont:
    """Return the font of a label: larger for Chinese, Japanese and Korean characters.

    Their fonts draw them smaller than Latin letters of the same nominal size.
    """
    return sized(font, WIDE_SIZE) if is_wide(text) else font


def title_font(font: QFont, title: str, room: float) -> QFont:
    """Return the font of a map's title: large where it fits, above a large map."""
    large = sized(font, TITLE, bold=True)
    least = TITLED * QFontMetrics(font).height()
    if room < max(least, QFontMetrics(large).horizontalAdvance(title)):
        return sized(font, 1.0, bold=True)
    return large


@lru_cache(maxsize=64)
def labels_width(font: QFont, labels: tuple[str, ...]) -> int:
    """Return the room of the widest label; only the longest few are measured.

    In bold, as the current step's is painted: no label changes its room with the step.
    """
    bold = sized(font, 1.0, bold=True)
    widest = max(
        (
            QFontMetricsF(label_font(bold, text)).horizontalAdvance(text)
            for text in longest(tuple(map(short, labels)))
        ),
        default=0.0,
    )
    return math.ceil(widest + QFontMetricsF(font).averageCharWidth())


@lru_cache(maxsize=64)
def longest(labels: tuple[str, ...]) -> tuple[str, ...]:
    """Return the few labels of the most characters: the widest is among them.

    Of equally long ones the first: so a step seldom changes them.
    """
    return tuple(sorted(dict.fromkeys(labels), key=len, reverse=True)[:3])


@lru_cache(maxsize=64)
def are_numbers(labels: tuple[str, ...]) -> bool:
    """Tell whether all labels are whole numbers, such as those of dimensions."""
    return bool(labels) and all(map(str.isdecimal, labels))


_WIDE = re.compile(
    "[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff01-\uff60\U00020000-\U0003ffff]"
)


def is_wide(text: str) -> bool:
    """Tell whether a character fills a square, as those of Chinese do."""
    return _WIDE.search(text) is not None
