"""WordMap: tokens as points to walk among, with the mouse or with the keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QEvent, QObject, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent, QPalette, QPen
from PySide6.QtWidgets import QWidget

from visformer.language import _
from visformer.pictures.word_points import (
    WordPoint,
    axis_words,
    map_table,
    points,
)
from visformer.ui.views.positions.curves import Plot, plotting
from visformer.ui.widgets.export import Export
from visformer.ui.widgets.labels import short
from visformer.ui.widgets.plain_label import written
from visformer.values.near_words import NearWords

if TYPE_CHECKING:
    from pyqtgraph import ScatterPlotItem, TextItem

MARGIN = 0.12  # of the range, around the points
DOT = 9  # pixels
# where a label may stand: its anchor, and its corner from the point, in its own sizes
BESIDE = (
    ((0.0, 0.5), (0.0, -0.5)),
    ((1.0, 0.5), (-1.0, -0.5)),
    ((0.5, 1.0), (-0.5, -1.0)),
    ((0.5, 0.0), (-0.5, 0.0)),
)


class WordMap(QObject):
    """A scatter plot of pyqtgraph; a label that would lie on another is left out."""

    chosen = Signal(int)  # the id of a token that is clicked, or taken with Enter
    pointed = Signal(object)  # a WordPoint, or None

    def __init__(self) -> None:
        super().__init__()
        self._points: tuple[WordPoint, ...] = ()
        self._near: NearWords | None = None
        self.at = 0  # the point that the keys are on
        self._plot = Plot(_("map of the tokens: arrow keys and Enter walk"), 0)
        self.widget: QWidget = self._plot.widget
        parts = plotting()
        self._dots: ScatterPlotItem = parts.ScatterPlotItem(
            size=DOT,
            hoverable=True,
            hoverSize=DOT + 4,
            tip=lambda x, y, data: data.words,
        )
        self._dots.sigClicked.connect(self._click)
        self._dots.sigHovered.connect(self._hover)
        self._plot.box.addItem(self._dots)
        self._labels: list[TextItem] = []
        self._text = parts.TextItem
        self.export = Export(self.widget, lambda: map_table(self._near))
        self._plot.box.setAspectLocked(True)  # distances are alike in all directions
        self._plot.box.sigRangeChanged.connect(self._place)
        self.widget.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.widget.installEventFilter(self)

    def draw(self, near: NearWords | None) -> None:
        """Show tokens; the keys begin at the one asked for."""
        self._near, self._points, self.at = near, points(near), 0
        if near is not None and len(near.places):
            least, most = near.places.min(0).tolist(), near.places.max(0).tolist()
            wide, high = (max(b - a, 1e-6) for a, b in zip(least, most, strict=True))
            left, low = least
            self._plot.box.setRange(QRectF(left, low, wide, high), padding=MARGIN)
        self.dress()

    def dress(self) -> None:
        """Take up the widget's colours and font, and draw all again."""
        self._plot.dress(self.widget, *axis_words(self._near))
        inks = self._inks()
        spots: list[dict[str, Any]] = [
            {
                "pos": (point.x, point.y),
                "data": point,
                "brush": inks[at == 0],
                "pen": QPen(inks[True], 2) if at == self.at else None,
                "size": DOT + 5 * (at in (0, self.at)),
            }
            for at, point in enumerate(self._points)
        ]
        self._dots.setData(spots)
        self._place()

    def _inks(self) -> tuple[QColor, QColor]:
        """Return the colours of the others and of the token asked for."""
        palette = self.widget.palette()
        roles = QPalette.ColorRole.Text, QPalette.ColorRole.Highlight
        return palette.color(roles[0]), palette.color(roles[1])

    def _place(self) -> None:
        """Write the labels that have room: the token in focus, then the nearest.

        One beside, above or below its point, where it lies on no other label.
        """
        for label in self._labels:
            self._plot.box.removeItem(label)
        self._labels, taken = [], [self._dot(point) for point in self._points]
        order = sorted(range(len(self._points)), key=lambda at: (at != self.at, at))
        names = written(tuple(point.label for point in self._points))
        metrics, inks = self.widget.fontMetrics(), self._inks()
        room = QRectF(0, 0, self._plot.box.width(), self._plot.box.height())
        for at in order:
            point, name = self._points[at], short(names[at])
            own = self._dot(point)
            wide, high = metrics.horizontalAdvance(name) + 8, metrics.height()
            for anchor, (right, down) in BESIDE:
                gap = own.width() / 2 * (1 if anchor[0] == 0 else -1)
                corner = own.center()
                x = corner.x() + right * wide + (gap if anchor[1] == 0.5 else 0)
                y = corner.y() + down * high
                if anchor[1] != 0.5:
                    y += own.height() / 2 * (1 if anchor[1] == 0 else -1)
                box = QRectF(x, y, wide, high)
                others = (one for one in taken if one != own)
                if room.contains(box) and not any(map(box.intersects, others)):
                    self._write(name, box, inks[at == 0])
                    taken.append(box)
                    break

    def _write(self, name: str, box: QRectF, ink: QColor) -> None:
        """Write a label into a box of pixels of the plot."""
        view = self._plot.box
        text = self._text(name, color=ink, anchor=(0.5, 0.5))
        text.setFont(self.widget.font())
        text.setAcceptedMouseButtons(Qt.MouseButton.NoButton)
        view.addItem(text, ignoreBounds=True)
        centre = view.mapToView(box.center())
        text.setPos(centre.x(), centre.y())
        self._labels.append(text)

    def _dot(self, point: WordPoint) -> QRectF:
        """Return where a point lies, in pixels of the plot."""
        (left, right), (low, high) = self._plot.box.viewRange()
        x = (point.x - left) / (right - left) * self._plot.box.width()
        y = (high - point.y) / (high - low) * self._plot.box.height()
        half = (DOT + 4) / 2
        return QRectF(x - half, y - half, 2 * half, 2 * half)

    @property
    def named(self) -> tuple[str, ...]:
        """The labels that are written."""
        return tuple(label.toPlainText() for label in self._labels)

    # ---- what the user does ----------------------------------------------------

    def walk(self, by: int) -> None:
        """Go to the next point or the one before, best first."""
        if self._points:
            self.at = (self.at + by) % len(self._points)
            self.dress()
            self.pointed.emit(self._points[self.at])

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Walk with the arrow keys; Enter goes to the token."""
        if event.type() == QEvent.Type.FontChange:  # also of a map that is presented
            self.dress()
        if event.type() != QEvent.Type.KeyPress or not isinstance(event, QKeyEvent):
            return False
        steps = {Qt.Key.Key_Down: 1, Qt.Key.Key_Right: 1}
        steps |= {Qt.Key.Key_Up: -1, Qt.Key.Key_Left: -1}
        key = Qt.Key(event.key())
        if key in steps and not event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier:
            self.walk(steps[key])
            return True
        if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self._points:
            self.chosen.emit(self._points[self.at].id)
            return True
        return False

    def _click(self, _dots: object, found: Any) -> None:
        if len(found):
            self.chosen.emit(found[0].data().id)

    def _hover(self, _dots: object, found: Any) -> None:
        self.pointed.emit(found[0].data() if len(found) else None)
