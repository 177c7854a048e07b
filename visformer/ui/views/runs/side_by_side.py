"""The Compare page: two runs side by side, and how far they differ."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
from PySide6.QtCore import QElapsedTimer, Qt
from PySide6.QtGui import QPalette, QPen
from PySide6.QtWidgets import QCheckBox, QHBoxLayout, QSizePolicy, QWidget

from visformer.language import N_, _, sentences
from visformer.pictures.comparison import (
    RunComparison,
    Runs,
    candidate_numbers,
    comparing,
    comparison_words,
    divergence_grids,
    heads_differ,
    log_p_differs,
    next_differs,
    reference_names,
)
from visformer.pictures.picture import Table
from visformer.pictures.selection import ALIGNED
from visformer.session import tree
from visformer.session.both import alone_words, both, paired
from visformer.session.run import Run, parents_of
from visformer.session.runs import fixed_words, translate
from visformer.session.state import Next, Session, State
from visformer.ui.layout import (
    Flow,
    LeastColumn,
    SingleShot,
    TurningRow,
    fill,
    set_least,
)
from visformer.ui.look.theme import FONT_PALETTE, Dressed
from visformer.ui.views.positions.curves import Plot, pens, plotting
from visformer.ui.views.view import View
from visformer.ui.widgets.both_runs import BothMaps
from visformer.ui.widgets.canvas import MapCell
from visformer.ui.widgets.cell_value import is_inside
from visformer.ui.widgets.controls import chooser, titled, word_button
from visformer.ui.widgets.export import Export
from visformer.ui.widgets.heatmap import HeatMap
from visformer.ui.widgets.number_table import NumberTable
from visformer.ui.widgets.plain_label import paragraph, plain_label, write_in
from visformer.ui.window.large import present_whole
from visformer.ui.window.window_parts import WindowParts
from visformer.values.facts import KINDS, Kind
from visformer.values.trace import Trace
from visformer.words import KIND_NAMES

SLICE_MS = 5  # of a turn of the event loop, for the heads
MAP_LINES, GRID_LINES, PLOT_LINES = 14, 9, 9  # of text: the least heights


class ComparePage(Dressed, View):
    """Where two runs part, both maps of a head, log p, and a grid of all heads."""

    name, title, plots = "compare", N_("Compare"), True
    dressed_at = FONT_PALETTE

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._found: RunComparison | None = None
        self._traces: tuple[Trace, Trace] | None = None  # whole
        self._coming: Iterator[RunComparison] = iter(())  # with more and more heads
        self._turns = SingleShot(self, self._work)
        self.other = chooser(_("the run to compare with"))
        self.other.activated.connect(self._choose)
        self.aligned = chooser(_("how source tokens are aligned"), ALIGNED)
        self.aligned.activated.connect(self._align)
        self.all = QCheckBox(_("&Only what differs"))
        self.all.clicked.connect(self._show_all)
        self.feed = word_button(
            _("Feed its translation"),
            _("Feed the other run's translation to this one, to know its log p here"),
            self._feed,
        )
        self.words = paragraph(_("how the runs differ"))
        self.grids = {kind: HeatMap(_(KIND_NAMES[kind]), stretch=3.0) for kind in KINDS}
        self.sides = BothMaps(session)
        for kind, grid in self.grids.items():
            grid.clicked.connect(partial(self._go, kind))
        self.log_p = LogP()
        self.next = NumberTable(_("the next token in both runs"))
        self._lay_out()
        self.dress()

    def _lay_out(self) -> None:
        row = QWidget()
        named = titled(_("Compared with"), self.other)
        Flow(row, named, self.other, self.aligned, self.all, self.feed)
        self._grids = TurningRow(*self.grids.values())
        self._below = TurningRow(self.log_p, self.next)
        self._pictures = (self.sides, self._grids, self._below)
        for group in self._pictures:
            present_whole(group)
        pictures = ((self._grids, 2), (self.sides, 4), (self._below, 2))
        fill(LeastColumn(self), row, self.words, *pictures, None)

    def _dress(self) -> None:
        for grid in self.grids.values():
            set_least(grid, GRID_LINES)
        for heat_map in self.sides.maps.values():
            set_least(heat_map, MAP_LINES)
        self.log_p.setMinimumHeight(PLOT_LINES * self.fontMetrics().lineSpacing())

    # ---- drawing ---------------------------------------------------------------

    def main_picture(self) -> QWidget | None:
        """Return both maps and their difference, or else what differs."""
        shown = (group for group in self._pictures if group.isVisibleTo(self))
        return next(shown, None)

    @property
    def drawing(self) -> bool:
        """Whether heads are still being compared."""
        return self._turns.isActive()

    def draw(self, state: State) -> None:
        """Compare the run on screen with another; heads follow in slices."""
        self._state, other = state, state.compared
        tree_of = state.runs, state.shown, state.pinned
        if self._changed("choosers", *tree_of, state.views, both(state)):
            self._offer(state, other)
        pairing = paired(state)
        if self._changed("pair", pairing):
            self._begin(pairing, both(state))
        everything = self._found, state.views.compare_all
        if self._changed("words", *everything, self.drawing, *tree_of):
            self._say()
        if self._changed("grids", *everything, self.drawing):
            self._draw_grids()
        for kind, grid in self.grids.items():
            at = state.layer, state.head
            here = kind == state.kind and grid.matrix and is_inside(grid.matrix, at)
            grid.mark(at if here else None, value=False)
        self.sides.setVisible(self._found is not None and self._shows_heads())
        self.sides.draw(state)
        if self._changed("next", *everything, state.visible):
            self._draw_next()
        if self._changed("log p", *everything):
            self._draw_log_p()
        shown = self._found is not None and not _all_hidden(self.log_p, self.next)
        self._below.setVisible(shown)
        self.log_p.mark(state.step)

    def _offer(self, state: State, other: Run | None) -> None:
        """List the runs, and what can be chosen of these two."""
        titles = {run.key: run.name for run in state.tree if run.key != state.shown}
        above = parents_of(state.runs).get(state.shown)
        if above in titles:
            name = _("{run} (it came from this)", run=titles[above])
            titles[above] = name
        self.other.offer(titles, None if other is None else other.key)
        self.other.setEnabled(bool(titles))
        self.aligned.setCurrentIndex(state.views.aligned == "position")
        self.all.setChecked(not state.views.compare_all)

    def _begin(
        self, pairing: RunComparison | None, traces: tuple[Trace, Trace] | None
    ) -> None:
        self._found, self._traces = pairing, traces
        self._turns.stop()
        if pairing is not None and traces is not None:
            self._coming = comparing(pairing, traces)
            self._turns.start()

    def _work(self) -> None:
        """Compare heads for some milliseconds; the rest in the next turns."""
        timer = QElapsedTimer()
        timer.start()
        while not timer.hasExpired(SLICE_MS):
            found = next(self._coming, None)
            if found is None:
                self.session.set()  # all of it is drawn at once
                return
            self._found = found
        self._turns.start()

    def _say(self) -> None:
        state, found = self._state, self._found
        for part in self._pictures:
            part.setVisible(found is not None)
        source = found is not None and not found.source.one_to_one
        self.aligned.setVisible(source)
        parted = found is not None and found.parted is not None
        self.feed.setVisible(parted and not fixed_words(state))
        if found is not None:
            said = [_("The heads are being compared.")] if self.drawing else []
            self.words.setText(sentences((*said, *comparison_words(found))))
            return
        self.words.setText(alone_words(state))

    def _draw_grids(self) -> None:
        found = self._found
        made = {} if found is None else divergence_grids(found)
        shown = self._state.views.compare_all or found is None
        for kind, grid in self.grids.items():
            matrix = made.get(kind)
            same = not shown and found is not None and matrix and found.same_heads(kind)
            grid.setVisible(matrix is not None and not same)
            grid.draw(matrix)
        self._grids.setVisible(not _all_hidden(*self.grids.values()))

    def _shows_heads(self) -> bool:
        found = self._found
        return self._state.views.compare_all or (
            found is not None and heads_differ(found)
        )

    def _draw_next(self) -> None:
        state, found, numbers = self._state, self._found, None
        if found is not None and self._traces is not None and state.visible is not None:
            steps = len(state.visible)
            runs = Runs(self._traces[0].until(steps), state.visible, steps)
            numbers = candidate_numbers(runs, found.names)
        self.next.draw(numbers)
        differs = found is not None and next_differs(found)
        self.next.setVisible(differs or (found is not None and state.views.compare_all))

    def _draw_log_p(self) -> None:
        found = self._found
        if found is None:
            return
        shown = log_p_differs(found) or self._state.views.compare_all
        self.log_p.draw(found)
        self.log_p.setVisible(bool(found.reference) and shown)

    # ---- what the user does ----------------------------------------------------

    def _choose(self, at: int) -> None:
        self.session.do(tree.pin, self.other.itemData(at))

    def _align(self, at: int) -> None:
        by = self.aligned.itemData(at)
        self.session.set(views=replace(self._state.views, aligned=by))

    def _show_all(self, only: bool) -> None:
        self.session.set(views=replace(self._state.views, compare_all=not only))

    def _feed(self) -> None:
        """Pin the other run, and feed its translation to the one on screen."""
        other, window = self._state.compared, self.window()
        if other is None or not isinstance(window, WindowParts):
            return
        if self._state.pinned != other.key:
            self.session.do(tree.pin, other.key)
        window.turn_to(_fed_with, other.outline.text)

    def _go(self, kind: Kind, cell: MapCell | None) -> None:
        if cell is not None:
            self.session.set(kind=kind, layer=cell.row, head=cell.column)


def _fed_with(state: State, text: str) -> Next:
    return translate(state, state.wish.sentence, reference=text)


def _all_hidden(*widgets: QWidget) -> bool:
    """Tell whether each of them is hidden by itself, not by what is around it."""
    return all(widget.isHidden() for widget in widgets)


class LogP(Dressed, QWidget):
    """Log p of a reference's tokens in both runs, and where these part."""

    dressed_at = FONT_PALETTE  # which pyqtgraph does not follow

    def __init__(self) -> None:
        super().__init__()
        self._found: RunComparison | None = None
        self._plot = Plot(_("log p of each token of the reference in both runs"), 2)
        self._plot.cache()
        self._plot.widget.setContextMenuPolicy(Qt.ContextMenuPolicy.NoContextMenu)
        self.export = Export(self, self.table)
        self._lines = [plotting().InfiniteLine(angle=90) for _line in range(2)]
        for line in self._lines:  # where the runs part, and the step
            self._plot.box.addItem(line, ignoreBounds=True)
        self.names = plain_label(), plain_label()
        names = fill(QHBoxLayout(), *self.names, None, spacing=12)
        fill(LeastColumn(self), names, (self._plot.widget, 1))
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.dress()

    def mark(self, step: int) -> None:
        """Mark the step of the run on screen."""
        there = self._found is not None and 0 < step <= len(self._found.reference)
        self._lines[1].setVisible(there)
        self._lines[1].setPos(step)

    def draw(self, found: RunComparison) -> None:
        """Show two runs."""
        self._found = found
        values = np.array([token.log_p for token in found.reference]).reshape(-1, 2)
        values = np.where(np.isfinite(values), values, np.nan)
        places = np.arange(1, len(values) + 1)
        names = zip(places.tolist(), reference_names(found), strict=True)
        self._plot.tick(dict(names))
        styles = pens(self.palette(), thin=False)
        for side, (curve, label) in enumerate(
            zip(self._plot.curves, self.names, strict=True)
        ):
            curve.setData(places, values[:, side], pen=styles[side])
            label.setText(found.names[side])
            role = QPalette.ColorRole.WindowText
            write_in(label, role, styles[side].color())
        parted, now = self._lines
        parted.setVisible(found.parted is not None)
        parted.setPos(len(values) - 0.5)
        ink = self.palette().color(QPalette.ColorRole.Text)
        parted.setPen(QPen(ink, 0, Qt.PenStyle.DashLine))
        now.setPen(QPen(self.palette().color(QPalette.ColorRole.Highlight), 0))

    def _dress(self) -> None:
        self._plot.dress(self, _("token of the reference"), _("log p, nats"))
        if self._found is not None:
            self.draw(self._found)

    def table(self) -> Table | None:
        """Return the numbers: a row for each token."""
        if self._found is None:
            return None
        reference = self._found.reference
        rows = tuple(" ".join(token.tokens) for token in reference)
        values = np.array([token.log_p for token in reference], np.float32)
        return Table(rows, self._found.names, values.reshape(-1, 2))
