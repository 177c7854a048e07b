"""The small sign of a kind of attention, before the title of its picture."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize
from PySide6.QtGui import QPainter, QPaintEvent, QPalette
from PySide6.QtWidgets import QSizePolicy, QWidget

from visformer.ui.icons import paint_sign
from visformer.values.facts import Kind

SIDE = 0.7  # of a line


class KindSign(QWidget):
    """A full square, a lower triangle, or a square between two bars."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._kind: Kind | None = None
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.hide()

    def draw(self, kind: Kind | None) -> None:
        """Show the sign of a kind; None hides it."""
        if kind != self._kind:
            self._kind = kind
            self.setVisible(kind is not None)
            self.update()

    def sizeHint(self) -> QSize:
        side = round(SIDE * self.fontMetrics().height())
        return QSize(side, side)

    def paintEvent(self, event: QPaintEvent) -> None:
        if self._kind is not None:
            ink = self.palette().color(QPalette.ColorRole.WindowText)
            paint_sign(QPainter(self), self._kind, QRectF(self.rect()), ink)
