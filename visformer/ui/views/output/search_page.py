"""The Search page: a beam search as a tree, and the hypotheses that it finished."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import QModelIndex, QSignalBlocker, Qt, Signal
from PySide6.QtGui import QFont, QKeyEvent, QKeySequence
from PySide6.QtWidgets import QHBoxLayout, QHeaderView, QTableView, QWidget

from visformer.language import N_, _
from visformer.pictures.beam_tree import (
    Hypothesis,
    Node,
    beam_tree,
    hypotheses,
    hypotheses_table,
    node_words,
    penalty_words,
)
from visformer.pictures.picture import Table
from visformer.session.searches import (
    beams_of,
    choose_beams,
    follow,
    no_search_words,
    search,
    wanted_search,
)
from visformer.session.state import Session, State
from visformer.ui.layout import LeastColumn, fill, scrolled
from visformer.ui.look.theme import Dressed
from visformer.ui.views.output.tree_canvas import TreeCanvas
from visformer.ui.views.view import View
from visformer.ui.widgets.controls import number_field, titled, whole_field, word_button
from visformer.ui.widgets.export import CSV, Export
from visformer.ui.widgets.number_table import Role, TableModel
from visformer.ui.widgets.plain_label import paragraph, plain_tip
from visformer.ui.window.large import present_whole
from visformer.values.beam_search import BeamSearch

MOST_FIELD = 64  # in the field: of more, the lines could not be read
LEAST_LINES = 4  # of hypotheses that are in sight
TITLES = N_("score"), N_("sum of log p"), N_("length"), N_("hypothesis")


class SearchPage(Dressed, View):
    """What was kept and dropped at every step; a click shows the run of a history."""

    name, title = "search", N_("Search")

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.beams = whole_field(_("number of beams"), 1, MOST_FIELD)
        self.beams.valueChanged.connect(lambda n: session.do(choose_beams, n))
        self.penalty = number_field(_("length penalty"), -9, 9)
        self.penalty.setSingleStep(0.1)
        self.penalty.valueChanged.connect(self._rank)
        self.again = word_button(_("Search"), _("Search this sentence now"))
        self.again.clicked.connect(lambda: session.do(search, again=True))
        self.canvas = TreeCanvas()
        self.canvas.setAccessibleName(_("the beam search, step by step"))
        self.canvas.hovered.connect(self._tell)
        self.canvas.clicked.connect(self._go_to)
        self.area = scrolled(self.canvas)
        self.area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        bar = self.area.horizontalScrollBar()
        bar.valueChanged.connect(lambda _value: self.canvas.update())
        self.about = paragraph(_("what the search does"))
        self.list = HypothesisTable(_("finished hypotheses, best first"))
        self.list.picked.connect(self._follow)
        self.how = paragraph(_("how hypotheses are ranked"))
        self._searched = QWidget()
        penalty = titled(_("&length penalty"), self.penalty)
        ranking = fill(QHBoxLayout(), penalty, self.penalty, (self.how, 1))
        parts = (self.area, 3), ranking, (self.list, 1), None
        fill(LeastColumn(self._searched), *parts)
        beams = titled(_("&beams"), self.beams)
        line = fill(QHBoxLayout(), beams, self.beams, self.again, (self.about, 1))
        fill(LeastColumn(self), line, (self._searched, 1), None)
        present_whole(self.area)
        self.dress()

    def _dress(self) -> None:
        line = self.fontMetrics().lineSpacing()
        self.about.setMinimumHeight(2 * line)
        self.how.setMinimumHeight(2 * line)
        self.area.setMinimumHeight(8 * line)

    def main_picture(self) -> QWidget | None:
        """Return the tree."""
        return self.area if self._searched.isVisibleTo(self) else None

    # ---- drawing ---------------------------------------------------------------

    def draw(self, state: State) -> None:
        """Show the search that belongs to the run on screen, as far as it is known."""
        self._state = state
        found = self.found_search()
        with QSignalBlocker(self.beams):
            self.beams.setValue(beams_of(state))
        self._searched.setVisible(found is not None)
        if found is None or state.trace is None or state.visible is None:
            self.about.setText(self._missing())
            self.again.setVisible(not state.busy and wanted_search(state) is not None)
            self._changed.forget("step")
            return
        self.again.hide()
        tree = beam_tree(found, state.trace)
        ids = [step.id for step in state.trace.steps[tree.first :]]
        own = tree.along(ids)
        current = len(state.visible) - tree.first - 1
        whole = state.look.ahead or len(state.visible) == len(state.trace)
        shown = len(tree.columns) if whole else current + 1
        if self._changed("tree", tree, own, state.look.pieces):
            self.canvas.draw(tree, own, current, shown)
            bar = self.area.horizontalScrollBar().sizeHint().height()
            self.area.setMaximumHeight(self.canvas.most + bar)
        if self._changed("step", tree, current, shown):
            self.canvas.go(current, shown)
            self._see(current)
            self._tell(None)
        if self._changed("list", found, state.views.penalty, own):
            mine = own[-1] if own and len(own) == len(ids) else None
            self.list.draw(hypotheses(found, state.views.penalty), mine)
            self.how.setText(penalty_words(found))
            chosen, own_one = state.views.penalty, found.length_penalty
            with QSignalBlocker(self.penalty):
                self.penalty.setValue(own_one if chosen is None else chosen)

    def found_search(self) -> BeamSearch | None:
        """Return the search of what is on screen, once it is known."""
        known, opened = self._state.search, self._state.opened
        wanted = wanted_search(self._state)
        if known is None or wanted is None or opened is None:
            return None
        return known.found if known.is_of(opened.number, wanted) else None

    def _missing(self) -> str:
        """Say why there is no tree."""
        state, known = self._state, self._state.search
        none = no_search_words(state)
        if none or state.opened is None:
            return none or _("The search follows once the model is open.")
        if state.busy:
            return _("Searching…")
        return "" if known is None else known.reason or _("The search was stopped.")

    def _see(self, column: int) -> None:
        """Scroll to the current step."""
        box = self.canvas.grid.box(max(0, column), 0)
        bar, wide = self.area.horizontalScrollBar(), self.area.viewport().width()
        left, right = box.left() - box.width(), box.right() + box.width()
        if left < bar.value() or right > bar.value() + wide:
            bar.setValue(round(box.center().x() - wide / 2))

    # ---- what the user does ----------------------------------------------------

    def _tell(self, node: Node | None) -> None:
        """Describe the node pointed at."""
        tree = self.canvas.tree
        said = _("Click a token to see the run along its history; undo leads back.")
        self.about.setText(node_words(tree, node) if tree and node else said)

    def _go_to(self, node: Node) -> None:
        if self.canvas.tree is not None:
            self.session.do(follow, self.canvas.tree.history(node))

    def _follow(self, one: Hypothesis) -> None:
        found = self.found_search()
        if found is not None:
            self.session.do(follow, found.line_of(one.one).ids)

    def _rank(self, penalty: float) -> None:
        found = self.found_search()
        own = found is not None and penalty == round(found.length_penalty, 2)
        views = replace(self._state.views, penalty=None if own else penalty)
        self.session.set(views=views)


class HypothesisTable(Dressed, QTableView):
    """Score, sum, length and text of each hypothesis; that of the run is bold."""

    picked = Signal(object)  # a Hypothesis

    def __init__(self, name: str) -> None:
        super().__init__()
        self.setAccessibleName(name)
        self.lines: tuple[Hypothesis, ...] = ()
        self._own: int | None = None
        self._model = TableModel(self, self._cell, self._title)
        self.setModel(self._model)
        self.setTabKeyNavigation(False)
        self.setSelectionBehavior(QTableView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QTableView.SelectionMode.NoSelection)
        across, down = self.horizontalHeader(), self.verticalHeader()
        across.setStretchLastSection(True)
        for header in (across, down):
            header.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
            header.setSectionsClickable(False)
        self.clicked.connect(self._pick)
        self.export = Export(self, self.table)
        self.dress()

    def draw(self, lines: tuple[Hypothesis, ...], own: Node | None) -> None:
        """Show hypotheses; ``own`` is the node that the run on screen ends with."""
        at = None if own is None else (own.step, own.beam, own.id)
        here = (n for n, line in enumerate(lines) if line.one[:3] == at)
        self.lines, self._own = lines, next(here, None)
        if self._model.rowCount() != len(lines):  # else the current row stays
            self._model.reset(len(lines), len(TITLES))
        self.viewport().update()
        self._dress()

    def _dress(self) -> None:
        metrics, across = self.fontMetrics(), self.horizontalHeader()
        for column, title in enumerate(TITLES[:-1]):
            texts = (_(title), "−0.0000e−00")
            wide = max(map(metrics.horizontalAdvance, texts)) + metrics.height()
            across.resizeSection(column, wide)
        line = metrics.height() + 4
        self.verticalHeader().setDefaultSectionSize(line)
        around = across.sizeHint().height() + 2 * self.frameWidth()
        self.setMinimumHeight(around + line * min(LEAST_LINES, len(self.lines)))
        self.setMaximumHeight(around + line * len(self.lines))

    def _title(self, section: int, way: Qt.Orientation, role: int) -> object:
        if role != Role.DisplayRole:
            return None
        across = way == Qt.Orientation.Horizontal
        return _(TITLES[section]) if across else f"{section + 1}"

    def _cell(self, row: int, column: int, role: int) -> object:
        line = self.lines[row]
        text = (*line.words, line.text)[column]
        if role == Role.DisplayRole:
            return text
        if role == Role.ToolTipRole:
            return plain_tip(text)
        if role == Role.TextAlignmentRole and column < len(line.words):
            return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        if role == Role.FontRole and row == self._own:
            font = QFont(self.font())
            font.setBold(True)
            return font
        return None

    def table(self) -> Table | None:
        """Return the numbers for export."""
        return hypotheses_table(self.lines) if self.lines else None

    def _pick(self, at: QModelIndex) -> None:
        if 0 <= at.row() < len(self.lines):
            self.picked.emit(self.lines[at.row()])

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Go up and down, show the hypothesis, copy; other keys are the window's."""
        if event.matches(QKeySequence.StandardKey.Copy):
            self.export.copy(CSV)
        elif event.key() in (Qt.Key.Key_Up, Qt.Key.Key_Down):
            super().keyPressEvent(event)
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._pick(self.currentIndex())
        else:
            event.ignore()
