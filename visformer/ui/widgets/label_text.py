"""The texts of labels beside a map: cut to what fits, and how wide they are."""

from __future__ import annotations

import math
from functools import lru_cache

from PySide6.QtCore import Qt
from PySide6.QtGui import QFont, QFontMetrics, QFontMetricsF

from visformer.ui.look.theme import TITLE, sized

LONGEST = 14  # characters of a label; more are cut in the middle
LongestLabels = tuple[tuple[str, ...], tuple[str, ...]]  # of a map's rows and columns
TITLED = 20  # lines of a map's width from which its title is large
WIDE_SIZE = 1.2  # of characters that fill a square, beside Latin ones


@lru_cache(maxsize=4096)
def short(label: str) -> str:
    """Cut a long label in the middle."""
    if len(label) <= LONGEST:
        return str(label)
    head = LONGEST // 2
    return f"{label[:head]}…{label[len(label) - (LONGEST - 1 - head) :]}"


@lru_cache(maxsize=4096)
def cut_to(label: str, font: QFont, room: int) -> str:
    """Cut a label to ``room`` pixels."""
    metrics = QFontMetrics(font)
    return metrics.elidedText(label, Qt.TextElideMode.ElideMiddle, room)


def axis_title(title: str, metrics: QFontMetrics, room: int) -> str:
    """Return the title of an axis, or what it is short for, as it fits into ``room``.

    “query: target token that reads” is a query, “model dimension (dim)” a dim.
    """
    name, _colon, _what = title.partition(":")
    words, _open, symbol = name.partition(" (")
    for text in (title, name, words, symbol.rstrip(")")):
        if text and metrics.horizontalAdvance(text) <= room:
            return text
    return metrics.elidedText(words, Qt.TextElideMode.ElideRight, room)


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


@lru_cache(maxsize=2048)
def is_wide(text: str) -> bool:
    return any(
        "\u2e80" <= char <= "\u9fff"
        or "\uac00" <= char <= "\ud7af"
        or "\uf900" <= char <= "\ufaff"
        or "\uff01" <= char <= "\uff60"
        or "\U00020000" <= char <= "\U0003ffff"
        for char in text
    )
