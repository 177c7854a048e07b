"""TokenCanvas: a picture of two rows of tokens that follows the mouse."""

from __future__ import annotations

from typing import NamedTuple

from PySide6.QtCore import QEvent, QPointF, Qt, Signal
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from visformer.pictures.look import TokenRole


class SideToken(NamedTuple):
    """A token of the queries or of the keys."""

    side: TokenRole
    place: int  # in its sentence


class TokenCanvas(QWidget):
    """Reports the token under the mouse as (side, index)."""

    pointed = Signal(object)  # a SideToken or None
    clicked = Signal(object)  # the same

    def __init__(self) -> None:
        super().__init__()
        self._under: SideToken | None = None
        self.setMouseTracking(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)

    def token_at(self, at: QPointF) -> SideToken | None:
        """Return the token at a point."""
        raise NotImplementedError

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Report the token under the mouse."""
        self._point(self.token_at(event.position()))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Report the token that is clicked."""
        if event.button() == Qt.MouseButton.LeftButton:
            self.clicked.emit(self.token_at(event.position()))

    def leaveEvent(self, event: QEvent) -> None:
        """Nothing is under the mouse."""
        self._point(None)

    def _point(self, at: SideToken | None) -> None:
        if at != self._under:
            self._under = at
            self.pointed.emit(at)
