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
    from pyqtgraph import PlotCurveItem, PlotWidget

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


def plotting_in_pieces() -> Iterator[object]:
    """Import pyqtgraph in short pieces.

    It names every class of Qt, and PySide makes each when it is first named.
    """
    for module in (QtCore, QtGui, QtWidgets):
        for name in dir(module):
            yield getattr(module, name)
    while _import_piece():
        yield _PIECES


def _import_piece() -> bool:
    """Import a piece; False if there is none. What handles exceptions stays."""
    hooks = sys.excepthook, threading.excepthook
    try:
        return next(_PIECES, None) is not None
    finally:
        sys.excepthook, threading.excepthook = hooks


def make_plot(name: str) -> PlotWidget:
    """Return a plot without menus and mouse; ``name`` is the accessible name."""
    plot = plotting().PlotWidget(enableMenu=False)
    plot.setAccessibleName(name)
    plot.setMouseEnabled(False, False)
    plot.hideButtons()
    plot.setDownsampling(auto=True, mode="peak")
    plot.scene().contextMenu = []  # its exporter fails with Qt 6.11
    plot.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Ignored)
    plot.setFrameShape(QFrame.Shape.NoFrame)
    return plot


def style_plot(
    plot: PlotWidget,
    widget: QWidget,
    bottom: str = "",
    left: str = "",
) -> None:
    """Give a plot the widget's colours and font, and names to its axes.

    By default they are position and value.
    """
    titles = {"bottom": bottom or _("position (pos)"), "left": left or _("value")}
    palette = widget.palette()
    plot.setBackground(palette.color(QPalette.ColorRole.Base))
    size = {"font-size": f"{widget.font().pointSizeF():g}pt"}
    for name, title in titles.items():
        axis = plot.getAxis(name)
        axis.setLabel(title, **size)
        axis.setPen(palette.color(QPalette.ColorRole.Text))
        axis.setTextPen(palette.color(QPalette.ColorRole.Text))
        axis.setTickFont(widget.font())
        axis.enableAutoSIPrefix(False)  # a scale such as ×0.001 is not read
    plot.getViewBox().setLimits(minYRange=LEAST_RANGE)  # zeros are a line at 0


def add_curves(plot: PlotWidget, count: int) -> list[PlotCurveItem]:
    """Add curves without points to a plot; ``setData`` gives them some."""
    items = [plotting().PlotCurveItem(connect="finite") for _row in range(count)]
    for item in items:
        plot.addItem(item)
    return items


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
