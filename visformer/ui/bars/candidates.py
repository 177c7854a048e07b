"""The next-token table: choosing a row makes it the current step's choice."""

from __future__ import annotations

import math

from PySide6.QtCore import (
    QAbstractTableModel,
    QModelIndex,
    QPersistentModelIndex,
    QRect,
    Qt,
    Signal,
)
from PySide6.QtGui import QFont, QFontMetrics, QKeyEvent, QPainter
from PySide6.QtWidgets import (
    QHeaderView,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from visformer import words
from visformer.pictures.candidates import CandidateTable, candidate_table
from visformer.session.state import State
from visformer.ui.widgets.plain_label import plain_label

Index = QModelIndex | QPersistentModelIndex
COLUMNS = ("", "token", "probability")


class _Model(QAbstractTableModel):
    def __init__(self) -> None:
        super().__init__()
        self.table = CandidateTable("", "", ())

    def show(self, table: CandidateTable) -> None:
        """Replace everything."""
        self.beginResetModel()
        self.table = table
        self.endResetModel()

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        """Return the number of candidates."""
        return 0 if parent.isValid() else len(self.table.rows)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        """Count rank, token, probability."""
        return len(COLUMNS)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = 0
    ) -> object:
        """Name the columns."""
        horizontal = orientation == Qt.Orientation.Horizontal
        return COLUMNS[section] if horizontal and role == 0 else None

    def data(self, index: Index, role: int = 0) -> object:
        """Give texts, and in words what a row is."""
        row = self.table.rows[index.row()]
        cells = (str(row.rank), row.token, words.probability(row.probability))
        if role == Qt.ItemDataRole.DisplayRole:
            return cells[index.column()]
        if role == Qt.ItemDataRole.ToolTipRole:
            chosen = "; chosen" if row.chosen else "; click to choose it instead"
            return (
                f"id {row.id}, probability {words.number(row.probability, 9)}{chosen}"
            )
        if role == Qt.ItemDataRole.FontRole and row.chosen:
            font = self.parent_font()
            font.setBold(True)
            return font
        return None

    def parent_font(self) -> QFont:
        """Return the font of the table."""
        parent = self.parent()
        return QFont(parent.font()) if isinstance(parent, QWidget) else QFont()


class _Bar(QStyledItemDelegate):
    """Paints the probability as a bar behind its number."""

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: Index
    ) -> None:
        """Paint the bar first, the number over it."""
        model = index.model()
        row = model.table.rows[index.row()] if isinstance(model, _Model) else None
        if row is not None and not math.isnan(row.probability):
            palette = option.palette
            rect: QRect = option.rect
            box = rect.adjusted(1, 3, -1, -3)
            box.setWidth(max(1, round(box.width() * row.probability)))
            painter.setOpacity(0.8 if row.chosen else 0.35)
            painter.fillRect(box, palette.highlight())
            painter.setOpacity(1.0)
        super().paint(painter, option, index)


class CandidatesPanel(QWidget):
    """Title, table and summary of the current step's distribution."""

    chosen = Signal(int)  # token id

    def __init__(self) -> None:
        super().__init__()
        self._title, self._summary = plain_label("next token"), plain_label("")
        self._model = _Model()
        self.table = _Table()
        self._model.setParent(self.table)
        self.table.setModel(self._model)
        self.table.setItemDelegateForColumn(2, _Bar(self.table))
        self.table.setAccessibleName("Next token: candidates, best first")
        self._arrange_columns()
        self.table.clicked.connect(self._choose)
        self.table.entered_row.connect(self._choose)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(6, 0, 0, 0)
        layout.setSpacing(4)
        for widget in (self._title, self.table, self._summary):
            layout.addWidget(widget)

    def _arrange_columns(self) -> None:
        header = self.table.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        header.setSectionResizeMode(2, QHeaderView.ResizeMode.Stretch)
        header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft)
        header.setHighlightSections(False)

    def draw(self, state: State) -> None:
        """Show the current step's distribution."""
        table = candidate_table(state.shown)
        if table == self._model.table:
            return
        self._model.show(table)
        self.table.fit(table)
        self._title.setText(table.title)
        self._summary.setText(table.summary)
        chosen = next((i for i, row in enumerate(table.rows) if row.chosen), None)
        if chosen is not None:
            self.table.setCurrentIndex(self._model.index(chosen, 0))

    def _choose(self, index: Index) -> None:
        row = self._model.table.rows[index.row()]
        if not row.chosen:
            self.chosen.emit(row.id)


class _Table(QTableView):
    entered_row = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.setSelectionBehavior(QTableView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QTableView.SelectionMode.SingleSelection)
        self.setShowGrid(False)
        self.setTabKeyNavigation(False)
        self.verticalHeader().hide()
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self.setHorizontalScrollMode(QTableView.ScrollMode.ScrollPerPixel)

    def fit(self, table: CandidateTable) -> None:
        """Size rows and columns; asking Qt to would measure every cell each step."""
        bold = QFont(self.font())
        bold.setBold(True)
        metrics = QFontMetrics(bold)
        space = metrics.horizontalAdvance("00")
        widest = max(
            (metrics.horizontalAdvance(r.token) for r in table.rows), default=0
        )
        least = metrics.horizontalAdvance(COLUMNS[1])
        rank = metrics.horizontalAdvance("000") + space // 2
        rest = rank + metrics.horizontalAdvance(COLUMNS[2]) + 2 * space
        most = max(least, self.viewport().width() - rest)
        self.setColumnWidth(0, rank)
        self.setColumnWidth(1, min(max(least, widest), most) + space)
        self.verticalHeader().setDefaultSectionSize(metrics.height() + 3)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter chooses; the window's keys (Space, arrows sideways) are left to it."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.entered_row.emit(self.currentIndex())
        elif event.key() in (Qt.Key.Key_Up, Qt.Key.Key_Down):
            super().keyPressEvent(event)
        else:
            event.ignore()
