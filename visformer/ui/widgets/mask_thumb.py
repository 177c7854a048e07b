"""MaskThumb: a mask at thumb size, or in words where it hides nothing."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QEvent, QRect, QSize, Qt
from PySide6.QtGui import QImage, QPainter, QPaintEvent, QPalette, QPen
from PySide6.QtWidgets import QAbstractButton, QSizePolicy

from visformer.language import N_, _
from visformer.pictures.codes import codes
from visformer.pictures.picture import Matrix
from visformer.ui import theme
from visformer.ui.pointer import is_over
from visformer.ui.widgets.colour_map import colour_table, image_of
from visformer.ui.widgets.plain_tip import plain_tip

LINES = 4.5  # of text: the height and the width of a thumb
NOTHING_HIDDEN = N_("hides nothing")
NO_CELLS_YET = N_("no cells yet")


class MaskThumb(QAbstractButton):
    """A button with the mask on it; checked while that mask is the large one."""

    def __init__(self) -> None:
        super().__init__()
        self.setCheckable(True)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self._matrix: Matrix | None = None
        self.said = ""  # in place of a mask without cells, or that hides none
        self._image: QImage | None = None

    def draw(self, matrix: Matrix | None, words: str) -> None:
        """Show a mask; ``words`` tell what it hides."""
        if words != self.accessibleDescription():
            self.setToolTip(plain_tip(words))
            self.setAccessibleDescription(words)
        said, before = self.said, self._matrix
        self._matrix, self.said = matrix, _said(matrix)
        if self.said != said or not (said or _is_same(matrix, before)):
            self._image = None
            self.update()

    def sizeHint(self) -> QSize:
        side = round(LINES * self.fontMetrics().lineSpacing())
        return QSize(side, side)

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the mask in its proportions, or what there is to say of it."""
        painter, palette = QPainter(self), self.palette()
        box = self.rect().adjusted(2, 2, -3, -3)
        if self.said:
            painter.setFont(theme.sized(self.font(), theme.CAPTION))
            painter.setPen(palette.color(QPalette.ColorRole.PlaceholderText))
            flags = Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap
            painter.drawText(box.adjusted(2, 2, -2, -2), flags, self.said)
        elif self._matrix is not None:
            rows, columns = self._matrix.values.shape
            size = QSize(columns, rows).scaled(
                box.size(), Qt.AspectRatioMode.KeepAspectRatio
            )
            place = QRect(0, 0, max(1, size.width()), max(1, size.height()))
            place.moveCenter(box.center())
            painter.drawImage(place, self._painted(palette))
        chosen = self.isChecked()
        role = QPalette.ColorRole.Highlight if chosen else QPalette.ColorRole.Mid
        framed = chosen or self.hasFocus() or is_over(self)
        if framed and not chosen:
            role = QPalette.ColorRole.Highlight
        painter.setPen(QPen(palette.color(role), 3 if chosen else 1))
        painter.drawRect(box)

    def changeEvent(self, event: QEvent) -> None:
        """Follow palette and font."""
        super().changeEvent(event)
        self._image = None
        if event.type() == QEvent.Type.FontChange:
            self.updateGeometry()

    def _painted(self, palette: QPalette) -> QImage:
        if self._image is None and self._matrix is not None:
            cells = codes(self._matrix.shade, self._matrix.masked)
            self._image = image_of(cells, colour_table(palette))
        assert self._image is not None
        return self._image


def _said(matrix: Matrix | None) -> str:
    if matrix is None:
        return ""
    if not matrix.values.size:
        return _(NO_CELLS_YET)
    return _(NOTHING_HIDDEN) if matrix.values.all() else ""


def _is_same(one: Matrix | None, other: Matrix | None) -> bool:
    """Tell whether two masks are painted alike."""
    if one is None or other is None:
        return one is other
    return np.array_equal(one.values, other.values)
