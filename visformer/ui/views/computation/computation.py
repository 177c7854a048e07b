"""The Computation tab: a layer's arithmetic, stage by stage, down to the number."""

from dataclasses import replace
from typing import Any

from PySide6.QtCore import QRect, QSignalBlocker, Qt
from PySide6.QtGui import QKeyEvent, QPaintEvent, QPalette, QResizeEvent
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QPushButton,
    QStyle,
    QStyleOptionTab,
    QStylePainter,
    QTabBar,
    QWidget,
)

from visformer.engine.messages import Parameters
from visformer.language import N_, _
from visformer.pictures.computation.feed_forward_stages import own_rate
from visformer.pictures.computation.stage_picture import StagePicture, of_both
from visformer.pictures.computation.stages import (
    PAGES,
    StagePage,
    heading,
    neighbour,
    no_cell_beside,
    no_cell_words,
    picture,
    stage_of,
    stages_on,
    titles_on,
)
from visformer.pictures.computation.subject import Subject, subject
from visformer.pictures.picture import Axis
from visformer.pictures.selection import AttentionCell, Selection
from visformer.pictures.words.absent import missing_kinds_words
from visformer.pictures.words.role_text import RoleText, role_text
from visformer.session.both import names
from visformer.session.state import Session, State
from visformer.ui.layout import LeastColumn, SingleShot, fill, laid_out_once
from visformer.ui.look.theme import Dressed, hue
from visformer.ui.views.computation.computation_maps import StageMaps
from visformer.ui.views.view import View
from visformer.ui.widgets.both_runs import BesideSwitch
from visformer.ui.widgets.canvas import MapCell
from visformer.ui.widgets.controls import chooser, number_field, prepared, titled
from visformer.ui.widgets.number_table import NumberTable
from visformer.ui.widgets.plain_label import Hint, RoleLabel, paragraph
from visformer.values.facts import KINDS
from visformer.values.trace import Trace
from visformer.words import KIND_NAMES, layer_words

TABLE_SHARE = 0.32  # of the height, at most
HINT = N_("keys: [ and ]")
LATE_MS = 100  # usually weights take a few; then the view says that it waits

MOST_RATE = 0.9  # of dropout


