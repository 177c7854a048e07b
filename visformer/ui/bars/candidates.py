"""The next-token table: choosing a row makes it the current step's choice."""

from __future__ import annotations

import math

from PySide6.QtCore import (
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
from visformer.language import _
from visformer.pictures.absent import has_target
from visformer.pictures.candidates import CandidateTable, candidate_table
from visformer.pictures.fills import fill_table, masked_token
from visformer.session.live import fixed_words
from visformer.session.state import State
from visformer.ui.widgets.plain_label import plain_label
from visformer.ui.widgets.table_model import Index, Role, TableModel

COLUMNS = 3


class _ProbabilityBar(QStyledItemDelegate):
    """Paints the probability as a bar behind its number."""

    def __init__(self, panel: CandidatesPanel) -> None:
        super().__init__(panel)
        self._panel = panel

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: Index
    ) -> None:
        """Paint the bar first, the number over it."""
        row = self._panel.shown.rows[index.row()]
        if not math.isnan(row.probability):
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
        self._title, self._summary = plain_label(_("next token")), plain_label("")
        for label in (self._title, self._summary):
            label.setWordWrap(True)
        self.shown = CandidateTable("", "", ())
        self._fixed = False  # no row can be chosen: no model is behind the run
        self.table = _CandidateRows()
        self._model = TableModel(self.table, self._cell, self._name)
        self._model.reset(0, COLUMNS)  # Qt arranges only columns that are there
        self.table.setModel(self._model)
        self.table.setItemDelegateForColumn(2, _ProbabilityBar(self))
        self.table.setAccessibleName(_("Next token: candidates, best first"))
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
        trace, self._fixed = state.shown, bool(fixed_words(state))
        self.setVisible(trace is None or has_target(trace) or bool(trace.fills))
        if trace is None or has_target(trace):
            table = candidate_table(trace, choosable=not self._fixed)
        else:
            table = fill_table(trace, masked_token(trace, state.locked))
        if table == self.shown:
            return
        self.shown = table
        self._model.reset(len(table.rows), COLUMNS)
        self.table.fit(table)
        self._title.setText(table.title)
        self._summary.setText(table.summary)
        chosen = next((i for i, row in enumerate(table.rows) if row.chosen), None)
        if chosen is not None:
            self.table.setCurrentIndex(self._model.index(chosen, 0))

    def _choose(self, index: Index) -> None:
        row = self.shown.rows[index.row()]
        if not row.chosen and not self._fixed:
            self.chosen.emit(row.id)

    def _name(self, section: int, orientation: Qt.Orientation, role: int) -> object:
        across = orientation == Qt.Orientation.Horizontal
        return _titles()[section] if across and role == Role.DisplayRole else None

    def _cell(self, row: int, column: int, role: int) -> object:
        """Return a cell's text, and in its tool tip what the row is."""
        candidate = self.shown.rows[row]
        p = candidate.probability
        if role == Role.DisplayRole:
            cells = (str(candidate.rank), candidate.token, words.probability(p))
            return cells[column]
        if role == Role.ToolTipRole:
            fields = {"id": candidate.id, "probability": words.number(p, 9)}
            if candidate.chosen:
                return _("id {id}, probability {probability}; chosen", **fields)
            if self._fixed:
                return _("id {id}, probability {probability}", **fields)
            return _(
                "id {id}, probability {probability}; click to choose it instead",
                **fields,
            )
        if role == Role.FontRole and candidate.chosen:
            font = QFont(self.table.font())
            font.setBold(True)
            return font
        return None


def _titles() -> tuple[str, ...]:
    return "", _("token"), _("probability")


class _CandidateRows(QTableView):
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
        _rank, token, probability = _titles()
        least = metrics.horizontalAdvance(token)
        rank = metrics.horizontalAdvance("000") + space // 2
        rest = rank + metrics.horizontalAdvance(probability) + 2 * space
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
