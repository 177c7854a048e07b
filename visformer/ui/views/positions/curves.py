"""Curves: chosen dimensions of the table of positions, with a legend in words."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from PySide6 import QtCore, QtGui, QtWidgets
from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPalette, QPen
from PySide6.QtWidgets import (
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLineEdit,
    QSizePolicy,
    QWidget,
)

from visformer.errors import InputError
from visformer.language import _, sentences
from visformer.pictures.picture import Table
from visformer.pictures.positions import (
    MOST_CURVES,
    Curve,
    Waves,
    curves,
    default_dimensions,
    dimensions_text,
    parse_dimensions,
)
from visformer.program.ahead import import_in_pieces
from visformer.ui.layout import LeastColumn, TurningRow, fill
from visformer.ui.look.theme import FONT_PALETTE, Dressed, letter_width
from visformer.ui.widgets.controls import titled
from visformer.ui.widgets.export import Export
from visformer.ui.widgets.plain_label import paragraph
from visformer.values.arrays import Floats
from visformer.words import dimension_words, position_words

if TYPE_CHECKING:
    from pyqtgraph import AxisItem, GraphicsView, PlotCurveItem, ViewBox

MOST_THICK = 200  # points; thick lines of more points are many times slower in Qt


class Curves(Dressed, QWidget):
    """Chosen dimensions over the positions, with a legend in words."""

    dressed_at = FONT_PALETTE  # which pyqtgraph does not follow

    def __init__(self) -> None:
        super().__init__()
        self._table: Floats | None = None
        self._waves: Waves = "none"
        self._range = (0, 0)
        self._dimensions: tuple[int, ...] = ()
        self.export = Export(self, self.table)
        name = _("curves of the chosen dimensions over the positions")
        self._plot = Plot(name, MOST_CURVES)
        self._plot.widget.setContextMenuPolicy(Qt.ContextMenuPolicy.NoContextMenu)
        self._drawn: tuple[Curve, ...] = ()
        self._line = plotting().InfiniteLine(angle=90)
        self._plot.box.addItem(self._line, ignoreBounds=True)
        self._field = QLineEdit()
        self._field.setAccessibleName(_("dimensions to draw as curves"))
        self._field.textEdited.connect(self._read)
        self._error = paragraph(_("what is wrong with the dimensions"))
        self._legend = [
            (_Swatch(), paragraph(_("curve {number} in words", number=row + 1)))
            for row in range(MOST_CURVES)
        ]
        self._lay_out()
        self.mark(None)
        self._built = True

    def _lay_out(self) -> None:
        title = titled(_("&Dimensions"), self._field)
        line = fill(QHBoxLayout(), title, (self._field, 1))
        legend = QGridLayout()
        legend.setColumnStretch(1, 1)
        for row, (swatch, label) in enumerate(self._legend):
            legend.addWidget(swatch, row, 0)
            legend.addWidget(label, row, 1)
        words = QWidget()
        fill(LeastColumn(words), line, self._error, legend, (None, 1))
        fill(LeastColumn(self), TurningRow((self._plot.widget, 5), (words, 4)))

    def draw(self, table: Floats | None, *, waves: Waves = "none") -> None:
        """Use another table and offer a few dimensions; drawn when a range is set."""
        self._table, self._waves, self._dimensions = table, waves, ()
        if table is not None:
            self._dimensions = default_dimensions(table.shape[1], waves)
        self._field.setText(dimensions_text(self._dimensions))
        self._complain("")
        if table is None:
            self._redraw()

    def set_range(self, first: int, last: int) -> None:
        """Draw a range of positions."""
        self._range = first, last
        self._redraw()

    def mark(self, position: int | None) -> None:
        """Mark the position that the mouse is on in the heat map."""
        self._line.setVisible(position is not None)
        if position is not None:
            self._line.setPos(position)

    def _dress(self) -> None:
        self._redraw()

    def table(self) -> Table | None:
        """Return the numbers drawn: one row per position, one column per dimension."""
        if not self._drawn:
            return None
        rows = tuple(position_words(int(p)) for p in self._drawn[0].positions)
        columns = tuple(dimension_words(curve.dimension) for curve in self._drawn)
        values = np.stack([curve.values for curve in self._drawn], axis=1)
        return Table(rows, columns, values)

    def _read(self, text: str) -> None:
        """Draw the dimensions typed, or say what is wrong with them."""
        if self._table is None:
            return
        try:
            self._dimensions = parse_dimensions(text, self._table.shape[1])
        except InputError as error:
            kept = _("The curves shown are the previous ones.")
            self._complain(sentences((str(error), kept)))
            return
        self._complain("")
        self._redraw()

    def _complain(self, sentence: str) -> None:
        self._error.setText(sentence)
        self._error.setVisible(bool(sentence))

    def _redraw(self) -> None:
        self._plot.dress(self)
        self._line.setPen(self.palette().color(QPalette.ColorRole.Text))
        self._drawn = self._chosen()
        styles = pens(self.palette(), thin=self._range[1] - self._range[0] > MOST_THICK)
        for row, item in enumerate(self._plot.curves):
            if row < len(self._drawn):
                curve = self._drawn[row]
                item.setData(curve.positions, curve.values, pen=styles[row])
            else:
                item.clear()
        metrics = self.fontMetrics()
        self._plot.widget.setMinimumSize(
            30 * letter_width(metrics), 8 * metrics.lineSpacing()
        )
        self._plot.box.setXRange(*self._range, padding=0.01)
        self._fill_legend(self._drawn, styles)

    def _chosen(self) -> tuple[Curve, ...]:
        if self._table is None:
            return ()
        return curves(self._table, self._dimensions, *self._range, waves=self._waves)

    def _fill_legend(self, drawn: tuple[Curve, ...], styles: list[QPen]) -> None:
        for row, (swatch, label) in enumerate(self._legend):
            used = row < len(drawn)
            swatch.setVisible(used)
            label.setVisible(used)
            label.setText(drawn[row].words if used else "")
            swatch.set_pen(styles[row])


class _Swatch(QWidget):
    """A sample of a curve's line, for the legend."""

    def __init__(self) -> None:
        super().__init__()
        self._pen = QPen()
        fixed = QSizePolicy.Policy.Fixed
        self.setSizePolicy(fixed, QSizePolicy.Policy.Preferred)

    def sizeHint(self) -> QSize:
        line = self.fontMetrics().height()
        return QSize(3 * line, line)

    def set_pen(self, pen: QPen) -> None:
        self._pen = pen
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setPen(self._pen)
        middle = self.height() // 2
        painter.drawLine(0, middle, self.width(), middle)


