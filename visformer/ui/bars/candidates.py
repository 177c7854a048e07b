"""The next token: the best as bars, all on demand; a click or a typed token forces."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from PySide6.QtCore import (
    QModelIndex,
    QPoint,
    QRect,
    QSignalBlocker,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import (
    QColor,
    QFont,
    QLinearGradient,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPalette,
)
from PySide6.QtWidgets import (
    QButtonGroup,
    QHBoxLayout,
    QLineEdit,
    QSizePolicy,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from visformer import words
from visformer.engine.messages import AllTokens
from visformer.language import _
from visformer.pictures.candidates import (
    BEST,
    CandidateRow,
    CandidateTable,
    candidate_table,
    candidates_numbers,
    chosen_place,
    fill_table,
    kept_words,
    listed_row,
    named_rows,
    others_words,
)
from visformer.pictures.picture import Table, raw_label
from visformer.pictures.words.absent import has_target
from visformer.pictures.words.modified_run import is_taught, legend_ends, score_words
from visformer.session.runs import fixed_words
from visformer.session.state import State
from visformer.ui.changed import Changed
from visformer.ui.layout import LeastColumn, LeastSize, fill, laid_out_once
from visformer.ui.look import theme
from visformer.ui.look.icons import dress
from visformer.ui.look.theme import (
    CAPTION,
    FONT_PALETTE,
    FONT_PALETTE_STYLE,
    Dressed,
    fed_colour,
    gap,
    letter_width,
    loss_colour,
    sized,
)
from visformer.ui.widgets.controls import tool_button, word_button
from visformer.ui.widgets.export import Export
from visformer.ui.widgets.plain_label import (
    RoleLabel,
    plain_label,
    plain_tip,
    write_in,
    written,
)
from visformer.ui.widgets.table_view import (
    RIGHT,
    CellBar,
    Index,
    Role,
    TableColumn,
    TableView,
)
from visformer.ui.window.large import CHOOSES
from visformer.values.step import CANDIDATES

LOWER_LINES = 2  # the least height of the words below the rows, in lines of text


class CandidatesPanel(Dressed, QWidget):
    """The current step's distribution, and a field to force any token."""

    dressed_at = FONT_PALETTE_STYLE

    chosen = Signal(int)  # token id
    typed = Signal(str)  # what a token is looked for by
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
        self.table = CandidateBars(self._tip)
        self.export = self.table.export = Export(self.table, self._numbers)
        self.table.setProperty(CHOOSES, True)
        self.table.picked.connect(self._choose)
        self.others = tool_button("", self.unfolded)
        self.others.setCheckable(True)
        self.others.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.others.setSizePolicy(
            QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed
        )
        self.others.setToolTip(_("Show more tokens, or the best alone"))
        self.others.toggled.connect(self._turn)
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
        self.dress()

    def _lay_out(self) -> None:
        self._column = LeastColumn(self)
        rows = self._title, self.table, self.others, self._kept
        self.teaching = TeachingPanel()
        for widget in (*rows, self.field):
            self._column.addWidget(widget, 4 if widget is self.table else 0)
        self._words = QWidget()
        below = self.teaching, self.summary, (None, 1)
        self._below = fill(LeastColumn(self._words), *below)
        self._lower = LeastSize()  # scrolls where text is large
        self._lower.setWidget(self._words)
        self._lower.setHidden(self._brief)
        self._column.addWidget(self._lower, 1)
        if self._brief:
            self._column.addStretch(1)

    def _dress(self) -> None:
        space = theme.gap(self)
        self._column.setContentsMargins(space, space, 0, 0)
        self._column.setSpacing(space)
        self._below.setSpacing(space)
        self._lower.setMinimumHeight(LOWER_LINES * self.fontMetrics().lineSpacing())
        self._title.setFont(theme.sized(self.font(), 1, bold=True))
        for label in (self.summary, self._kept):
            label.setFont(theme.sized(self.font(), theme.CAPTION))
        self._dress_others()

    def _dress_others(self) -> None:
        """Show whether there is more to see."""
        dress(self.others, "less" if self.others.isChecked() else "more")

    def _turn(self) -> None:
        self._dress_others()
        self._fill()

    def sizeHint(self) -> QSize:
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
        trace, self._state = state.visible, state
        self._fixed = bool(fixed_words(state))
        steps = trace is None or has_target(trace)
        self._there = steps or bool(trace and trace.fills)
        self.setVisible(self._there and not self.folded)
        if self.folded:
            return
        self.others.setChecked(state.unfolded)
        row, known = listed_row(trace, state.locked), state.distribution
        whole = None
        if state.unfolded and known is not None and trace is not None:
            whole = known.value if known.is_of(trace.storage, row) else None
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
        text, table, found = self.field.text(), self.shown, self._state.found
        whole = self.others.isChecked()
        rows: Sequence[CandidateRow] = table.rows if whole else table.best()
        if text.strip():
            tokens = found.value if found is not None and found.about == text else ()
            rows = named_rows(table, text, tokens or ())
        count = len(table.rows) if whole else len(table.best())
        left = others_words(table, count)
        more = len(table.rows) > len(table.best())
        self.others.setText(left or (_("the best alone") if whole else _("all")))
        coming = self._state.awaiting.waits(AllTokens)
        self._kept.setText(kept_words(table) if whole and not coming else "")
        self._kept.setVisible(bool(self._kept.text()))
        self.others.setVisible(bool(left) or more)
        if rows == self.rows:
            return
        self.rows = rows
        self.table.draw(rows, whole=whole)

    def _look_for(self, text: str) -> None:
        self._fill()
        if text.strip():
            self.typed.emit(text)

    def _numbers(self) -> Table | None:
        return candidates_numbers(self.rows, self.shown.title)

    def _choose_first(self) -> None:
        if self.rows and self.field.text().strip():
            self._choose(self.rows[0])

    def _choose(self, row: CandidateRow) -> None:
        if not row.chosen and not self._fixed:
            self.field.clear()
            self.chosen.emit(row.id)

    def _tip(self, row: CandidateRow) -> str:
        fields: dict[str, object] = {"piece": raw_label(row.token), "id": row.id}
        fields["probability"] = words.number(row.probability, 9)
        if row.chosen:
            return _(
                "piece {piece}, id {id}, probability {probability}; {choice}",
                choice=self.shown.choice,
                **fields,
            )
        if self._fixed:
            return _("piece {piece}, id {id}, probability {probability}", **fields)
        return _(
            "piece {piece}, id {id}, probability {probability}; click to choose it "
            "instead",
            **fields,
        )