class ComputationView(Dressed, View):
    """Pages, stages, the current stage's matrices, and the cell's numbers below."""

    name, compares = "computation", True

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._subject: Subject | None = None
        self._picture: StagePicture | None = None
        self._late = SingleShot(self, self._draw_changes, LATE_MS)
        self.page_bar = _bar(
            _("pages of the computation"), tuple(_(title) for title in PAGES.values())
        )
        self.page_bar.tabBarClicked.connect(self._go_to_page)
        self.stages: dict[StagePage, QTabBar] = {}
        for page, title in PAGES.items():
            titles = tuple(_(stage.title) for stage in stages_on(page))
            self.stages[page] = _bar(_("stages: {page}", page=_(title)), titles)
            self.stages[page].tabBarClicked.connect(self._go_to_stage)
        kind, layer, head = self.choosers = (
            chooser(_("kind of attention")),
            chooser(_("layer of the computation")),
            chooser(_("head of the computation")),
        )
        kind.activated.connect(lambda at: session.set(kind=kind.itemData(at)))
        layer.activated.connect(lambda at: session.set(layer=at))
        head.activated.connect(lambda at: session.set(head=at))
        self.fields, self.beside = StageFields(session), BesideSwitch(session)
        self._absent = paragraph(_("kinds of attention that are not there"))
        self._heading = RoleLabel(_("the cell that is shown"))
        self._formula = RoleLabel(_("the formula of this stage"))
        self._words = RoleLabel(_("the numbers of the cell"))
        for label in (self._formula, self._words):
            label.setAlignment(Qt.AlignmentFlag.AlignTop)
        self._words.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse
        )
        self.maps = StageMaps()
        self.maps.hovered.connect(self._hover)
        self.maps.clicked.connect(self._click)
        self.table = NumberTable(_("the numbers of this stage"))
        self.table.hovered.connect(self._hover_table)
        self.table.picked.connect(self._click_table)
        self._lay_out()

    def _lay_out(self) -> None:
        hint = Hint(_(HINT))
        row = self.page_bar, *self.choosers, (hint, 1), self.beside
        first = fill(QHBoxLayout(), *row)
        above = *self.stages.values(), self.fields, self._absent, self._formula
        below = self._heading, self._words, self.table
        # the stretch takes the room where there are no matrices
        parts = first, *above, (self.maps, 1), *below, None
        layout = fill(LeastColumn(self), *parts, spacing=4)
        layout.setContentsMargins(4, 4, 4, 4)
        self.dress()

    def _dress(self) -> None:
        self._words.setMinimumHeight(2 * self.fontMetrics().lineSpacing())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Leave most of the height to the matrices."""
        super().resizeEvent(event)
        self.table.set_room(int(TABLE_SHARE * self.height()))

    # ---- drawing ---------------------------------------------------------------

    def main_picture(self) -> QWidget | None:
        """Return the stage's matrices, side by side."""
        return self.maps if self._picture and self._picture.maps else None

    def present(self, *, on: bool) -> None:
        """Show an audience as many matrices as have room."""
        self.maps.present(on=on)

    def draw(self, state: State) -> None:
        """Show a State; a stage is drawn once its layer's weights are there."""
        self._state = state
        looked = state.visible, state.stage, state.kind, state.layer, state.head
        if self._changed("choosers", *looked):
            self._draw_choosers()
        self.beside.draw(state)
        if self._changed("fields", state.stage, state.stage_options, state.dropout):
            self.fields.draw(state)
        if not state.awaiting.waits(Parameters):
            self._late.stop()
            self._draw_changes()
        elif not self._late.isActive():
            self._late.start()

    def _draw_changes(self) -> None:
        state = self._state
        looked = state.visible, state.stage, state.kind, state.layer, state.head
        numbers = state.parameters, state.positions, state.scale
        focus = state.cell, state.dimensions, state.awaiting.decoding
        options = state.stage_options, state.dropout, self._other_run(state)
        if self._changed("stage", *looked, *numbers, *focus, *options):
            with laid_out_once(self):
                self._draw_stage()

    def _draw_stage(self) -> None:
        state = self._state
        self._subject = self._subject_of(state.visible, state.selection)
        page = stage_of(state.stage).page
        about = "" if self._subject is None else heading(self._subject, page)
        self._heading.setText(self._hued(about))
        self._heading.setVisible(bool(about))
        shown: StagePicture | str = no_cell_words(state.visible)
        if self._subject is not None:
            shown = picture(stage_of(state.stage), self._subject)
        other = self._other_run(state)
        if isinstance(shown, StagePicture) and self._subject is not None and other:
            shown = self._with_other(shown, self._subject, other)
        self._picture = shown if isinstance(shown, StagePicture) else None
        self._formula.setText(
            self._hued(self._picture.formula if self._picture else "")
        )
        self._words.setText(
            self._hued(self._picture.words if self._picture else str(shown))
        )
        self._draw_maps()
        self._draw_table()

    def _subject_of(self, trace: Trace | None, selection: Selection) -> Subject | None:
        state = self._state
        return subject(
            trace,
            selection,
            parameters=state.parameters,
            positions=state.positions,
            dimensions=state.dimensions,
            grows=state.awaiting.decoding,
            options=state.stage_options,
            dropout=state.dropout,
        )

    def _with_other(
        self, shown: StagePicture, own: Subject, other: Trace
    ) -> StagePicture:
        """Return a stage with that of the other run above it, or why it has none."""
        state = self._state
        called = names(state)
        said = no_cell_beside(called[0], other, own, len(state.visible or ()))
        if not said:
            cell = AttentionCell(own.kind, own.query, own.key)
            beside = self._subject_of(other, replace(state.selection, cell=cell))
            assert beside is not None
            made = picture(stage_of(state.stage), beside)
            if isinstance(made, StagePicture) and len(made.maps) == len(shown.maps):
                return of_both(made, shown, called)
            said = made if isinstance(made, str) else _("This stage is another there.")
            said = _("{run}: {words}", run=called[0], words=said)
        return replace(shown, words=f"{said}\n{shown.words}")

    def _draw_maps(self) -> None:
        state, shown = self._state, self._picture
        if shown is None or not shown.maps:
            self.maps.draw((), {})
            self.maps.hide()
        else:
            columns, two = shown.columns, shown.both
            self.maps.draw(shown.maps, self._marks(), columns=columns, both=two)
            self.maps.show()
        chosen = state.locked, tuple(sorted(state.locked_dimensions.items()))
        if self._changed("product", state.stage, *chosen):
            self.maps.run()

    def _hued(self, text: str) -> RoleText:
        reads = stage_of(self._state.stage).page == "attention"
        if self._subject is None or not reads:
            return role_text(text)
        tokens = self._subject.token("query"), self._subject.token("key")
        return role_text(text, query=tokens[0], key=tokens[1])

    def _draw_table(self) -> None:
        if self._picture is None or self._subject is None:
            self.table.hide()
            return
        numbers, marks = self._picture.table, self._marks()
        self.table.draw(numbers)
        row, column = marks.get(numbers.rows_axis), marks.get(numbers.axis)
        if row is not None:
            row -= self._subject.queries.start
        self.table.mark(row, column)
        self.table.show()

    def _marks(self) -> dict[Axis, int]:
        """Return the chosen index along every axis that has one."""
        if self._subject is None:
            return {}
        cell: dict[Axis, int] = {"query": self._subject.query, "key": self._subject.key}
        return {**self._state.dimensions, **cell}

    def _draw_choosers(self) -> None:
        state, stage = self._state, stage_of(self._state.stage)
        self.page_bar.setCurrentIndex(list(PAGES).index(stage.page))
        at = stages_on(stage.page).index(stage)
        self.stages[stage.page].setCurrentIndex(at)
        kinds = KINDS if state.visible is None else state.visible.kinds
        looked = state.visible, state.kind, state.layer
        for page, bar in self.stages.items():
            bar.setVisible(page == stage.page)
            for index, title in enumerate(titles_on(page, *looked)):
                if title != bar.tabText(index):  # Qt would lay all tabs out anew
                    bar.setTabText(index, title)
        model = None if state.visible is None else state.visible.model
        self._absent.setText(missing_kinds_words(model))
        self._absent.setVisible(bool(self._absent.text()))
        kind, layer, head = self.choosers
        kind.offer({name: _(KIND_NAMES[name]) for name in kinds}, state.kind)
        head.setVisible(stage.page == "attention")  # elsewhere all heads act as one
        if state.visible is not None:
            layers = range(state.visible.layers(state.kind))
            heads = range(state.visible.heads(state.kind))
            layer.offer({at: layer_words(at) for at in layers}, state.layer)
            titles_of_heads = {at: _("head {head}", head=at + 1) for at in heads}
            head.offer(titles_of_heads, state.head)

    # ---- what the user does ----------------------------------------------------

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Move between stages with Up and Down, where no widget inside takes them."""
        if event.key() in (Qt.Key.Key_Up, Qt.Key.Key_Down):
            by = 1 if event.key() == Qt.Key.Key_Down else -1
            self.session.set(stage=neighbour(self._state.stage, by))
        else:
            super().keyPressEvent(event)

    def _go_to_page(self, index: int) -> None:
        if index >= 0:
            page = list(PAGES)[index]
            self.session.set(stage=stages_on(page)[0].name)

    def _go_to_stage(self, index: int) -> None:
        if index >= 0:
            page = stage_of(self._state.stage).page
            self.session.set(stage=stages_on(page)[index].name)

    def _hover(self, at: dict[Axis, int] | None) -> None:
        state = self._state
        dimensions = {} if at is None else _dimensions(at)
        hovered = None if at is None else self._cell(at) or state.hovered
        if (hovered, dimensions) != (state.hovered, state.hovered_dimensions):
            self.session.set(hovered=hovered, hovered_dimensions=dimensions)

    def _click(self, at: dict[Axis, int]) -> None:
        state = self._state
        dimensions = dict(state.locked_dimensions)
        for axis, index in _dimensions(at).items():
            if dimensions.get(axis) == index:
                del dimensions[axis]
            else:
                dimensions[axis] = index
        cell = self._cell(at)
        if cell is None:
            self.session.set(locked_dimensions=dimensions)
        else:
            locked = None if cell == state.locked else cell
            self.session.set(locked=locked, locked_dimensions=dimensions)

    def _cell(self, at: dict[Axis, int]) -> AttentionCell | None:
        """Return the cell of a place; None where the place has no token."""
        subject = self._subject
        if subject is None or not {"query", "key"} & set(at):
            return None
        query, key = at.get("query", subject.query), at.get("key", subject.key)
        return AttentionCell(subject.kind, query, key)

    def _place(self, at: MapCell) -> dict[Axis, int]:
        if self._picture is None or self._subject is None:
            return {}
        numbers = self._picture.table
        place: dict[Axis, int] = {numbers.axis: at[1]}
        if numbers.rows_axis:
            place[numbers.rows_axis] = at[0] + self._subject.queries.start
        place.pop("", None)
        return place

    def _hover_table(self, at: MapCell | None) -> None:
        self._hover(None if at is None else self._place(at))

    def _click_table(self, at: MapCell) -> None:
        self._click(self._place(at))


def _dimensions(at: dict[Axis, int]) -> dict[Axis, int]:
    return {axis: index for axis, index in at.items() if axis not in ("query", "key")}


def _bar(name: str, titles: tuple[str, ...]) -> QTabBar:
    bar = prepared(RoleTabs(), name, titles)
    bar.setElideMode(Qt.TextElideMode.ElideNone)
    bar.setToolTip(_("Press [ and ], or Up and Down, to move between stages."))
    return bar


class RoleTabs(QTabBar):
    """Paints its titles itself: a style sheet allows a tab bar one colour of text."""

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the tabs, the chosen one last, and on them their titles."""
        painter, chosen = QStylePainter(self), self.currentIndex()
        for at in sorted(range(self.count()), key=lambda at: at == chosen):
            option = QStyleOptionTab()
            self.initStyleOption(option, at)
            option.text = ""
            painter.drawControl(QStyle.ControlElement.CE_TabBarTab, option)
            self._write(painter, option, at)

    def _write(self, painter: QStylePainter, option: QStyleOptionTab, at: int) -> None:
        text, chosen = self.tabText(at), at == self.currentIndex()
        role = QPalette.ColorRole.PlaceholderText
        if chosen and self.hasFocus():
            role = QPalette.ColorRole.Highlight
        elif chosen or option.state & QStyle.StateFlag.State_MouseOver:
            role = QPalette.ColorRole.WindowText
        element = QStyle.SubElement.SE_TabBarTabText
        room = self.style().subElementRect(element, option, self)
        metrics = self.fontMetrics()
        x = room.x() + (room.width() - metrics.horizontalAdvance(text)) // 2
        usual = self.palette().color(role)
        for part, of in role_text(text).parts():
            wide = metrics.horizontalAdvance(part)
            painter.setPen(hue(self.palette(), of) if of else usual)
            box = QRect(x, room.y(), wide, room.height())
            painter.drawText(box, Qt.AlignmentFlag.AlignVCenter, part)
            x += wide


