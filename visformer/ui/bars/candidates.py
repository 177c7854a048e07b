"""The next token: the best as bars, all on demand; a click or a typed token forces."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QModelIndex, QPoint, QRect, QSize, Qt, Signal
from PySide6.QtWidgets import (
    QLineEdit,
    QSizePolicy,
    QToolButton,
    QWidget,
)

from visformer import words
from visformer.engine.messages import AllTokens
from visformer.language import _
from visformer.pictures.absent import has_target
from visformer.pictures.candidates import (
    CandidateRow,
    CandidateTable,
    candidate_table,
    candidates_numbers,
    chosen_place,
    kept_words,
    named_rows,
    others_words,
)
from visformer.pictures.fills import fill_table, listed_row
from visformer.pictures.picture import Table, raw_label
from visformer.session.live import fixed_words
from visformer.session.state import State
from visformer.ui import theme
from visformer.ui.bars.candidate_bars import CandidateBars
from visformer.ui.bars.teaching import TeachingPanel
from visformer.ui.icons import dress
from visformer.ui.large import CHOOSES
from visformer.ui.widgets.export import Export
from visformer.ui.widgets.least_size import LeastColumn, LeastSize, laid_out_once
from visformer.ui.widgets.plain_label import plain_label
from visformer.ui.widgets.plain_tip import plain_tip
from visformer.ui.widgets.table_model import Index, Role, TableModel

COLUMNS = 3
LOWER_LINES = 2  # the least height of the words below the rows, in lines of text


class CandidatesPanel(QWidget):
    """The current step's distribution, and a field to force any token."""

    chosen = Signal(int)  # token id
    typed = Signal(str)  # what a token is looked for by
    failed = Signal(str)  # one sentence
    unfolded = Signal(bool)  # whether every token is to be listed

    def __init__(self, *, brief: bool = False) -> None:
        """``brief``: only the best rows, for an audience."""
        super().__init__()
        self._brief = brief
        self._title = plain_label(_("next token"))
        self.summary = plain_label("", faint=True)
        self._kept = plain_label("", faint=True)
        for label in (self._title, self.summary, self._kept):
            label.setWordWrap(True)
        self.shown = CandidateTable("", "", ())
        self.rows: Sequence[CandidateRow] = ()  # those in the table
        self._state = State()
        self._there = True  # there is a distribution
        self.folded = False
        self._fixed = False  # no row can be chosen: no model is behind the run
        self.table = CandidateBars()
        self._model = TableModel(self.table, self._cell, self._name)
        self._model.reset(0, COLUMNS)  # Qt arranges only columns that are there
        self.table.setModel(self._model)
        self.table.setAccessibleName(_("Next token: candidates, best first"))
        self.table.selectionModel().currentRowChanged.connect(
            lambda _now, _before: self.table.viewport().update()
        )
        self.export = Export(self.table, self._numbers)
        self.export.failed.connect(self.failed)
        self.table.setProperty(CHOOSES, True)
        self.table.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.table.customContextMenuRequested.connect(
            lambda at: self.export.popup(self.table.viewport().mapToGlobal(at))
        )
        self.table.clicked.connect(self._choose)
        self.table.entered_row.connect(self._choose)
        self.others = QToolButton()
        self.others.setCheckable(True)
        self.others.setAutoRaise(True)
        self.others.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.others.setSizePolicy(
            QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed
        )
        self.others.setToolTip(_("Show more tokens, or the best alone"))
        self.others.toggled.connect(self._turn)
        self.others.clicked.connect(self.unfolded)
        self.field = QLineEdit()
        self.field.setPlaceholderText(_("force any token"))
        self.field.setToolTip(
            _("Type any token and press Enter: the decoder goes on from it.")
        )
        self.field.setAccessibleName(_("Token to force"))
        self.field.setClearButtonEnabled(True)
        self.field.textChanged.connect(self._look_for)
        self.field.returnPressed.connect(self._choose_first)
        self._lay_out()
        self._dress()

    def _lay_out(self) -> None:
        self._column = LeastColumn(self)
        rows = self._title, self.table, self.others, self._kept
        self.teaching = TeachingPanel()
        for widget in (*rows, self.field):
            self._column.addWidget(widget, 4 if widget is self.table else 0)
        self._words = QWidget()
        self._below = LeastColumn(self._words)
        for part in (self.teaching, self.summary):
            self._below.addWidget(part)
        self._below.addStretch(1)
        self._lower = LeastSize()  # scrolls where text is large
        self._lower.setWidget(self._words)
        self._lower.setHidden(self._brief)
        self._column.addWidget(self._lower, 1)
        if self._brief:
            self._column.addStretch(1)

    def changeEvent(self, event: QEvent) -> None:
        """Follow the font at once."""
        super().changeEvent(event)
        of = QEvent.Type
        kinds = of.FontChange, of.StyleChange, of.PaletteChange
        if event.type() in kinds and "_column" in self.__dict__:
            self._dress()

    def _dress(self) -> None:
        space = theme.gap(self)
        self._column.setContentsMargins(space, space, 0, 0)
        self._column.setSpacing(space)
        self._below.setContentsMargins(0, 0, 0, 0)
        self._below.setSpacing(space)
        self._lower.setMinimumHeight(LOWER_LINES * self.fontMetrics().lineSpacing())
        self._title.setFont(theme.sized(self.font(), 1, bold=True))
        for label in (self.summary, self._kept):
            label.setFont(theme.sized(self.font(), theme.CAPTION))
        self.table.fit(self.rows, whole=self.others.isChecked())
        self._dress_others()

    def _dress_others(self) -> None:
        """Show whether there is more to see."""
        dress(self.others, "less" if self.others.isChecked() else "more")

    def _turn(self) -> None:
        """List every token, or the best alone."""
        self._dress_others()
        self._fill()

    def sizeHint(self) -> QSize:
        """Wide enough for a bar that can be read."""
        return QSize(18 * self.fontMetrics().height(), super().sizeHint().height())

    def free_room(self) -> QRect:
        """Return what is empty below all that is shown."""
        end = self.summary.mapTo(self, QPoint(0, self.summary.height())).y()
        return self.rect().adjusted(0, end, 0, 0)

    def draw(self, state: State) -> None:
        """Show the current step's distribution."""
        with laid_out_once(self, self._words):
            self._draw(state)

    def _draw(self, state: State) -> None:
        trace, self._state = state.shown, state
        self._fixed = bool(fixed_words(state))
        steps = trace is None or has_target(trace)
        self._there = steps or bool(trace and trace.fills)
        self.setVisible(self._there and not self.folded)
        if self.folded:
            return
        self.others.setChecked(state.unfolded)
        row, known = listed_row(trace, state.locked), state.distribution
        fits = state.unfolded and known is not None and known.is_of(trace, row)
        whole = known.whole if known is not None and fits else None
        if trace is None or steps:
            table = candidate_table(trace, choosable=not self._fixed, whole=whole)
        else:
            table = fill_table(trace, row, whole)
        if table != self.shown:
            if table.best() != self.shown.best():
                self.field.clear()
            self.shown = table
            self._title.setText(table.title)
            self.summary.setText(table.summary if table.rows else "")
            self.table.hint("" if table.rows else table.summary)
        forces = steps and not (self._fixed or self._brief)
        for part in (self.field, self.others):
            _keep_room(part, forces)
        self.field.setVisible(forces and bool(table.rows))
        if not self._brief:
            self.teaching.draw(state)
            self.table.yields = not self.teaching.isHidden()
        self._fill()

    def fold(self, folded: bool) -> None:
        """Fold the panel away, or show it again."""
        if folded != self.folded:
            self.folded = folded
            self.setVisible(self._there and not folded)
            self.draw(self._state)

    def _fill(self) -> None:
        """Put the best rows, all, or those that the field names into the table."""
        text, table, found = self.field.text(), self.shown, self._state.found
        whole = self.others.isChecked()
        rows: Sequence[CandidateRow] = table.rows if whole else table.best()
        if text.strip():
            fresh = found is not None and found.text == text
            rows = named_rows(table, text, found.tokens if fresh and found else ())
        count = len(table.rows) if whole else len(table.best())
        left = others_words(table, count)
        more = len(table.rows) > len(table.best())
        self.others.setText(left or (_("the best alone") if whole else _("all")))
        waiting = self._state.awaiting.newest(AllTokens)
        coming = waiting is not None and not waiting.ended
        self._kept.setText(kept_words(table) if whole and not coming else "")
        self._kept.setVisible(bool(self._kept.text()))
        self.others.setVisible(bool(left) or more)
        if rows == self.rows:
            return
        self.rows = rows
        self._model.reset(len(rows), COLUMNS)
        self.table.fit(rows, whole=whole)
        if whole:  # its scroll bar has to know of the rows before one is gone to
            self.table.updateGeometries()
        chosen = chosen_place(rows)
        self.table.setCurrentIndex(
            self._model.index(chosen, 0) if chosen is not None else QModelIndex()
        )

    def _look_for(self, text: str) -> None:
        self._fill()
        if text.strip():
            self.typed.emit(text)

    def _numbers(self) -> Table | None:
        return candidates_numbers(self.rows, self.shown.title)

    def _choose_first(self) -> None:
        if self.rows and self.field.text().strip():
            self._choose(self._model.index(0, 0))

    def _choose(self, index: Index) -> None:
        row = self.rows[index.row()]
        if not row.chosen and not self._fixed:
            self.field.clear()
            self.chosen.emit(row.id)

    def _name(self, section: int, orientation: Qt.Orientation, role: int) -> object:
        across = orientation == Qt.Orientation.Horizontal
        titles = _("rank"), _("token"), _("probability")
        return titles[section] if across and role == Role.DisplayRole else None

    def _cell(self, row: int, column: int, role: int) -> object:
        """Return a cell's text, and in its tool tip what the row is."""
        candidate = self.rows[row]
        p = candidate.probability
        if role == Role.DisplayRole:
            cells = (str(candidate.rank), candidate.token, words.probability(p))
            return cells[column]
        if role == Role.ToolTipRole:
            piece = raw_label(candidate.token)
            fields: dict[str, object] = {"piece": piece, "id": candidate.id}
            fields["probability"] = words.number(p, 9)
            if candidate.chosen:
                choice = self.shown.choice
                tip = _(
                    "piece {piece}, id {id}, probability {probability}; {choice}",
                    choice=choice,
                    **fields,
                )
                return plain_tip(tip)
            if self._fixed:
                return _("piece {piece}, id {id}, probability {probability}", **fields)
            return _(
                "piece {piece}, id {id}, probability {probability}; click to choose it "
                "instead",
                **fields,
            )
        return None


def _keep_room(part: QWidget, kept: bool) -> None:
    """Let a part have its room also while it is hidden, or not."""
    policy = part.sizePolicy()
    if policy.retainSizeWhenHidden() != kept:
        policy.setRetainSizeWhenHidden(kept)
        part.setSizePolicy(policy)
