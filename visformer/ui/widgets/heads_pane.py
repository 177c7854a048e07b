"""All heads of a kind: as thumbnails, or one cell of each; folds to one line."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QPushButton, QStackedWidget, QVBoxLayout, QWidget

from visformer.language import _
from visformer.pictures.look import Order
from visformer.pictures.picture import Matrix, Table
from visformer.ui.widgets.canvas import MapCell
from visformer.ui.widgets.heatmap import HeatMap
from visformer.ui.widgets.overview import Overview


class HeadsPane(QStackedWidget):
    """Shows the overview, or which head reads the locked cell most."""

    chosen = Signal(int, int)  # layer and head
    order_chosen = Signal(str)
    folded = Signal(bool)
    failed = Signal(str)

    def __init__(self, table: Callable[[], Table | None]) -> None:
        """``table`` gives every head's weights for export."""
        super().__init__()
        self.overview = Overview(table)
        self.overview.export.failed.connect(self.failed)
        self.overview.chosen.connect(self.chosen)
        self.overview.order_chosen.connect(self.order_chosen)
        self.overview.folding.connect(self.folded)
        self.finder = HeatMap(_("the locked cell in every head"))
        self.finder.clicked.connect(self._choose)
        self.finder.failed.connect(self.failed)
        self.back = QPushButton(_("Back to all heads"))
        self.back.clicked.connect(lambda: self._order("place"))
        self.overview.question.clicked.connect(lambda: self._order("cell"))
        page = QWidget()
        column = QVBoxLayout(page)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self.back, 0, Qt.AlignmentFlag.AlignLeft)
        column.addWidget(self.finder, 1)
        self.addWidget(self.overview)
        self.addWidget(page)

    def show_cell(self, matrix: Matrix | None) -> None:
        """Show a cell in every head; None goes back to the thumbnails."""
        if matrix is not None:
            self.finder.draw(matrix)
        self.setCurrentIndex(0 if matrix is None else 1)

    def choose(self, layer: int, head: int) -> None:
        """Frame a head in both."""
        self.overview.choose((layer, head))
        self.finder.mark((layer, head), value=False)

    def sizeHint(self) -> QSize:
        return self.overview.sizeHint()

    def _order(self, order: Order) -> None:
        self.order_chosen.emit(order)

    def _choose(self, cell: MapCell | None) -> None:
        if cell is not None:
            self.chosen.emit(*cell)
