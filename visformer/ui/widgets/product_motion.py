"""A row of one matrix times a column of the next, run through for a quarter second."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer, QVariantAnimation

from visformer.ui.motion import has_motion
from visformer.ui.widgets.heatmap import HeatMap

PRODUCT_MS = 240
AFTER_MS = 30  # by then the picture itself has been painted


class ProductMotion(QObject):
    """Marks the terms of one number of a product, one after the other."""

    def __init__(self, parent: QObject, done: Callable[[], None]) -> None:
        """``done`` marks what is marked while nothing moves."""
        super().__init__(parent)
        self._done = done
        self._maps: tuple[HeatMap, HeatMap] | None = None
        self._row = self._column = self._terms = self._at = 0
        self.running = QVariantAnimation(self)
        self.running.setStartValue(0.0)
        self.running.setEndValue(1.0)
        self.running.setDuration(PRODUCT_MS)
        self.running.valueChanged.connect(self._show)
        self.running.finished.connect(self._end)
        self.waiting = QTimer(self)
        self.waiting.setSingleShot(True)
        self.waiting.setInterval(AFTER_MS)
        self.waiting.timeout.connect(self.running.start)

    def run(
        self, maps: tuple[HeatMap, HeatMap], row: int, column: int, terms: int
    ) -> None:
        """Run through the terms of a row of the first map and a column of the second.

        Nothing happens where motion is not wanted.
        """
        self.stop()
        if terms > 1 and has_motion():
            self._maps, self._row, self._column = maps, row, column
            self._terms, self._at = terms, -1
            self.waiting.start()

    def stop(self) -> None:
        """Leave the marks to whoever draws next."""
        self.waiting.stop()
        self.running.stop()
        self._maps = None

    def _show(self, share: float) -> None:
        at = min(self._terms - 1, int(share * self._terms))
        if self._maps is None or at == self._at:
            return
        self._at = at
        left, right = self._maps
        left.mark((self._row, at), rows=(self._row,), columns=(at,), value=False)
        right.mark((at, self._column), rows=(at,), columns=(self._column,), value=False)

    def _end(self) -> None:
        self._maps = None
        self._done()
