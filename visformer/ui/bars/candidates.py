"""The next token: the best as bars, all on demand; a click or a typed token forces."""

import math
from collections.abc import Sequence

from PySide6.QtCore import (
    QEvent,
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
    QFontMetrics,
    QKeyEvent,
    QLinearGradient,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPalette,
)
from PySide6.QtWidgets import (
    QButtonGroup,
    QHBoxLayout,
    QHeaderView,
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
from visformer.ui.widgets.number_table import Index, Role, TableModel
from visformer.ui.widgets.plain_label import (
    RoleLabel,
    cut_to_room,
    plain_label,
    plain_tip,
    write_in,
    written,
)
from visformer.ui.window.large import CHOOSES
from visformer.values.step import CANDIDATES

COLUMNS = 3
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
        self.table = CandidateBars()
        self._model = TableModel(self.table, self._cell, self._name)
        self._model.reset(0, COLUMNS)  # Qt arranges only columns that are there
        self.table.setModel(self._model)
        self.table.setAccessibleName(_("Next token: candidates, best first"))
        self.table.selectionModel().currentRowChanged.connect(
            lambda _now, _before: self.table.viewport().update()
        )
        self.export = Export(self.table, self._numbers)
        self.table.setProperty(CHOOSES, True)
        self.table.clicked.connect(self._choose)
        self.table.entered_row.connect(self._choose)
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
        self.table.fit(self.rows, whole=self.others.isChecked())
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


LEAST_TOKEN = 8  # characters of a token, before its rank is left out
FEWEST = 4  # rows that what is below the table does not take
ROW = 1.45  # height of a row, in lines of text
STRONG, WEAK = 0.42, 0.2  # opacity of the chosen row's bar, and of the others'
LEFT, RIGHT = (
    side.value | Qt.AlignmentFlag.AlignVCenter.value
    for side in (Qt.AlignmentFlag.AlignLeft, Qt.AlignmentFlag.AlignRight)
)


class CandidateBars(QTableView):
    """Paints its rows itself; Enter chooses one."""

    entered_row = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.chosen_font = QFont(self.font())
        self._rows: Sequence[CandidateRow] = ()
        self._hint = ""
        self._places = BEST  # rows that there is room for, also while there are none
        self._fitted: tuple[object, ...] = ()  # what rows and columns were sized for
        self.yields = False  # what is below it comes first where there is little room
        self.setSelectionBehavior(QTableView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QTableView.SelectionMode.NoSelection)
        self.setShowGrid(False)
        self.setFrameShape(QTableView.Shape.NoFrame)
        self.setTabKeyNavigation(False)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.horizontalHeader().hide()
        self.verticalHeader().hide()
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self.verticalHeader().setMinimumSectionSize(1)
        self.horizontalHeader().setMinimumSectionSize(1)
        self.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)

    def fit(self, rows: Sequence[CandidateRow], *, whole: bool) -> None:
        """Size rows and columns; asking Qt to would measure every cell each step.

        ``whole``: the rows may be so many that they are scrolled. Where there are none,
        the room of the last ones stays: the first step moves nothing.
        """
        self._rows = rows
        self._places = len(rows) or self._places
        self.chosen_font = theme.sized(self.font(), 1, bold=True)
        needs = self._places, whole, self.chosen_font, self._widest()
        if needs == self._fitted:
            return
        self._fitted = needs
        height = round(ROW * QFontMetrics(self.chosen_font).height())
        self.verticalHeader().setDefaultSectionSize(height)
        high = self._places * height
        self.setMinimumHeight(min(3 * height, high))
        self.setMaximumHeight(high if not whole else 1 << 20)
        self.updateGeometry()
        self._fit_columns()

    def hint(self, words: str) -> None:
        """Say in place of the rows why there are none."""
        if words != self._hint:
            self._hint = words
            self.setAccessibleDescription(words)
            self.viewport().update()

    def _widest(self) -> str:
        """Return digits as many as the longest rank has."""
        most = max([len(self._rows), *(row.rank for row in self._rows[:CANDIDATES])])
        return "0" * max(2, len(str(most)))

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint row by row, over each bar its texts; a delegate takes several times."""
        painter, palette = QPainter(self.viewport()), self.palette()
        if not self._rows:
            self._paint_hint(painter)
            return
        accent = palette.color(QPalette.ColorRole.Highlight)
        bar, whole = QColor(accent), self.viewport().width()
        focused = self.currentIndex().row() if self.hasFocus() else -1
        high = self.verticalHeader().defaultSectionSize()
        top, bottom = (
            self.rowAt(y) for y in (event.rect().top(), event.rect().bottom())
        )
        last = len(self._rows) - 1 if bottom < 0 else bottom
        fonts = self.font(), self.chosen_font
        columns = self._rooms()
        for index in range(top, last + 1) if top >= 0 else ():
            row, top = self._rows[index], self.rowViewportPosition(index)
            if not math.isnan(row.probability):
                bar.setAlphaF(STRONG if row.chosen else WEAK)
                length = round(whole * row.probability)
                painter.fillRect(QRect(0, top + 1, length, high - 2), bar)
            painter.setFont(fonts[row.chosen])
            for (left, wide, side, ink), text in zip(columns, _texts(row), strict=True):
                painter.setPen(ink)
                if side == LEFT:  # the others' columns are made for what is in them
                    text = cut_to_room(text, painter.fontMetrics(), wide)
                if wide > 0:
                    painter.drawText(QRect(left, top, wide, high), side, text)
            if row.chosen or index == focused:
                painter.setPen(accent)
                painter.drawRect(QRect(0, top, whole - 1, high - 1))

    def _paint_hint(self, painter: QPainter) -> None:
        edge = theme.gap(self)
        room = self.viewport().rect().adjusted(edge, edge, -edge, -edge)
        painter.setPen(self.palette().color(QPalette.ColorRole.PlaceholderText))
        painter.drawText(room, Qt.TextFlag.TextWordWrap, self._hint)

    def _rooms(self) -> list[tuple[int, int, int, QColor]]:
        palette, edge, rooms = self.palette(), theme.gap(self), []
        faint = palette.color(QPalette.ColorRole.PlaceholderText)
        text = palette.color(QPalette.ColorRole.Text)
        for column, ink in enumerate((faint, text, text)):
            left, wide = self.columnViewportPosition(column), self.columnWidth(column)
            start = left + (edge // 2 if column else edge)
            room = left + wide - edge // 2 - start if wide > 1 else 0
            rooms.append((start, room, LEFT if column == 1 else RIGHT, ink))
        return rooms

    def _fit_columns(self) -> None:
        if self.model() is None:
            return
        metrics, room = QFontMetrics(self.chosen_font), self.viewport().width()
        rank = metrics.horizontalAdvance(self._widest()) + 2 * theme.gap(self)
        value = metrics.horizontalAdvance("0.0e−00") + theme.gap(self)
        narrow = room - rank - value < LEAST_TOKEN * letter_width(metrics)
        rank = 1 if narrow else rank  # the rows stand in the order of the ranks
        for column, width in enumerate((rank, max(1, room - rank - value), value)):
            self.setColumnWidth(column, width)

    def resizeEvent(self, event: QEvent) -> None:
        super().resizeEvent(event)  # type: ignore[arg-type]
        self._fit_columns()

    def sizeHint(self) -> QSize:
        high = min(self.maximumHeight(), 10_000)
        if self.yields:
            high = min(high, FEWEST * self.verticalHeader().defaultSectionSize())
        return QSize(super().sizeHint().width(), high)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Leave the right button to the menu: it chooses no row."""
        if event.button() == Qt.MouseButton.LeftButton:
            super().mousePressEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter chooses; the window's keys (Space, arrows sideways) are left to it."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.entered_row.emit(self.currentIndex())
        elif event.key() in (Qt.Key.Key_Up, Qt.Key.Key_Down):
            super().keyPressEvent(event)
        else:
            event.ignore()


def _texts(row: CandidateRow) -> tuple[str, str, str]:
    (token,) = written((row.token,))
    if not row.rank:
        return "", token, ""
    return str(row.rank), token, words.probability(row.probability)


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