# Safe for colour-blind users, on light and on dark ground (after Okabe and Ito);
# the second four curves use the same colours, dashed.
LIGHT_GROUND = ("#0072b2", "#d55e00", "#00795a", "#a8437f")
DARK_GROUND = ("#56b4e9", "#e69f00", "#2fc79a", "#e08fbe")
LEAST_RANGE = 0.01  # of the values from bottom to top
_PIECES = import_in_pieces("pyqtgraph")  # who needs it does those that are left


def plotting() -> Any:
    """Import pyqtgraph, once there is something to plot: it takes longer than Qt."""
    while _import_piece():
        pass
    import pyqtgraph

    pyqtgraph.setConfigOptions(antialias=True)
    return pyqtgraph


def plotting_in_pieces() -> Iterator[None]:
    """Import pyqtgraph in short pieces.

    It names every class of Qt, and PySide makes each when it is first named.
    """
    for module in (QtCore, QtGui, QtWidgets):
        for name in dir(module):
            getattr(module, name)
            yield
    while _import_piece():
        yield


def _import_piece() -> bool:
    """Import a piece; False if there is none. What handles exceptions stays."""
    hooks = sys.excepthook, threading.excepthook
    try:
        return next(_PIECES, None) is not None
    finally:
        sys.excepthook, threading.excepthook = hooks


class Plot:
    """Curves above an axis of positions or dimensions, without menus and mouse.

    It is made of pyqtgraph's parts, but none is its PlotItem: the menus of one are a
    hundred widgets.
    """

    def __init__(self, name: str, curves: int) -> None:
        """``name``: the accessible name; the ``curves`` have no points yet."""
        parts = plotting()
        self.widget: GraphicsView = parts.GraphicsView()  # takes its place in a layout
        self.widget.setAccessibleName(name)
        ignored = QSizePolicy.Policy.Ignored
        self.widget.setSizePolicy(ignored, ignored)
        self.widget.setFrameShape(QFrame.Shape.NoFrame)
        self.box: ViewBox = parts.ViewBox(enableMenu=False, enableMouse=False)
        self.box.setLimits(minYRange=LEAST_RANGE)  # zeros are a line at 0
        grid = parts.GraphicsLayout()
        grid.setSpacing(0)
        grid.setContentsMargins(1, 1, 1, 1)
        grid.addItem(self.box, 0, 1)
        self._axes: dict[str, AxisItem] = {}
        for side, row, column in (("left", 0, 0), ("bottom", 1, 1)):
            axis = self._axes[side] = parts.AxisItem(side)
            axis.enableAutoSIPrefix(False)  # a scale such as ×0.001 is not read
            axis.linkToView(self.box)
            grid.addItem(axis, row, column)
        self.widget.setCentralItem(grid)
        self.curves: list[PlotCurveItem] = []
        self.have(curves)

    def have(self, curves: int) -> None:
        """Add curves without points until there are so many."""
        while len(self.curves) < curves:
            curve = plotting().PlotCurveItem(connect="finite")
            self.box.addItem(curve)
            self.curves.append(curve)

    def dress(self, widget: QWidget, bottom: str = "", left: str = "") -> None:
        """Take up a widget's colours and font, and name the axes.

        By default they are position and value.
        """
        titles = {"bottom": bottom or _("position (pos)"), "left": left or _("value")}
        palette = widget.palette()
        self.widget.setBackground(palette.color(QPalette.ColorRole.Base))
        size = {"font-size": f"{widget.font().pointSizeF():g}pt"}
        for side, axis in self._axes.items():
            axis.setLabel(titles[side], **size)
            axis.setPen(palette.color(QPalette.ColorRole.Text))
            axis.setTextPen(palette.color(QPalette.ColorRole.Text))
            axis.setTickFont(widget.font())

    def cache(self) -> None:
        """Keep what is painted of axes and curves, for a line that often moves."""
        for item in (*self._axes.values(), *self.curves):
            item.setCacheMode(item.CacheMode.DeviceCoordinateCache)

    def tick(self, names: Mapping[float, str]) -> None:
        """Name places of the axis below; names that would overlap are left out."""
        self._axes["bottom"].setTicks([[*names.items()]])


def pens(palette: QPalette, *, thin: bool) -> list[QPen]:
    """Return one pen per curve: four colours, solid, then the same dashed."""
    dark = palette.color(QPalette.ColorRole.Base).lightness() < 128
    found = []
    for style in (Qt.PenStyle.SolidLine, Qt.PenStyle.DashLine):
        for colour in DARK_GROUND if dark else LIGHT_GROUND:
            pen = QPen(QColor(colour), 1 if thin else 2, style)
            pen.setCosmetic(True)  # its width is in pixels, not in units of the axes
            found.append(pen)
    return found
