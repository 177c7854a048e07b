"""The batch: sentences to type, and their tokens with padding."""

from collections.abc import Callable

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtGui import QBrush
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
from visformer.ui.widgets.controls import chooser, titled
from visformer.ui.widgets.plain_label import paragraph, written
from visformer.ui.widgets.table_view import Role, TableColumn, TableView
from visformer.values.facts import SentenceSide

MOST_SENTENCES = 8
MOST_ROWS = 3  # of a table, seen without scrolling
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
            table.chosen.connect(self._rows.setCurrentIndex)

    def _lay_out(self) -> None:
        words = _("&Sentences, one per line (at most {most})", most=MOST_SENTENCES)
        title = titled(words, self._editor)
        shown = titled(_("Sho&wn"), self._rows), (self._rows, 1)
        above = title, self._editor, self._leave, self._message
        column = fill(LeastColumn(self), *above, fill(QHBoxLayout(), *shown))
        for table in self._tables.values():
            fill(column, table.summary, (table, 1))
        fill(column, None)

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
            table.mark(self.row, None)


class _SideTable(TableView):
    """One side of the batch, tokens over ids, pads hatched; rows can be picked."""

    def __init__(self, side: SentenceSide) -> None:
        self.summary = paragraph(_(SUMMARY_NAMES[side]))
        self._picture: BatchTable | None = None
        names = TableColumn("", self._name)
        least, most = MOST_ROWS, MOST_SENTENCES
        title = _(TABLE_NAMES[side])
        super().__init__(title, names=names, least=least, most=most, high=2.4)
        # a selection would paint over the pads: a frame marks the row instead
        self.setSelectionMode(QTableView.SelectionMode.NoSelection)

    def draw(self, picture: BatchTable | None) -> None:
        """Show one side of a batch, or hide if there is none."""
        for part in (self.summary, self):
            part.setVisible(picture is not None)
        if picture is None or _same(picture, self._picture):
            return
        self._picture = picture
        self.summary.setText(picture.summary)
        self._dress()

    def _dress(self) -> None:
        """Write the tokens as they are written now."""
        picture = self._picture
        if picture is not None:
            rows, columns = map(range, picture.ids.shape)
            self.fill(rows, [self._column(picture, at) for at in columns])

    def _column(self, picture: BatchTable, at: int) -> TableColumn:
        """Return a token over its id for each row; a pad is hatched and greyed."""

        def texts(row: int) -> tuple[str, ...]:
            token, id = picture.tokens[row][at], picture.ids[row, at]
            return *written((token,)), f"{id}"

        def of_pads(look: Callable[[int], object]) -> Callable[[int], object]:
            return lambda row: look(row) if picture.pads[row, at] else None

        def hatching(_row: int) -> QBrush:
            return QBrush(self.palette().mid().color(), Qt.BrushStyle.BDiagPattern)

        def words(row: int) -> str:
            return _("{token}, padding", token=picture.tokens[row][at])

        looks: dict[Role, Callable[[int], object]] = {
            Role.BackgroundRole: hatching,
            Role.ForegroundRole: lambda _row: self.palette().placeholderText(),
            Role.AccessibleTextRole: words,
        }
        return TableColumn(
            *(f"{at + 1}", lambda row: "\n".join(texts(row))),
            room=[text for row in range(len(picture.ids)) for text in texts(row)],
            side=Qt.AlignmentFlag.AlignCenter,
            looks={role: of_pads(look) for role, look in looks.items()},
        )

    def _name(self, row: int) -> str:
        return f"▶ {row + 1}" if row == self.marked[0] else f"{row + 1}"


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
