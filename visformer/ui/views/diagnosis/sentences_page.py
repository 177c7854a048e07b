"""The Sentences page: pairs of a file, their tokens tinted by the model's losses."""

from collections.abc import Callable
from operator import attrgetter

from PySide6.QtCore import QRect, Qt
from PySide6.QtGui import QColor, QPainter, QPalette
from PySide6.QtWidgets import (
    QHBoxLayout,
    QStyle,
    QStyleOptionViewItem,
    QWidget,
)

from visformer.language import N_, _
from visformer.pictures.words.modified_run import loss_share
from visformer.session import scans
from visformer.session.state import Session, State
from visformer.ui.bars.chip_painter import TINTS, readable_on
from visformer.ui.layout import LeastColumn, fill
from visformer.ui.look.theme import loss_colour
from visformer.ui.views.view import View
from visformer.ui.widgets.controls import chooser, word_button
from visformer.ui.widgets.plain_label import paragraph
from visformer.ui.widgets.table_view import (
    BarDelegate,
    Index,
    TableColumn,
    TableView,
    number_column,
)
from visformer.ui.window.change_offers import asked_pairs
from visformer.ui.window.large import present_whole
from visformer.ui.window.window_parts import WindowParts
from visformer.values.pieces import begins_word, marks_of, plain
from visformer.values.scanned import ScannedPair


def _columns() -> tuple[TableColumn, ...]:
    def number(title: str, name: str, digits: int = 2, about: str = "") -> TableColumn:
        return number_column(title, attrgetter(name), digits, about)

    def words(title: str, text: Callable[[ScannedPair], str]) -> TableColumn:
        return TableColumn(title, text, key=text)

    return (
        number(_("Line"), "line", 0),
        words(_("Source"), attrgetter("source")),
        words(_("Reference"), _target),
        number(
            *(_("Fault"), "fault", 2),
            _(
                "The largest of the root mean square of the losses, the loss of the "
                "end, in nats, and how many tokens repeat"
            ),
        ),
        number(_("Worst"), "worst", 2, _("The largest loss of a token, in nats")),
        number(_("Mean"), "mean", 2, _("The mean loss of a token, in nats")),
        number(
            _("Length"), "length_ratio", 2, _("Target tokens for each source token")
        ),
        number(
            *(_("Coverage"), "coverage", 2),
            _(
                "How much attention the source tokens get, 0 to 1: the geometric mean "
                "of what each gets in all, at most 1"
            ),
        ),
        number(
            *(_("Repeats"), "stuck", 0),
            _("How many tokens repeat those directly before them"),
        ),
        TableColumn(
            *(_("Kind"), attrgetter("kind_words"), ("0" * 18,)),
            lambda one: one.kind or "",
        ),
    )


REFERENCE, FAULT = 2, 3
LEAST = 5  # rows that are always in sight
GAP = 0.25  # lines of text between two tokens of different words


def _target(pair: ScannedPair) -> str:
    return pair.reference or pair.translation


