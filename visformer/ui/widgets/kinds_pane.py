"""Where the pictures of the Attention tab stand: one large, two small, all heads."""

from __future__ import annotations

from PySide6.QtCore import QRect, QSize
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from visformer.ui.theme import gap
from visformer.ui.widgets.map_room import LEAST
from visformer.values.facts import Kind

AROUND = 9  # lines that title, labels and colour bar take around a map
TITLE_LINES = 4.7  # and the words around a small one, which has no labels
LARGE_SHARE = 0.5, 0.68  # of the width, the least and the most for the large picture
HIGH_SHARE = 0.6  # of the height, where the others stand below it
SMALL_SHARE = 0.5  # of the height beside it, at most, for the small pictures


class KindsPane(QWidget):
    """The focused kind large, the others small beside it, below them the heads.

    In a place that is higher than wide the small ones and the heads stand below.
    """

    def __init__(self, panels: dict[Kind, QWidget], heads: QWidget) -> None:
        super().__init__()
        # a picture that is made large leaves its slot, and comes back to it
        self._slots = {kind: _Slot(self, panel) for kind, panel in panels.items()}
        self._heads = _Slot(self, heads)
        self._kinds: tuple[Kind, ...] = tuple(panels)
        self._focused: Kind = "cross"
        self._shape = (1, 1)
        self._folded = False

    def draw(
        self, kinds: tuple[Kind, ...], focused: Kind, shape: tuple[int, int]
    ) -> None:
        """Arrange these kinds; ``shape``: rows and columns of the focused one."""
        wanted = kinds, focused, shape
        if wanted == (self._kinds, self._focused, self._shape):
            return
        if kinds != self._kinds:
            for kind, slot in self._slots.items():
                slot.setVisible(kind in kinds)
            self.updateGeometry()
        self._kinds, self._focused, self._shape = wanted
        self._place()

    def fold(self, folded: bool) -> None:
        """Leave one line to the heads, or their room."""
        if folded != self._folded:
            self._folded = folded
            self._place()

    def minimumSizeHint(self) -> QSize:
        """Ask for room for every map at its least size."""
        line, off = self.fontMetrics().height(), gap(self)
        large = LEAST + AROUND * line
        others = len(self._kinds) > 1
        wide = large + (2 * (LEAST + 3 * off) if others else 0)
        heads = self._heads.sizeHint().height() if self._folded else 7 * line
        beside = LEAST + round(TITLE_LINES * line) + heads if others else 0
        return QSize(wide, max(large, beside))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._place()

    def _place(self) -> None:
        whole, off = self.rect(), gap(self)
        line = self.fontMetrics().height()
        small = [kind for kind in self._kinds if kind != self._focused]
        if whole.width() >= whole.height():
            least, most = (round(share * whole.width()) for share in LARGE_SHARE)
            cell = max(1, whole.height() - AROUND * line) / max(1, self._shape[0])
            wide = round(cell * self._shape[1]) + AROUND * line
            beside = len(small) * (LEAST + 3 * off)
            wide = max(least, min(most, wide, whole.width() - beside))
            large = QRect(0, 0, wide, whole.height())
            rest = QRect(wide + off, 0, whole.width() - wide - off, whole.height())
        else:
            high = round(HIGH_SHARE * whole.height())
            large = QRect(0, 0, whole.width(), high)
            rest = QRect(0, high + off, whole.width(), whole.height() - high - off)
        if self._focused in self._slots:
            self._slots[self._focused].setGeometry(large)
        heads = self._place_small(small, rest, round(TITLE_LINES * line))
        self._heads.setGeometry(heads)

    def _place_small(self, small: list[Kind], room: QRect, words: int) -> QRect:
        """Place the small pictures; return what is left for the heads."""
        off, header = gap(self), self._heads.sizeHint().height()
        if not small:
            return room
        wide = (room.width() - off * (len(small) - 1)) // len(small)
        most = round(SMALL_SHARE * room.height())
        high = min(wide + words, max(LEAST + words, most))
        stacked = (room.height() - header - off * len(small)) // len(small)
        above = self._folded and stacked >= LEAST + words  # one above the other
        if above:
            wide, high = room.width(), stacked
        elif self._folded:
            high = room.height() - header - off
        x, y = room.x(), room.y()
        for kind in small:
            self._slots[kind].setGeometry(x, y, wide, high)
            if above:
                y += high + off
            else:
                x += wide + off
        top = y if above else room.y() + high + off
        return QRect(room.x(), top, room.width(), room.bottom() - top + 1)


class _Slot(QWidget):
    """The place of one picture."""

    def __init__(self, parent: QWidget, picture: QWidget) -> None:
        super().__init__(parent)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(picture)
