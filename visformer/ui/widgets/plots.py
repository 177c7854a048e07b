"""Plots: pyqtgraph's, in the colours and the font of the window, imported when used."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from PySide6 import QtCore, QtGui, QtWidgets
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QPalette, QPen
from PySide6.QtWidgets import QFrame, QSizePolicy, QWidget

from visformer.language import _
from visformer.ui.ahead import import_in_pieces

if TYPE_CHECKING:
    from pyqtgraph import AxisItem, GraphicsView, PlotCurveItem, ViewBox

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
        for _curve in range(curves):
            curve = parts.PlotCurveItem(connect="finite")
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
