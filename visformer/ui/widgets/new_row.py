"""A row that has just joined a map glows for a moment."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt, QTimer, QVariantAnimation
from PySide6.QtGui import QPainter, QPaintEvent, QPalette
from PySide6.QtWidgets import QWidget

from visformer.pictures.picture import Matrix
from visformer.ui.motion import has_motion
from visformer.ui.widgets.canvas import Canvas

GLOW_MS = 200
QUIET_MS = 40  # without another step: what comes faster does not glow
STRONGEST = 0.5  # opacity of the glow at its beginning


class NewRow(QWidget):
    """Lies over a row of cells; the row below it is painted and right already."""

    def __init__(self, canvas: Canvas) -> None:
        super().__init__(canvas)
        self._canvas = canvas
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.hide()
        self._cells = QRectF()
        self.quiet = QTimer(self, singleShot=True, interval=QUIET_MS)
        self.quiet.timeout.connect(self._glow)
        self.glow = QVariantAnimation(self)
        self.glow.setStartValue(0.0)
        self.glow.setEndValue(1.0)
        self.glow.setDuration(GLOW_MS)
        self.glow.valueChanged.connect(lambda _: self.update())
        self.glow.finished.connect(self.hide)

    def start(self, cells: QRectF) -> None:
        """Glow over ``cells`` of the canvas, unless pictures stand still."""
        self.stop()
        if has_motion():
            self._cells = cells
            self.quiet.start()

    def _glow(self) -> None:
        place = self._canvas.place(self._cells)
        if place.height() >= 2:
            self.setGeometry(place)
            self.show()
            self.glow.start()

    def stop(self) -> None:
        """End at once: another picture is there."""
        self.quiet.stop()
        if not self.isHidden():
            self.glow.stop()
            self.hide()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint a light that runs along the row and goes out; first nothing."""
        time = float(self.glow.currentValue() or 0.0)
        if not time:
            return
        painter = QPainter(self)
        painter.setOpacity(STRONGEST * (1 - time))
        accent = self.palette().color(QPalette.ColorRole.Highlight)
        painter.fillRect(QRectF(0, 0, self.width() * time, self.height()), accent)


def has_grown(before: Matrix | None, now: Matrix | None) -> bool:
    """Tell whether a step has added the last row of a map."""
    if before is None or now is None or now.current is None:
        return False
    rows = len(now.rows)
    joined = len(before.rows) + 1 == rows == now.current + 1
    return joined and before.title == now.title
