"""The button in the corner of a picture, which covers no word of it."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QEvent, QMargins, QObject, QPoint, QRect, QSize, Qt
from PySide6.QtGui import QImage, QPainter, QPaintEvent, QPalette, QRegion
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QLineEdit,
    QPushButton,
    QToolButton,
    QWidget,
)

from visformer.ui.layout import SingleShot
from visformer.ui.look import icons
from visformer.ui.look.theme import is_over
from visformer.values.arrays import Floats

EDGE = 2  # pixels between it and what is painted
CONTROLS = QCheckBox, QComboBox, QLineEdit, QPushButton, QToolButton
REST_MS = 200  # without anything new in the picture, before another place is sought


class CornerButton(QToolButton):
    """Lies on a picture, where nothing is painted, also when the picture changes."""

    def __init__(self, picture: QWidget) -> None:
        super().__init__(picture)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setAutoRaise(True)
        self._picture, self._looking = picture, False
        self._rest = SingleShot(self, self._rested, REST_MS)
        picture.installEventFilter(self)

    def offer(self, icon: str, name: str) -> None:
        """Appear with an icon, and a name as its tooltip."""
        self.setToolTip(name)
        self.setAccessibleName(name)
        icons.dress(self, icon)
        self.show()
        self.raise_()
        self._settle()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Paint and self.isVisible() and not self._looking:
            self._rest.start()
        return False

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint nothing while a place is sought: what is below counts."""
        if self._looking:
            return
        with QPainter(self) as painter:
            painter.fillRect(
                self.rect(), self.palette().color(QPalette.ColorRole.Window)
            )
        super().paintEvent(event)

    @staticmethod
    def leave(picture: QWidget) -> None:
        """Hide the button of a picture until the mouse comes to it again."""
        children = Qt.FindChildOption.FindDirectChildrenOnly
        for button in picture.findChildren(CornerButton, options=children):
            button.hide()

    def _rested(self) -> None:
        if not is_over(self._picture):
            self.hide()
        elif not self.underMouse():
            self._settle()

    def _settle(self) -> None:
        self.adjustSize()
        self._looking = True
        self.move(free_place(self._picture, self.size()))
        self._looking = False


def free_place(picture: QWidget, size: QSize) -> QPoint:
    """Return where something of this size covers least of a picture, in its pixels.

    It is sought from the top right corner to the left, then down the right edge: the
    first place where there are straight lines at most, else the one with the least
    contrast. It lies on no control where there is another place.
    """
    room, edges = picture.rect(), QMargins(EDGE, EDGE, EDGE, EDGE)
    size = size.grownBy(edges).boundedTo(room.size())
    top = QRect(0, 0, room.width(), size.height())
    right = QRect(room.width() - size.width(), 0, size.width(), room.height())
    taken = [
        QRect(control.mapTo(picture, QPoint()), control.size())
        for control in picture.findChildren(QWidget)
        if isinstance(control, CONTROLS) and control.isVisible()
        if not isinstance(control, CornerButton)
    ]
    across = _contrasts(_contrast(picture, top, taken).sum(0), size.width())[::-1]
    down = _contrasts(_contrast(picture, right, taken).sum(1), size.height())
    best = int(np.concatenate([across, down]).argmin())
    if best < len(across):
        place = QPoint(len(across) - 1 - best, 0)
    else:
        place = QPoint(right.left(), best - len(across))
    return place + QPoint(EDGE, EDGE)


def _contrasts(lines: Floats, length: int) -> Floats:
    """Return the contrast in each piece of ``length`` lines, from the first line on."""
    result: Floats = np.lib.stride_tricks.sliding_window_view(lines, length).sum(-1)
    return result


def _contrast(picture: QWidget, strip: QRect, taken: list[QRect]) -> Floats:
    """Return how much pixels differ from their neighbours both ways, [height, width].

    Straight lines do not, words do. It is a sum over red, green and blue (0 to 255
    each), and without bound where a place is ``taken``.
    """
    image = QImage(strip.size(), QImage.Format.Format_RGB32)
    # a view of a scene has another ``render`` of its own
    QWidget.render(picture, image, QPoint(), QRegion(strip))
    seen = np.frombuffer(image.constBits(), np.uint8)
    seen = seen.reshape(image.height(), image.width(), 4)[:, :, :3].astype(np.float32)
    found = np.zeros(seen.shape[:2], np.float32)
    from_left, from_above = (
        np.abs(np.diff(seen, axis=axis)).sum(-1) for axis in (1, 0)
    )
    found[1:, 1:] = np.minimum(
        from_left[1:] + from_left[:-1], from_above[:, 1:] + from_above[:, :-1]
    )
    for place in taken:
        place = place.intersected(strip).translated(-strip.topLeft())
        rows = slice(place.top(), place.bottom() + 1)
        found[rows, place.left() : place.right() + 1] = np.inf
    return found
