"""The Positions tab: the table of positional encodings, and a lab to change it in."""

from collections.abc import Callable
from dataclasses import replace

from PySide6.QtCore import QSignalBlocker, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QWidget

from visformer.language import N_, _, p_
from visformer.pictures.comparison import attention_pictures
from visformer.pictures.picture import Matrix
from visformer.pictures.position_lab import (
    FORMS,
    change_of,
    result_words,
    shuffle_words,
    table_pictures,
)
from visformer.pictures.positions import (
    LIKENESS_NAMES,
    LIKENESSES,
    Likeness,
    Waves,
    cell_words,
    default_last,
    has_table,
    heat_picture,
    nothing_words,
    pair_words,
    similarity_picture,
    table_words,
    waves_of,
)
from visformer.session import side_requests
from visformer.session.runs import change_run, fixed_words
from visformer.session.state import Session, State
from visformer.ui.layout import (
    LEAST_WORDS,
    LeastColumn,
    SingleShot,
    TurningRow,
    fill,
    laid_out_once,
    paint_later,
    set_least,
)
from visformer.ui.look import theme
from visformer.ui.look.theme import Dressed, letter_width
from visformer.ui.views.positions.curves import Curves
from visformer.ui.views.positions.position_input import PositionInput
from visformer.ui.views.positions.words_page import WordsPage
from visformer.ui.views.view import PagedView, View
from visformer.ui.widgets.both_runs import Without, attention_maps, draw_both
from visformer.ui.widgets.canvas import MapCell
from visformer.ui.widgets.controls import chooser, number_field, titled, whole_field
from visformer.ui.widgets.heatmap import HeatMap
from visformer.ui.widgets.plain_label import paragraph
from visformer.ui.window.large import present_whole
from visformer.values.arrays import Floats
from visformer.values.changes.position_change import (
    AMOUNTS,
    PositionChange,
    PositionForm,
)
from visformer.values.intervention import Intervention

# Lines of text: the least heights of a table of encodings, and of a map beside it.
TABLE_LINES, ATTENTION_LINES = 9, 14
FIRST_AMOUNTS = {"shifted": 5.0, "scaled": 2.0, "permuted": 8.0, "constant": 0.0}


