"""The Checks page: what every check says of the run on screen, and of its model."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QFont

from visformer.language import N_, _
from visformer.pictures.output import NOT_RUN
from visformer.pictures.words.about import CheckRow, check_rows, checks_words
from visformer.session.side_requests import known_checks, look_at
from visformer.session.state import Session, State
from visformer.ui.layout import LeastColumn, fill
from visformer.ui.views.view import View
from visformer.ui.widgets.plain_label import paragraph
from visformer.ui.widgets.table_view import Role, TableColumn, TableView
from visformer.ui.window.large import present_whole
from visformer.values.finding import VERDICTS, CheckResult
from visformer.values.reply import Reply

TITLES = N_("Verdict"), N_("Check"), N_("Where"), N_("Evidence, and what to do")
VERDICT, WHERE = 0, 2  # columns
LEAST = 5  # rows in sight
TOP = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop


class ChecksPage(View):
    """A table of all checks; a click on one that names a place goes there."""

    name, title = "checks", N_("Checks")

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.words = paragraph(_("what the checks have found"))
        self.table = self.main = TableView(
            _("all checks, what is wrong first"),
            [*map(self._column, range(len(TITLES)))],
            least=LEAST,
        )
        self.table.setWordWrap(True)
        header = self.table.horizontalHeader()
        header.setDefaultAlignment(TOP)
        # not while Qt still stretches columns: it measures what is in sight then
        later = Qt.ConnectionType.QueuedConnection
        header.sectionResized.connect(self.table.resizeRowsToContents, later)
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
            self.table.fill(rows)
            self.table.resizeRowsToContents()
        self.table.setVisible(bool(rows))
        said = checks_words(rows) if results else self._missing(known)
        self.words.setText(said)

    def _column(self, at: int) -> TableColumn:
        """Return a column: faults are bold, places that can be gone to underlined."""

        def font(row: CheckRow) -> QFont:
            shown = QFont(self.table.font())
            shown.setBold(row.verdict == "fault")
            shown.setUnderline(at == WHERE and row.at is not None)
            return shown

        signs = [f"✗ {_(word)}" for word in VERDICTS.values()]
        room = {VERDICT: signs, WHERE: ("0" * 22,)}.get(at, ())
        return TableColumn(
            *(_(TITLES[at]), lambda row: row.words[at], room),
            tip=lambda row: "" if row.at is None else _("Click to see it."),
            side=TOP,
            looks={Role.FontRole: font},
        )

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
