"""The Checks page: what every check says of the run on screen, and of its model."""

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QFont, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QHeaderView, QTableWidget, QTableWidgetItem

from visformer.language import N_, _
from visformer.pictures.output import NOT_RUN
from visformer.pictures.words.about import CheckRow, check_rows, checks_words
from visformer.session.side_requests import known_checks, look_at
from visformer.session.state import Session, State
from visformer.ui.layout import LeastColumn, fill
from visformer.ui.look.theme import Dressed
from visformer.ui.views.view import View
from visformer.ui.widgets.plain_label import paragraph, plain_tip
from visformer.ui.window.large import present_whole
from visformer.values.finding import CheckResult
from visformer.values.reply import Reply

TITLES = N_("Verdict"), N_("Check"), N_("Where"), N_("Evidence, and what to do")
SHARES = 0.11, 0.22, 0.22  # of the width; the last column has the rest
WHERE, LEAST_LINES = 2, 8


class ChecksPage(View):
    """A table of all checks; a click on one that names a place goes there."""

    name, title = "checks", N_("Checks")

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.words = paragraph(_("what the checks have found"))
        self.table = self.main = CheckTable(_("all checks, what is wrong first"))
        self.table.picked.connect(self._look)
        present_whole(self.table)
        fill(LeastColumn(self), self.words, (self.table, 1))

    def draw(self, state: State) -> None:
        """Show what is known of the run on screen, or why there is nothing."""
        self._state = state
        known, trace = known_checks(state), state.trace
        certificate = None if trace is None else trace.certificate
        about = state.about or certificate
        results = () if known is None else known.value or ()
        findings = () if about is None else about.findings
        rows = check_rows(results, findings)
        if self._changed("rows", rows):
            self.table.draw(rows)
        self.table.setVisible(bool(rows))
        said = checks_words(rows) if results else self._missing(known)
        self.words.setText(said)

    def _missing(self, known: Reply[tuple[CheckResult, ...]] | None) -> str:
        """Say why no check was made."""
        state = self._state
        if state.trace is None:
            return _(NOT_RUN)
        if state.opened is None:
            return _("The checks follow once the model is open.")
        if known is None:
            return ""
        if state.busy:
            return _("The sentence is run in several ways that ought to agree…")
        return known.reason or _("Stopped.")

    def _look(self, row: CheckRow) -> None:
        if row.at is not None:
            self.session.go(look_at(self.session.state, row.id, row.at))


class CheckTable(Dressed, QTableWidget):
    """A row for each check, as high as its words need."""

    picked = Signal(object)  # a CheckRow

    def __init__(self, name: str) -> None:
        super().__init__(0, len(TITLES))
        self.rows: tuple[CheckRow, ...] = ()
        self.setAccessibleName(name)
        self.setHorizontalHeaderLabels([_(title) for title in TITLES])
        self.verticalHeader().hide()
        self.setTabKeyNavigation(False)
        self.setEditTriggers(QTableWidget.EditTrigger.NoEditTriggers)
        self.setSelectionBehavior(QTableWidget.SelectionBehavior.SelectRows)
        self.setSelectionMode(QTableWidget.SelectionMode.SingleSelection)
        self.setVerticalScrollMode(QTableWidget.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        across = self.horizontalHeader()
        across.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        across.setDefaultAlignment(
            Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        )
        self.cellClicked.connect(lambda row, _column: self.picked.emit(self.rows[row]))
        self.dress()

    def draw(self, rows: tuple[CheckRow, ...]) -> None:
        """Write these rows: faults are bold, places that can be gone to underlined."""
        self.rows = rows
        self.setRowCount(len(rows))
        for at, row in enumerate(rows):
            for column, text in enumerate(row.words):
                item = QTableWidgetItem(text)
                item.setTextAlignment(
                    Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop
                )
                font = QFont(self.font())
                font.setBold(row.verdict == "fault")
                if row.at is not None:
                    font.setUnderline(column == WHERE)
                    item.setToolTip(plain_tip(_("Click to see it.")))
                item.setFont(font)
                self.setItem(at, column, item)
        self._dress()

    def _dress(self) -> None:
        self.setMinimumHeight(LEAST_LINES * self.fontMetrics().lineSpacing())
        room = self.viewport().width()
        widths = [round(share * room) for share in SHARES]
        # a last column that Qt stretches gets its width after rows have their heights
        for column, width in enumerate((*widths, room - sum(widths))):
            self.setColumnWidth(column, width)
        self.resizeRowsToContents()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._dress()

    def event(self, event: QEvent) -> bool:
        """Take Up and Down before the window goes to another layer by them."""
        taken = event.type() == QEvent.Type.ShortcutOverride
        if taken and isinstance(event, QKeyEvent) and event.key() in _MOVES:
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Go to the place of the current row; other keys are the window's."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            if self.currentRow() >= 0:
                self.picked.emit(self.rows[self.currentRow()])
        elif event.key() in _MOVES:
            super().keyPressEvent(event)
        else:
            event.ignore()


_MOVES = Qt.Key.Key_Up, Qt.Key.Key_Down