class PositionLab(Dressed, View):
    """Fields for one change of the encodings, and both runs side by side."""

    name, title = "lab", N_("Lab")

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.form = chooser(_("positional encodings of the run"), FORMS)
        self.form.activated.connect(self._take_form)
        self.amount = number_field(_("amount of the change"), 0, 0)
        self.amount.valueChanged.connect(self._change)
        self.seed = whole_field(_("seed of the shuffle"), 0, 9999, prefix=_("seed"))
        self.seed.valueChanged.connect(self._change)
        self.shuffle = QPushButton(_("Sh&uffle the source"))
        self.shuffle.setToolTip(
            _("Run the source in another order with the same target, and compare")
        )
        self.shuffle.clicked.connect(lambda: session.do(side_requests.shuffle))
        names = _("positions of the run on screen"), _("positions of the original run")
        self._tables = [HeatMap(name, stretch=8) for name in names]
        self._attention = attention_maps()
        self._text = paragraph(_("both translations"))
        self.bag = paragraph(_("result of the shuffled run"))
        self._fixed = paragraph(_("why the positions cannot be changed"))
        self._lay_out()

    def _lay_out(self) -> None:
        title = titled(_("Po&sitions"), self.form)
        fields = title, self.form, self.amount, self.seed, (None, 1), self.shuffle
        line = fill(QHBoxLayout(), *fields)
        tables, attention = TurningRow(*self._tables), TurningRow(*self._attention)
        self._rows = tables, attention
        # the effect comes first: below the other pair
        # it would be out of sight where text is large
        self._pairs = TurningRow((attention, 3), (tables, 2))
        words = self._fixed, self._text, self.bag
        fill(LeastColumn(self), line, *words, (self._pairs, 1))
        present_whole(attention)
        self.dress()

    def _dress(self) -> None:
        """Keep the cells visible below labels of any size."""
        for table in self._tables:
            set_least(table, TABLE_LINES)
        for heat_map in self._attention:
            set_least(heat_map, ATTENTION_LINES)
        self._text.setFont(theme.sized(self.font(), theme.TITLE, bold=True))

    def main_picture(self) -> QWidget | None:
        """Return what both runs read, or what the positions of one are."""
        one = self._attention[1].isHidden()
        return self._tables[0] if one else self._rows[1]

    def found(self) -> str:
        return self._text.text() if self._state.intervention else ""

    def draw(self, state: State) -> None:
        self._state = state
        change, run = state.intervention.positions, state.shuffle
        if self._changed("fields", change, state.positions):
            self._fill_fields(state)
        if self._changed("tables", state.trace, state.positions, change):
            pictures = table_pictures(state.trace, state.positions, change)
            draw_both(self._tables, pictures)
            model = state.model
            self._rows[0].setVisible(model is None or model.known is not None)
        head = state.kind, state.layer, state.head, state.scale
        if self._changed("attention", state.visible, state.baseline, *head):
            looked = state.visible, state.baseline, state.selection
            draw_both(self._attention, attention_pictures(*looked))
        compared = (pair[1] for pair in (self._tables, self._attention))
        self._pairs.keep_below(below=any(not one.isHidden() for one in compared))
        if self._changed("words", state.trace, state.baseline):
            self._text.setText(result_words(state.trace, state.baseline))
        if self._changed("shuffle", run):
            self.bag.setText("" if run is None else shuffle_words(*run))
            self.bag.setVisible(run is not None)
        fixed = fixed_words(state)
        self._fixed.setText(fixed)
        self._fixed.setVisible(bool(fixed))
        idle = state.trace is not None and not state.recorded and not state.busy
        self.shuffle.setEnabled(idle and bool(state.step))
        able = state.positions is not None and not fixed
        for field in (self.form, self.amount, self.seed):
            field.setEnabled(able)

    def _fill_fields(self, state: State) -> None:
        change = state.intervention.positions
        form = change.form if change else None
        with QSignalBlocker(self.form):
            self.form.setCurrentIndex(self.form.findData(form))
        self._fit_amount(form)
        if change is not None:
            with QSignalBlocker(self.amount), QSignalBlocker(self.seed):
                self.amount.setValue(change.amount)
                self.seed.setValue(change.seed)

    def _fit_amount(self, form: str | None) -> None:
        """Set the range of the amount field to what it counts."""
        table = self._state.positions
        last = 0 if table is None else len(table) - 1
        self.amount.setVisible(form in AMOUNTS)
        self.seed.setVisible(form == "permuted")
        with QSignalBlocker(self.amount):
            scaled = form == "scaled"
            self.amount.setDecimals(2 if scaled else 0)
            low = -100.0 if scaled else 2.0 if form == "permuted" else 0.0
            self.amount.setRange(low, 100.0 if scaled else last)

    def choose(self, form: PositionForm | None) -> None:
        """Choose a form as the user would; None is the model's own."""
        self.form.setCurrentIndex(self.form.findData(form))
        self._take_form()

    def _take_form(self) -> None:
        form = self.form.currentData()
        self._fit_amount(form)
        with QSignalBlocker(self.amount):
            self.amount.setValue(FIRST_AMOUNTS.get(form, 0.0))
        self._change()

    def _change(self) -> None:
        change = change_of(
            self.form.currentData(), self.amount.value(), self.seed.value()
        )
        others = self._state.intervention.without(PositionChange("none"))
        changed = others.with_change(change) if change else others
        self.session.do(change_run, changed)


HINT = N_("Point at the map to read position, dimension and value here.")