class StageFields(QWidget):
    """The fields of the dropout stage; hidden for the others."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self.rate = number_field(_("rate of dropout, p"), 0, MOST_RATE)
        self.rate.setSingleStep(0.05)
        self.rate.setToolTip(
            _(
                "p: the probability that training drops a number. The numbers kept are "
                "divided by 1 − p, so that the mean stays as it is in evaluation."
            )
        )
        self.rate.valueChanged.connect(lambda rate: self._set(rate=round(rate, 2)))
        self.seed = QLabel()
        self.again = QPushButton(_("&Another draw"))
        self.again.setToolTip(_("Draw another mask: the next seed."))
        self.again.clicked.connect(self._draw_again)
        title = titled(_("dropout &rate p"), self.rate)
        fill(QHBoxLayout(self), title, self.rate, self.again, self.seed, (None, 1))

    def draw(self, state: State) -> None:
        """Show what is chosen."""
        options = state.stage_options
        self.setVisible(state.stage == "dropout")
        own = own_rate(state.dropout) if options.rate is None else options.rate
        with QSignalBlocker(self.rate):
            self.rate.setValue(own)
        self.seed.setText(_("seed {seed}", seed=options.seed))

    def _draw_again(self) -> None:
        self._set(seed=self._session.state.stage_options.seed + 1)

    def _set(self, **chosen: Any) -> None:
        options = replace(self._session.state.stage_options, **chosen)
        self._session.set(stage_options=options)