class SentencesPage(View):
    """A table of scanned pairs; a pair is shown at its worst token."""

    name, title = "sentences", N_("Sentences")

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.choose = word_button(
            _("Scan a file…"),
            _("Pairs of sentences: a source, a tab and a reference on each line"),
            self._choose,
        )
        self.save = word_button(
            _("Save as JSON lines…"),
            _("The pairs that are listed, as “visformer scan --json” prints them"),
            self._save,
        )
        self.kinds = chooser(_("kind of fault"))
        self.buckets = chooser(_("group of pairs"))
        for box in (self.kinds, self.buckets):
            box.activated.connect(lambda: self._list())
        self.words = paragraph(_("what is scanned"))
        name, columns = _("scanned pairs"), _columns()
        self.table = TableView(name, columns, by=FAULT, least=LEAST, high=1.6)
        self.main = self.table
        present_whole(self.table)
        self.table.setItemDelegate(_TintedTokens(self.table))
        self.table.opened.connect(self._open)
        row = fill(
            QHBoxLayout(), self.choose, self.kinds, self.buckets, self.save, None
        )
        fill(LeastColumn(self), row, self.words, (self.table, 1), None)

    def draw(self, state: State) -> None:
        """List the pairs that have come."""
        self._state, found = state, state.scan
        self.choose.setEnabled(state.opened is not None and not state.busy)
        if not self._changed("scan", found):
            return
        self.words.setText(scans.words(state))
        pairs = () if found is None else found.pairs
        for part in (self.kinds, self.buckets, self.save, self.table):
            part.setVisible(bool(pairs))
        groups = (self.kinds, scans.kinds()), (self.buckets, scans.buckets())
        everything = {"": _("all pairs")}
        for box, tests in groups:
            offered = everything | (scans.counted(found, tests) if found else {})
            chosen = box.currentData()
            box.offer(offered, chosen if chosen in offered else "")
        self._list()

    @property
    def _listed(self) -> list[ScannedPair]:
        """The pairs that both boxes let through."""
        found = self._state.scan
        tests = [
            known[name]
            for known, name in (
                (scans.kinds(), self.kinds.currentData()),
                (scans.buckets(), self.buckets.currentData()),
            )
            if name
        ]
        pairs = () if found is None else found.pairs
        return [one for one in pairs if all(test(one) for test in tests)]

    def _list(self) -> None:
        self.table.fill(self._listed)

    def _choose(self) -> None:
        if path := asked_pairs(self):
            self.session.do(scans.scan, path)

    def _save(self) -> None:
        window, pairs = self.window(), self.table.items
        if isinstance(window, WindowParts):
            window.save_text(
                _("Save the pairs"), "pairs.jsonl", lambda: scans.json_lines(pairs)
            )

    def _open(self, pair: ScannedPair) -> None:
        window = self.window()
        if isinstance(window, WindowParts):
            window.turn_to(scans.show_pair, pair)


class _TintedTokens(BarDelegate):
    """Paints each token of a reference on the colour of its loss.

    Where there is no room for all, the worst one stays in sight.
    """

    def __init__(self, table: TableView) -> None:
        super().__init__(table)
        self._table = table
        self._colours: dict[tuple[int, int], tuple[QColor, QColor]] = {}

    def _colour(self, palette: QPalette, loss: float) -> tuple[QColor, QColor]:
        """Return the ground of a loss, and the colour of text on it."""
        shade = round(TINTS * loss_share(loss))
        key = palette.cacheKey(), shade
        if key not in self._colours:
            ground = loss_colour(palette, shade / TINTS)
            text = palette.color(QPalette.ColorRole.Text)
            self._colours[key] = ground, readable_on(ground, text)
        return self._colours[key]

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: Index
    ) -> None:
        if index.column() != REFERENCE:
            super().paint(painter, option, index)
            return
        shown, table = QStyleOptionViewItem(option), self._table
        self.initStyleOption(shown, index)
        shown.text = ""
        style = table.style()
        style.drawControl(QStyle.ControlElement.CE_ItemViewItem, shown, painter, table)
        edge = style.pixelMetric(QStyle.PixelMetric.PM_FocusFrameHMargin) + 1
        painter.save()
        painter.setClipRect(option.rect)
        room = option.rect.adjusted(edge, 0, -edge, 0)
        self._paint(painter, room, table.item(index), table)
        painter.restore()

    def _paint(
        self, painter: QPainter, room: QRect, pair: ScannedPair, widget: QWidget
    ) -> None:
        metrics, marks = widget.fontMetrics(), marks_of(pair.tokens)
        gap, x, before = round(GAP * metrics.height()), 0, ""
        boxes: list[tuple[int, int, str]] = []  # left edge, width, text
        for token in pair.tokens:
            text = plain(token, marks)
            x += gap if begins_word(token, before, marks) else 0
            wide = metrics.horizontalAdvance(text)
            boxes.append((x, wide, text))
            x, before = x + wide, token
        left, wide, _text = boxes[pair.worst_token]
        shift = max(0, min(left + wide, x) - room.width())
        height = round(1.2 * metrics.height())
        top = room.center().y() - height // 2
        for (left, wide, text), loss in zip(boxes, pair.loss, strict=True):
            box = QRect(room.left() + left - shift, top, wide, height)
            if not box.intersects(room):
                continue
            ground, ink = self._colour(widget.palette(), loss)
            painter.fillRect(box, ground)
            painter.setPen(ink)
            painter.drawText(box, Qt.AlignmentFlag.AlignCenter, text)