def _keep_room(part: QWidget, kept: bool) -> None:
    """Let a part have its room also while it is hidden, or not."""
    policy = part.sizePolicy()
    if policy.retainSizeWhenHidden() != kept:
        policy.setRetainSizeWhenHidden(kept)
        part.setSizePolicy(policy)


LEAST_TOKEN = 8  # characters of a token, before its rank is left out
FEWEST = 4  # rows that what is below the table does not take
STRONG, WEAK = 0.42, 0.2  # opacity of the chosen row's bar, and of the others'


class CandidateBars(TableView):
    """Shows candidates, over each row's bar its texts; a click or Enter picks one."""

    def __init__(self, tip: Callable[[CandidateRow], str]) -> None:
        """``tip`` gives the tip of a row."""
        self._tip, self._hint = tip, ""
        self._places = BEST  # rows that there is room for, also while there are none
        self._whole = False  # the rows may be so many that they are scrolled
        self.yields = False  # what is below it comes first where there is little room
        name, columns = _("Next token: candidates, best first"), self._columns("00")
        super().__init__(name, columns, least=3, high=1.45)
        self.setSelectionMode(QTableView.SelectionMode.NoSelection)
        self.setShowGrid(False)
        self.setFrameShape(QTableView.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.horizontalHeader().hide()
        self.horizontalHeader().setMinimumSectionSize(1)

    def draw(self, rows: Sequence[CandidateRow], *, whole: bool) -> None:
        """List these rows, and go to the one that is chosen."""
        most = max([len(rows), *(row.rank for row in rows[:CANDIDATES])])
        self._whole, self._places = whole, len(rows) or self._places
        self.fill(rows, self._columns("0" * max(2, len(str(most)))))
        if whole:  # its scroll bar has to know of the rows before one is gone to
            self.updateGeometries()
        chosen = chosen_place(rows)
        at = QModelIndex() if chosen is None else self.model().index(chosen, 0)
        self.setCurrentIndex(at)

    def _columns(self, digits: str) -> tuple[TableColumn, ...]:
        looks: dict[Role, Callable[[CandidateRow], object]]
        looks = {Role.FontRole: self._font}
        faint = {**looks, Role.ForegroundRole: self._faint}
        of_row: dict[str, Any] = {"tip": self._tip, "bar": self._bar}
        numbers = {**of_row, "side": RIGHT}
        p = ("0.0e−00",)
        return (
            TableColumn(_("rank"), _rank, (digits,), looks=faint, **numbers),
            TableColumn(_("token"), _token, looks=looks, **of_row),
            TableColumn(_("probability"), _probability, p, looks=looks, **numbers),
        )

    def _bar(self, row: CandidateRow) -> CellBar:
        colour = self.palette().color(QPalette.ColorRole.Highlight)
        colour.setAlphaF(STRONG if row.chosen else WEAK)
        share = 0.0 if math.isnan(row.probability) else row.probability
        return CellBar(share, colour, is_across=True)

    def _font(self, row: CandidateRow) -> QFont | None:
        return sized(self.font(), 1, bold=True) if row.chosen else None

    def _faint(self, _row: CandidateRow) -> QColor:
        return self.palette().color(QPalette.ColorRole.PlaceholderText)

    def frame(self, index: Index) -> bool:
        """Tell whether a row is framed: it is chosen, or the keyboard is at it."""
        focused = self.hasFocus() and index.row() == self.currentIndex().row()
        return focused or self.items[index.row()].chosen

    def currentChanged(self, now: Index, before: Index) -> None:
        super().currentChanged(now, before)
        self.viewport().update()  # the frame is around the whole row

    def hint(self, words: str) -> None:
        """Say in place of the rows why there are none."""
        if words != self._hint:
            self._hint = words
            self.setAccessibleDescription(words)
            self.viewport().update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the rows, or the hint where there are none."""
        super().paintEvent(event)
        if not self.items:
            painter, edge = QPainter(self.viewport()), gap(self)
            room = self.viewport().rect().adjusted(edge, edge, -edge, -edge)
            painter.setPen(self.palette().color(QPalette.ColorRole.PlaceholderText))
            painter.drawText(room, Qt.TextFlag.TextWordWrap, self._hint)

    def _fit(self) -> None:
        """Leave the ranks out where tokens have little room: rows stand in order."""
        super()._fit()
        self.setMaximumHeight(1 << 20 if self._whole else self._height(self._places))
        taken = sum(self._wide((*column.room,), 1.5) for column in self.columns)
        least = LEAST_TOKEN * letter_width(self.fontMetrics())
        self.setColumnHidden(0, self.viewport().width() - taken < least)

    def _fitting(self) -> int:
        return FEWEST if self.yields else min(self._places, 400)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Leave the right button to the menu: it chooses no row."""
        if event.button() == Qt.MouseButton.LeftButton:
            super().mousePressEvent(event)


def _rank(row: CandidateRow) -> str:
    return str(row.rank) if row.rank else ""


def _token(row: CandidateRow) -> str:
    return written((row.token,))[0]


def _probability(row: CandidateRow) -> str:
    return words.probability(row.probability) if row.rank else ""


class TeachingPanel(Dressed, QWidget):
    """Below the next token, where it pushes no picture; hidden without a reference."""

    dressed_at = FONT_PALETTE

    chosen = Signal(bool)  # whether the reference is to be fed
    dropped = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._changed = Changed()
        self.tag = plain_label("")
        self.words = RoleLabel(_("how well the model predicts the reference"))
        self.words.setMinimumWidth(1)
        self.words.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.legend = LossLegend()
        self.fed = word_button(
            _("fed"),
            _("Feed the reference, token by token"),
            lambda: self.chosen.emit(True),
        )
        self.free = word_button(
            _("free running"),
            _("Let the model decode, and compare it with the reference"),
            lambda: self.chosen.emit(False),
        )
        self._sides = QButtonGroup(self)
        for button in (self.fed, self.free):
            button.setCheckable(True)
            self._sides.addButton(button)
        forget = _("Forget the reference: the model decodes")
        self.end = tool_button(forget, self.dropped)
        self.end.setText("×")
        self._rows = (
            fill(QHBoxLayout(), self.tag, (None, 1), self.end),
            fill(QHBoxLayout(), self.fed, self.free, (None, 1)),
        )
        parts = *self._rows, self.words, self.legend
        self._column = fill(QVBoxLayout(self), *parts)
        self.dress()
        self.hide()

    def draw(self, state: State) -> None:
        """Show whether a reference is fed, and how well the model predicts it."""
        wish, trace = state.wish, state.trace
        if not self._changed("all", trace, wish.reference, wish.fed, state.opened):
            return
        taught = is_taught(trace)
        there = taught or bool(wish.reference)
        self.setVisible(there)
        if not there:
            return
        self.tag.setText(_("teacher forcing") if taught else _("free running"))
        words = score_words(trace) if taught and trace is not None else ""
        self.words.setText(words or _("The reference is not fed, only compared with."))
        tip = "\n".join((words, _words_tip())) if taught else ""
        self.words.setToolTip(plain_tip(tip))
        self.legend.setVisible(taught)
        fixed = fixed_words(state)
        for button, on in ((self.fed, taught), (self.free, not taught)):
            with QSignalBlocker(button):
                button.setChecked(on)
            button.setEnabled(not fixed)
        self.end.setVisible(bool(wish.reference) and not fixed)

    def _dress(self) -> None:
        for row in (self._column, *self._rows):
            row.setSpacing(gap(self))
        self.tag.setFont(sized(self.font(), 1.0, bold=True))
        for label in (self.words, self.legend):
            label.setFont(sized(self.font(), CAPTION))
        fed = fed_colour(self.palette())
        write_in(self.tag, QPalette.ColorRole.WindowText, fed)


def _words_tip() -> str:
    return _(
        "Each row of the decoder reads the reference's tokens before it and is scored "
        "on the next one: cross-entropy = Σ −ln p of these tokens, perplexity = e to "
        "the cross-entropy per token. All rows are computed in one pass, as in "
        "training."
    )


class LossLegend(QWidget):
    """The colours of losses, with their ends."""

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName(_("colours of the loss, −ln p of a token in nats"))
        self.setToolTip(_("colours of the loss, −ln p of a token in nats"))

    def sizeHint(self) -> QSize:
        self.ensurePolished()
        metrics = self.fontMetrics()
        texts = sum(metrics.horizontalAdvance(text) for text in self._texts())
        return QSize(texts + 6 * metrics.height(), metrics.height())

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    @staticmethod
    def _texts() -> tuple[str, str, str]:
        return _("loss"), *legend_ends()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setFont(self.font())
        painter.setPen(self.palette().placeholderText().color())
        em = self.fontMetrics().height()
        name, low, high = self._texts()
        x = 0
        for text in (f"{name}  {low}", "", high):
            if not text:
                bar = QRect(x, self.height() // 2 - em // 4, 4 * em, em // 2)
                ramp = QLinearGradient(bar.topLeft(), bar.topRight())
                ramp.setColorAt(0, loss_colour(self.palette(), 0))
                ramp.setColorAt(1, loss_colour(self.palette(), 1))
                painter.fillRect(bar, ramp)
                painter.drawRect(bar)
                x = bar.right() + em // 2
                continue
            wide = painter.fontMetrics().horizontalAdvance(text)
            box = QRect(x, 0, wide, self.height())
            painter.drawText(box, Qt.AlignmentFlag.AlignVCenter, text)
            x += wide + em // 2
