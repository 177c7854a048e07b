"""The captions of small pictures: as large, and as long, as all of them fit."""

from __future__ import annotations

from PySide6.QtCore import QSizeF
from PySide6.QtGui import QFont, QFontMetrics

from visformer.pictures.attention.ranking import Ranking
from visformer.ui.theme import sized

CAPTION = 0.45  # of a picture's height, for its caption
SMALLEST = 0.6  # of the text's size


def fitted(
    ranking: Ranking, font: QFont, room: QSizeF
) -> tuple[QFont, tuple[str, ...]]:
    """Return the captions of all heads that fit into ``room`` pixels, and their font.

    Where there is no room for the measures they are left out, for all heads alike;
    where there is none for the heads' names, all is.
    """
    metrics = QFontMetrics(font)
    most = min(1.0, max(SMALLEST, CAPTION * room.height() / metrics.height()))
    for captions, least in ((ranking.captions, most), (ranking.heads, SMALLEST)):
        wide = max(map(metrics.horizontalAdvance, captions), default=1)
        size = min(most, room.width() / wide)
        if size >= least:
            return sized(font, size), captions
    return font, ()
