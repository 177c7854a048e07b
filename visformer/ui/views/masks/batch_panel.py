"""The batch: sentences to type, and their tokens with padding."""

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtGui import QBrush, QPalette, QResizeEvent
from PySide6.QtWidgets import (
    QHBoxLayout,
    QPlainTextEdit,
    QPushButton,
    QSizePolicy,
    QTableView,
    QWidget,
)

from visformer.language import N_, _, ngettext
from visformer.pictures.masks import BatchTable, batch_table, row_name, shortest_row
from visformer.pictures.words.absent import has_source, has_target
from visformer.session.runs import fixed_words
from visformer.session.state import State
from visformer.ui.layout import LeastColumn, fill
from visformer.ui.look.theme import Dressed, letter_width
from visformer.ui.widgets.controls import chooser, titled
from visformer.ui.widgets.number_table import Role, TableModel, TitleHeader
from visformer.ui.widgets.plain_label import paragraph, written
from visformer.values.facts import SentenceSide

MOST_SENTENCES = 8
MOST_ROWS = 3  # of a table, seen without scrolling
MOST_FITTED = 64  # columns measured one by one, at 0.1 ms each
ALONE = N_(
    "A single sentence has no padding. Run several sentences of different lengths as a "
    "batch to see it."
)
SUMMARY_NAMES: dict[SentenceSide, str] = {
    "source": N_("the batch's source in words"),
    "target": N_("the batch's target in words"),
}
TABLE_NAMES: dict[SentenceSide, str] = {
    "source": N_("source tokens and ids, one row per sentence"),
    "target": N_("target tokens and ids, one row per sentence"),
}


class BatchPanel(QWidget):
    """Sentences to type, and the batch made from them: tokens, pads, rows."""

    requested = Signal(object)  # a tuple of sentences
    left = Signal()  # the user wants the sentence on screen instead
    row_chosen = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self._editor = _editor()
        self.run_it = QPushButton(_("Run as a &batch"))  # stands above the panel
        self.run_it.clicked.connect(self._request)
        self._leave = QPushButton(_("C&lose the batch"))
        self._leave.clicked.connect(self.left)
        self._message = paragraph(_("what to know about the batch"))
        self._rows = chooser(_("row of the batch that is shown"))
        self._rows.setSizePolicy(
            QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred
        )
        self._rows.currentIndexChanged.connect(self._choose)
        self._tables: dict[SentenceSide, _SideTable] = {
            "source": _SideTable("source"),
            "target": _SideTable("target"),
        }
        self._busy, self._ready, self._alone = "", False, False
        self._lay_out()
        self._check()
        self._editor.textChanged.connect(self._check)
        for table in self._tables.values():
            table.row_picked.connect(self._rows.setCurrentIndex)

    def _lay_out(self) -> None:
        words = _("&Sentences, one per line (at most {most})", most=MOST_SENTENCES)
        title = titled(words, self._editor)
        shown = titled(_("Sho&wn"), self._rows), (self._rows, 1)
        fill(
            LeastColumn(self),
            *(title, self._editor, self._leave, self._message),
            fill(QHBoxLayout(), *shown),
            *((table, 1) for table in self._tables.values()),
            None,
        )

    @property
    def row(self) -> int:
        """The row of the batch that is chosen."""
        return max(0, self._rows.currentIndex())

    def offer(self, sentences: tuple[str, ...]) -> None:
        """Fill in sentences to start from, unless the user has typed some."""
        if not self._editor.document().isModified():
            lines = (" ".join(sentence.split()) for sentence in sentences)
            text = "\n".join(filter(None, lines))
            if text != self._editor.toPlainText():
                self._editor.setPlainText(text)

    def draw(self, state: State, *, fresh: bool) -> None:
        """Show the batch, or the single sentence; a fresh one starts with pads."""
        open_or_to_be = state.model is not None and not fixed_words(state)
        self._busy = state.busy
        self._ready = state.opened is not None or open_or_to_be
        traces = state.batch or ((state.visible,) if state.visible is not None else ())
        with QSignalBlocker(self._rows):
            row = shortest_row(traces) if fresh else self.row
            names = {at: row_name(t, at) for at, t in enumerate(traces)}
            self._rows.offer(names, min(row, len(traces) - 1))
            self._rows.setEnabled(len(traces) > 1)
        for side, table in self._tables.items():
            there = traces and (has_source if side == "source" else has_target)(
                traces[0]
            )
            table.draw(batch_table(traces, side) if there else None)
        self._alone = bool(traces) and not state.batch
        self._leave.setVisible(bool(state.batch))
        self._mark()
        self._check()

    def _sentences(self) -> tuple[str, ...]:
        lines = (line.strip() for line in self._editor.toPlainText().splitlines())
        return tuple(filter(None, lines))

    def _request(self) -> None:
        self.requested.emit(self._sentences())

    def _check(self) -> None:
        count = len(self._sentences())
        hindrance = ""
        if not self._ready:
            hindrance = _("No model is open yet.")
        elif not count:
            hindrance = _("Type at least one sentence.")
        elif count > MOST_SENTENCES:
            hindrance = ngettext(
                "{n} sentence is too many for a batch: remove {surplus}.",
                "{n} sentences are too many for a batch: remove {surplus}.",
                count,
                surplus=count - MOST_SENTENCES,
            )
        self.run_it.setEnabled(not hindrance)
        alone = _(ALONE) if self._alone else ""
        self._message.setText(hindrance or self._busy or alone)
        self._message.setVisible(bool(self._message.text()))

    def _choose(self, row: int) -> None:
        self._mark()
        self.row_chosen.emit(max(0, row))

    def _mark(self) -> None:
        for table in self._tables.values():
            table.mark(self.row)


