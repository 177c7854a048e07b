"""TurningRow: widgets beside each other where there is room, else below each other."""

from __future__ import annotations

from PySide6.QtCore import QSize
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QWidget

from visformer.ui.widgets.least_size import LeastRow

LEAST_WORDS = 32  # letters: the least width of words that stand beside fields


class TurningRow(QWidget):
    """Asks for the width of its widest part; a row needs ``room`` times the sum."""

    def __init__(self, *parts: tuple[QWidget, int], room: float = 1.0) -> None:
        """``parts``: widgets, each with its share of the space."""
        super().__init__()
        self._room = room
        self._below = False  # whatever room there is
        self._parts = tuple(part for part, _share in parts)
        self._row = LeastRow(self)
        self._row.setContentsMargins(0, 0, 0, 0)
        for part, share in parts:
            self._row.addWidget(part, share)

    @property
    def beside(self) -> bool:
        """Whether the parts stand beside each other."""
        return self._row.direction() == QBoxLayout.Direction.LeftToRight

    def minimumSizeHint(self) -> QSize:
        """As wide as the widest part."""
        widest = max((width for width in self._widths()), default=0)
        return QSize(widest, super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Put the parts beside each other or below each other."""
        super().resizeEvent(event)
        self._turn()

    def keep_below(self, *, below: bool) -> None:
        """Leave the parts below each other, also where they have room beside."""
        self._below = below
        self._turn()

    def _turn(self) -> None:
        has_room = self.width() >= self._room * sum(self._widths())
        beside = has_room and not self._below
        if beside != self.beside:
            way = QBoxLayout.Direction
            self._row.setDirection(way.LeftToRight if beside else way.TopToBottom)

    def _widths(self) -> list[int]:
        return [
            part.minimumSizeHint().expandedTo(part.minimumSize()).width()
            for part in self._parts
            if not part.isHidden()
        ]
