"""The Lab page: the same sentence under other positional encodings."""

from __future__ import annotations

from PySide6.QtCore import QSignalBlocker
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QWidget

from visformer.language import N_, _
from visformer.pictures.comparison import attention_pictures
from visformer.pictures.position_lab import (
    FORMS,
    change_of,
    result_words,
    shuffle_words,
    table_pictures,
)
from visformer.session import side_requests
from visformer.session.runs import change_run, fixed_words
from visformer.session.state import Session, State
from visformer.ui.layout import LeastColumn, TurningRow, fill, set_least
from visformer.ui.look import theme
from visformer.ui.look.theme import Dressed
from visformer.ui.views.view import View
from visformer.ui.widgets.controls import chooser, number_field, titled, whole_field
from visformer.ui.widgets.heatmap import HeatMap
from visformer.ui.widgets.plain_label import paragraph
from visformer.ui.widgets.run_switch import attention_maps, draw_both
from visformer.ui.window.large import present_whole
from visformer.values.changes.position_change import (
    AMOUNTS,
    PositionChange,
    PositionForm,
)

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
