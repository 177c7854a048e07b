"""The texts of labels beside a map: cut to what fits, and how wide they are."""

from __future__ import annotations

import math
from functools import lru_cache

from PySide6.QtCore import Qt
from PySide6.QtGui import QFont, QFontMetrics, QFontMetricsF

from visformer.pictures.picture import ARROW, FED_ARROW, TokenPair, bare
from visformer.ui.theme import TITLE, sized

LONGEST = 14  # characters of a label; more are cut in the middle
LongestLabels = tuple[tuple[str, ...], tuple[str, ...]]  # of a map's rows and columns
TITLED = 20  # lines of a map's width from which its title is large
WIDE_SIZE = 1.2  # of characters that fill a square, beside Latin ones


@lru_cache(maxsize=4096, typed=True)  # a pair may be equal to a plain label
def short(label: str) -> str:
    """Cut a long label in the middle; of a pair, each token."""
    if isinstance(label, TokenPair):
        read, next = (_cut(token, LONGEST - 5) for token in (label.read, label.next))
        return TokenPair(read, next, label.fed)
    return _cut(label, LONGEST)


def _cut(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    head = longest // 2
    return f"{text[:head]}…{text[len(text) - (longest - 1 - head) :]}"


@lru_cache(maxsize=4096, typed=True)
def cut_to(label: str, font: QFont, room: int) -> str:
    """Cut a label to ``room`` pixels; of a pair each token, so that its arrow stays.

    Where no letter of either would be left, only the next token is written.
    """
    metrics = QFontMetrics(font)
    if metrics.horizontalAdvance(label) <= room:
        return label
    if not isinstance(label, TokenPair):
        return metrics.elidedText(label, Qt.TextElideMode.ElideMiddle, room)
    arrow = (FED_ARROW if label.fed else ARROW).strip()
    left = max(0, room - metrics.horizontalAdvance(arrow))
    tokens = label.read, label.next
    wide = [metrics.horizontalAdvance(token) for token in tokens]
    rooms = [max(left // 2, left - other) for other in reversed(wide)]
    read, next = (_begun(metrics, *one) for one in zip(tokens, rooms, strict=True))
    if len(read) > 1 or read == label.read:
        return f"{read}{arrow}{next}"
    return f"{arrow}{_begun(metrics, label.next, left)}"


def _begun(metrics: QFontMetrics, token: str, room: int) -> str:
    """Return a token, or as many of its first letters as fit."""
    if metrics.horizontalAdvance(token) <= room:
        return token
    begun = metrics.elidedText(bare(token), Qt.TextElideMode.ElideRight, room)
    return begun.replace("……", "…")  # the token was cut in the middle already


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