class PositionTable(Dressed, View):
    """Heat map, curves and similarity of the encodings, over one range of positions."""

    name, title = "table", N_("Table")

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._about = paragraph(_("what the table is"))
        self._hover = paragraph(_("the cell pointed at"), _(HINT))
        self._range = _Range()
        self._range.changed.connect(self._choose_range)
        self._heat_map = self.main = HeatMap(
            _("positional encodings, positions by dimensions"), stretch=4
        )
        self._heat_map.hovered.connect(self._tell)
        self._curves = Curves()
        self._similarity = _Similarity()
        self._similarity.chosen.connect(self._choose_likeness)
        # a table that is new on screen is drawn in some turns of the event loop
        self._beside = self._say, self._draw_curves, self._draw_similarity
        self._left: list[Callable[[], None]] = []
        self._waves: Waves = "none"
        self._late = SingleShot(self, self._draw_late)
        self._lay_out()

    def _lay_out(self) -> None:
        maps = TurningRow((self._heat_map, 3), (self._similarity, 2))
        self._pictures = QWidget()
        fill(LeastColumn(self._pictures), (maps, 3), (self._curves, 2))
        line = TurningRow((self._range, 0), self._hover)
        # the stretch takes the space where there are no pictures
        fill(LeastColumn(self), self._about, line, (self._pictures, 1), None)
        self.dress()

    def _dress(self) -> None:
        set_least(self._heat_map)
        letter = letter_width(self.fontMetrics())
        self._hover.setMinimumWidth(LEAST_WORDS * letter)

    def draw(self, state: State) -> None:
        """Show the open model's table; a longer sentence lengthens the first range."""
        self._state = state
        self._similarity.compare(state.views.likeness)
        moved = self._changed("range", self._limits())
        if self._changed("table", state.positions, state.model):
            with laid_out_once(self):
                self._draw_table()
        elif moved:
            self._draw_range()

    def _limits(self) -> tuple[int, int]:
        """Return the first and last position shown; at first, those of the sentence."""
        table = self._state.positions
        last = default_last(table, self._state.trace)
        first, last = self._state.views.positions or (0, last)
        most = 0 if table is None else len(table) - 1
        first = max(0, min(first, most))
        return first, max(first, min(last, most))

    def _choose_range(self, first: int, last: int) -> None:
        self.session.set(views=replace(self._state.views, positions=(first, last)))

    def _choose_likeness(self, likeness: str) -> None:
        self.session.set(views=replace(self._state.views, likeness=likeness))

    def _draw_table(self) -> None:
        table, model = self._state.positions, self._state.model
        usable = has_table(table, model)
        self._range.setVisible(usable)
        self._pictures.setVisible(usable)
        self._hover.setText(_(HINT) if usable else "")
        self._left = []
        if table is None or not usable:
            self._about.setText(nothing_words(model))
            self._heat_map.draw(None)
            self._curves.draw(None)
            self._similarity.draw(None)
            return
        self._left = list(self._beside)
        if self.isVisible():
            paint_later(self, 1 + len(self._left))
            self._late.start()
        self._range.set_count(len(table))
        self._draw_range()
        while self._left and not self._late.isActive():
            self._left.pop(0)()

    def _draw_late(self) -> None:
        with laid_out_once(self, self._curves, self._similarity):
            if self._left:
                self._left.pop(0)()
        if self._left:
            self._late.start()

    def _say(self) -> None:
        table, model = self._state.positions, self._state.model
        if table is not None:
            self._waves = waves_of(table)
            self._about.setText(table_words(table, waves=self._waves, model=model))

    def _draw_curves(self) -> None:
        self._curves.draw(self._state.positions, waves=self._waves)
        self._curves.set_range(self._range.first, self._range.last)

    def _draw_similarity(self) -> None:
        self._similarity.draw(self._state.positions)
        self._similarity.set_range(self._range.first, self._range.last)

    def _draw_range(self) -> None:
        if self._state.positions is not None:
            first, last = self._limits()
            self._range.draw(first, last)
            self._heat_map.draw(heat_picture(self._state.positions, first, last))
            if self._draw_curves not in self._left:
                self._curves.set_range(first, last)
            if self._draw_similarity not in self._left:
                self._similarity.set_range(first, last)

    def _tell(self, cell: MapCell | None) -> None:
        table = self._state.positions
        if cell is None or table is None:
            self._hover.setText(_(HINT))
            self._curves.mark(None)
            return
        position = self._range.first + cell[0]
        words = cell_words(table, self._state.visible, position, cell[1])
        self._hover.setText(words)
        self._curves.mark(position)


class PositionsView(PagedView):
    """The table of encodings, what it adds to the input, and a lab to change it in."""

    name = "positions"
    pages = PositionTable, PositionInput, WordsPage, PositionLab
    plots = True

    def __init__(self, session: Session) -> None:
        super().__init__(session, NO_POSITIONS)


def _turned(change: Intervention) -> Intervention:
    """Run without positions, or with the model's own again."""
    none = PositionChange("none")
    return change.without(none) if none in change else change.with_change(none)