class _SideTable(Dressed, QWidget):
    """One side of the batch, tokens over ids, pads hatched; rows can be picked."""

    row_picked = Signal(int)

    def __init__(self, side: SentenceSide) -> None:
        super().__init__()
        self._summary = paragraph(_(SUMMARY_NAMES[side]))
        self._table = QTableView()
        self._table.setAccessibleName(_(TABLE_NAMES[side]))
        self._picture: BatchTable | None = None
        self._marked = 0
        self._measured: dict[str, int] = {}  # the widths of texts, with their edges
        self._measured_in = self.fontMetrics()
        self._model = TableModel(self._table, self._cell, self._name)
        titles = TitleHeader(Qt.Orientation.Horizontal, self._table)
        titles.setSectionsClickable(True)
        titles.setHighlightSections(True)
        self._table.setHorizontalHeader(titles)
        self._table.setModel(self._model)
        # A selection would paint over the pads: the header marks the row instead.
        self._table.setSelectionMode(QTableView.SelectionMode.NoSelection)
        self._table.setTabKeyNavigation(False)
        self._table.selectionModel().currentRowChanged.connect(
            lambda index: self.row_picked.emit(index.row())
        )
        fill(LeastColumn(self), self._summary, self._table)

    def draw(self, picture: BatchTable | None) -> None:
        """Show one side of a batch, or hide if there is none."""
        self.setVisible(picture is not None)
        if picture is None or _same(picture, self._picture):
            return
        self._picture = picture
        with QSignalBlocker(self._table.selectionModel()):
            self._model.reset(*picture.ids.shape)
        self._summary.setText(picture.summary)
        self.dress()

    def mark(self, row: int) -> None:
        """Mark the row whose masks are shown, and scroll to it."""
        if row == self._marked:
            return
        self._marked = row
        self._table.scrollTo(self._model.index(row, max(0, self._table.columnAt(0))))
        last = max(0, self._model.rowCount() - 1)
        self._model.headerDataChanged.emit(Qt.Orientation.Vertical, 0, last)

    def _dress(self) -> None:
        self._table.setFont(self.font())  # now: the measuring below asks the table
        metrics = self.fontMetrics()
        if metrics != self._measured_in:
            self._measured_in, self._measured = metrics, {}
        height = 2 * metrics.lineSpacing() + metrics.height() // 3
        self._table.verticalHeader().setDefaultSectionSize(height)
        header = self._table.horizontalHeader()
        usual = 9 * letter_width(metrics)
        fitted = self._model.columnCount() <= MOST_FITTED
        if header.defaultSectionSize() != usual or not fitted:
            header.setDefaultSectionSize(usual)  # all columns become as wide
        if fitted:
            self._fit_columns()
        rows = max(1, self._model.rowCount())
        around = self._table.horizontalHeader().sizeHint().height()
        around += self._table.horizontalScrollBar().sizeHint().height()
        frame = 2 * self._table.frameWidth()
        self._table.setMinimumHeight(around + min(rows, MOST_ROWS) * height + frame)
        self._table.setMaximumHeight(around + rows * height + frame)
        self._end_with_rows()

    def _end_with_rows(self) -> None:
        """Take no room below the last row: the other side follows it."""
        words = self._summary.heightForWidth(self.width())
        layout = self.layout()
        between = layout.spacing() if layout is not None else 0
        self.setMaximumHeight(words + between + self._table.maximumHeight())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self._picture is not None:
            self._end_with_rows()

    def _fit_columns(self) -> None:
        """Make each column as wide as its texts, each measured once."""
        if self._picture is None:
            return
        metrics, known = self.fontMetrics(), self._measured
        around = 2 * letter_width(metrics)
        rows = zip(self._picture.tokens, self._picture.ids.tolist(), strict=True)
        count = self._model.columnCount()
        widths = [metrics.horizontalAdvance(str(count)) + around] * count
        for tokens, ids in rows:
            for column, texts in enumerate(zip(tokens, ids, strict=True)):
                for text in map(str, texts):
                    if text not in known:
                        known[text] = metrics.horizontalAdvance(text) + around
                    widths[column] = max(widths[column], known[text])
        for column, width in enumerate(widths):
            if self._table.columnWidth(column) != width:
                self._table.setColumnWidth(column, width)

    def _name(self, section: int, orientation: Qt.Orientation, role: int) -> object:
        if role != Role.DisplayRole:
            return None
        chosen = orientation == Qt.Orientation.Vertical and section == self._marked
        return f"▶ {section + 1}" if chosen else f"{section + 1}"

    def _cell(self, row: int, column: int, role: int) -> object:
        """Return a token over its id; a pad is hatched and greyed."""
        if self._picture is None:
            return None
        token, id = self._picture.tokens[row][column], self._picture.ids[row, column]
        if role == Role.DisplayRole:
            return f"{written((token,))[0]}\n{id}"
        if role == Role.TextAlignmentRole:
            return Qt.AlignmentFlag.AlignCenter
        return self._pad_data(token, role) if self._picture.pads[row, column] else None

    def _pad_data(self, token: str, role: int) -> object:
        palette = self._table.palette()
        if role == Role.BackgroundRole:
            colour = palette.color(QPalette.ColorRole.Mid)
            return QBrush(colour, Qt.BrushStyle.BDiagPattern)
        if role == Role.ForegroundRole:
            return palette.brush(QPalette.ColorRole.PlaceholderText)
        return (
            _("{token}, padding", token=token)
            if role == Role.AccessibleTextRole
            else None
        )


def _same(one: BatchTable, other: BatchTable | None) -> bool:
    return other is not None and (
        one.tokens == other.tokens
        and one.ids.tolist() == other.ids.tolist()
        and one.pads.tolist() == other.pads.tolist()
    )


def _editor() -> QPlainTextEdit:
    """Build a small plain text field that Tab leaves."""
    editor = QPlainTextEdit()
    editor.setTabChangesFocus(True)
    editor.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
    editor.setAccessibleName(_("sentences of the batch, one per line"))
    editor.setPlaceholderText(_("One sentence per line"))
    lines = 5 * editor.fontMetrics().lineSpacing()
    editor.setMinimumHeight(lines)
    return editor