NO_POSITIONS = Without(
    N_("Run without positions"),
    N_("Run with positions again"),
    lambda change: PositionChange("none") in change,
    _turned,
    lambda state: state.positions is not None,
    lambda state: state,
)


class _Range(QWidget):
    """The positions that are shown: two fields, and a button for all."""

    changed = Signal(int, int)  # the user chose a first and a last one

    def __init__(self) -> None:
        super().__init__()
        self._first = whole_field(_("first position"), 0, 0, prefix=_("pos"))
        self._last = whole_field(_("last position"), 0, 0, prefix=_("pos"))
        self._of = QLabel()
        self._all = QPushButton(_("&All"))
        self._all.setAccessibleName(_("show all positions"))
        self._all.clicked.connect(self._take_all)
        title, to = titled(_("&Positions"), self._first), QLabel(p_("up to", "to"))
        parts = title, self._first, to, self._last, self._of, self._all
        fill(QHBoxLayout(self), *parts)
        for spin_box in (self._first, self._last):
            spin_box.valueChanged.connect(self._change)

    @property
    def first(self) -> int:
        """The first position shown."""
        return self._first.value()

    @property
    def last(self) -> int:
        """The last position shown."""
        return self._last.value()

    def set_count(self, count: int) -> None:
        """Set how many positions there are to choose from."""
        # i18n: after the numbers of the first and last position
        self._of.setText(_("of {count:,}", count=count))
        with QSignalBlocker(self._first), QSignalBlocker(self._last):
            self._first.setRange(0, count - 1)
            self._last.setRange(0, count - 1)

    def draw(self, first: int, last: int) -> None:
        """Show these as the first and last position."""
        with QSignalBlocker(self._first), QSignalBlocker(self._last):
            self._first.setValue(first)
            self._last.setValue(last)

    def _take_all(self) -> None:
        self.changed.emit(0, self._last.maximum())

    def _change(self) -> None:
        """Keep first <= last: the field that was changed pushes the other."""
        first, last = self._first.value(), self._last.value()
        if first > last:
            first, last = (
                (first, first) if self.sender() is self._first else (last, last)
            )
        self.changed.emit(first, last)


class _Similarity(Dressed, QWidget):
    """How similar every two positions are, by dot product or cosine."""

    chosen = Signal(str)  # a name of LIKENESSES

    def __init__(self) -> None:
        super().__init__()
        self._table: Floats | None = None
        self._range, self._likeness = (0, 0), ""
        self._picture: Matrix | None = None
        self._choice = chooser(_("how positions are compared"), LIKENESS_NAMES)
        self._choice.currentIndexChanged.connect(
            lambda _: self.chosen.emit(self._choice.currentData())
        )
        self._words = paragraph(_("what the similarity map shows"))
        self._heat_map = HeatMap(_("similarity of every two positions"))
        self._heat_map.hovered.connect(self._tell)
        title = titled(_("Si&milarity"), self._choice)
        line = fill(QHBoxLayout(), title, self._choice, (None, 1))
        fill(LeastColumn(self), line, self._words, (self._heat_map, 1))
        self.dress()

    def _dress(self) -> None:
        set_least(self._heat_map)

    def draw(self, table: Floats | None) -> None:
        """Use another table; it is painted when a range is set."""
        self._table = table
        if table is None:
            self._heat_map.draw(None)
            self._words.setText("")

    def compare(self, likeness: str) -> None:
        """Compare positions in this way; "" for the first one."""
        if likeness != self._likeness:
            self._likeness = likeness
            with QSignalBlocker(self._choice):
                self._choice.setCurrentIndex(max(0, self._choice.findData(likeness)))
            self._redraw()

    def set_range(self, first: int, last: int) -> None:
        """Compare the positions of a range."""
        self._range = first, last
        self._redraw()

    def _redraw(self) -> None:
        if self._table is None:
            return
        likeness: Likeness = self._choice.currentData()
        self._picture = similarity_picture(self._table, *self._range, likeness=likeness)
        self._heat_map.draw(self._picture)
        self._tell(None)

    def _tell(self, cell: MapCell | None) -> None:
        if self._picture is None:
            return
        likeness: Likeness = self._choice.currentData()
        self._words.setText(
            _(LIKENESSES[likeness])
            if cell is None
            else pair_words(self._picture, likeness, *cell)
        )
