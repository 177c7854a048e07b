"""The Compare page: two runs side by side, and how far they differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from PySide6.QtCore import QElapsedTimer, Qt
from PySide6.QtGui import QPalette, QPen
from PySide6.QtWidgets import QCheckBox, QHBoxLayout, QSizePolicy, QWidget

from visformer.language import N_, _
from visformer.pictures.comparison import Runs, candidate_numbers
from visformer.pictures.picture import Table, is_same
from visformer.pictures.selection import ALIGNED, AttentionCell
from visformer.pictures.side_by_side import (
    Group,
    RunComparison,
    SideMaps,
    comparing,
    comparison_words,
    divergence_grids,
    heads_differ,
    log_p_differs,
    next_differs,
    reference_names,
    side_maps,
)
from visformer.session import tree
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
from visformer.ui.views.positions.curves import Plot, pens, plotting, plotting_in_pieces
from visformer.ui.views.view import View
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

    name, title = "compare", N_("Compare")
    dressed_at = FONT_PALETTE

    @classmethod
    def imports(cls) -> Iterator[object]:
        """Import pyqtgraph in pieces."""
        yield from plotting_in_pieces()

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._found: RunComparison | None = None
        self._traces: tuple[Trace, Trace] | None = None  # whole
        self._coming: Iterator[RunComparison] = iter(())  # with more and more heads
        self._maps: SideMaps | None = None
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
        self.maps = {
            "a": HeatMap(_("attention of the run that is compared with")),
            "b": HeatMap(_("attention of the run on screen")),
            "difference": HeatMap(_("difference of the weights")),
        }
        for kind, grid in self.grids.items():
            grid.clicked.connect(partial(self._go, kind))
        for name, heat_map in self.maps.items():
            heat_map.hovered.connect(partial(self._hover, name))
        self.log_p = LogP()
        self.next = NumberTable(_("the next token in both runs"))
        self._lay_out()
        self.dress()

    def _lay_out(self) -> None:
        row = QWidget()
        named = titled(_("Compared with"), self.other)
        Flow(row, named, self.other, self.aligned, self.all, self.feed)
        self._grids = TurningRow(*self.grids.values())
        self._sides = TurningRow(*self.maps.values())
        self._below = TurningRow(self.log_p, self.next)
        self._pictures = (self._sides, self._grids, self._below)
        for group in self._pictures:
            present_whole(group)
        pictures = ((self._grids, 2), (self._sides, 4), (self._below, 2))
        fill(LeastColumn(self), row, self.words, *pictures, None)

    def _dress(self) -> None:
        for grid in self.grids.values():
            set_least(grid, GRID_LINES)
        for heat_map in self.maps.values():
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
        if self._changed("choosers", *tree_of, state.views):
            self._offer(state, other)
        traces = _both(state.run, other)
        if self._changed("pair", traces, state.views.aligned):
            self._begin(state, other, traces)
        everything = self._found, state.views.compare_all
        place = state.kind, state.layer, state.head
        if self._changed("words", *everything, self.drawing, *tree_of):
            self._say()
        if self._changed("grids", *everything, self.drawing):
            self._draw_grids()
        for kind, grid in self.grids.items():
            at = state.layer, state.head
            here = kind == state.kind and grid.matrix and is_inside(grid.matrix, at)
            grid.mark(at if here else None, value=False)
        if self._changed("maps", *everything, *place, state.visible):
            self._draw_maps()
        if self._changed("next", *everything, state.visible):
            self._draw_next()
        if self._changed("log p", *everything):
            self._draw_log_p()
        shown = self._found is not None and not _all_hidden(self.log_p, self.next)
        self._below.setVisible(shown)
        self.log_p.mark(state.step)
        self._mark_cell()

    def _offer(self, state: State, other: Run | None) -> None:
        """List the runs, and what can be chosen of these two."""
        titles = {run.key: run.name for run in state.tree if run.key != state.shown}
        above = parents_of(state.runs).get(state.shown)
        if above in titles:
            name = _("{run} (it came from this)", run=titles[above])
            titles[above] = name
        self.other.offer(titles, None if other is None else other.key)
        self.other.setEnabled(bool(titles))
        self.aligned.setCurrentIndex(self.aligned.findData(state.views.aligned))
        self.all.setChecked(not state.views.compare_all)

    def _begin(
        self, state: State, other: Run | None, traces: tuple[Trace, Trace] | None
    ) -> None:
        self._found, self._traces = None, traces
        self._turns.stop()
        if traces is None or other is None or state.run is None:
            return
        names = other.name, state.run.name
        self._coming = comparing(traces, names, state.views.aligned)
        self._found = next(self._coming)
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
            self.words.setText(" ".join((*said, *comparison_words(found))))
            return
        self.words.setText(_nothing_words(state))

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

    def _draw_maps(self) -> None:
        state, found, self._maps = self._state, self._found, None
        if found is not None and self._traces is not None and state.visible is not None:
            cut = self._traces[0].until(len(state.visible)), state.visible
            self._maps = side_maps(found, cut, state.selection)
        made = self._maps
        drawn = {
            "a": None if made is None else made.a,
            "b": None if made is None else made.b,
            "difference": None if made is None else made.difference,
        }
        everything = self._state.views.compare_all
        shown = found is not None and (everything or heads_differ(found))
        self._sides.setVisible(shown)
        for name, matrix in drawn.items():
            heat_map = self.maps[name]
            heat_map.setVisible(matrix is not None)
            if made is None or matrix is None:
                heat_map.draw(None)
            elif not is_same(matrix, heat_map.matrix):
                rows, columns = made.room[name != "a"]
                extent = len(rows), len(columns)
                heat_map.draw(matrix, extent=extent, longest=(rows, columns))

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

    def _mark_cell(self) -> None:
        """Mark the cell in focus in both maps and in their difference."""
        cell, maps = self._state.cell, self._maps
        if maps is None or cell is None or cell.kind != self._state.kind:
            for heat_map in self.maps.values():
                heat_map.mark(None)
            return
        self._mark("b", cell.query, cell.key)
        query = _group(maps.queries, 1, cell.query)
        key = _group(maps.keys, 1, cell.key)
        first = [
            None if at is None else groups[at][0][-1]
            for at, groups in ((query, maps.queries), (key, maps.keys))
        ]
        self._mark("a", *first)
        self._mark("difference", query, key)

    def _mark(self, name: str, row: int | None, column: int | None) -> None:
        cell = None if row is None or column is None else (row, column)
        rows = () if row is None else (row,)
        columns = () if column is None else (column,)
        self.maps[name].mark(cell, rows=rows, columns=columns)

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

    def _hover(self, name: str, cell: MapCell | None) -> None:
        """Let a cell of any of the maps be that of the run on screen."""
        maps, kind = self._maps, self._state.kind
        query, key = (None, None) if cell is None else (cell.row, cell.column)
        if maps is not None and name != "b" and query is not None and key is not None:
            side = 0 if name == "a" else None
            query = _counterpart(maps.queries, side, query)
            key = _counterpart(maps.keys, side, key)
        hovered = None
        if query is not None and key is not None:
            hovered = AttentionCell(kind, query, key)
        self.session.set(hovered=hovered)


def _fed_with(state: State, text: str) -> Next:
    return translate(state, state.wish.sentence, reference=text)


def _both(run: Run | None, other: Run | None) -> tuple[Trace, Trace] | None:
    """Return the Traces of two finished runs; None where one is not there."""
    if run is None or other is None or not (run.ended and other.ended):
        return None
    if run.trace is None or other.trace is None:
        return None
    return other.trace, run.trace


def _nothing_words(state: State) -> str:
    """Say why nothing is compared."""
    run, other = state.run, state.compared
    if run is None or len(state.tree) < 2:
        return _("There is one run only: change it, or translate another sentence.")
    if other is None:
        return _("Choose a run to compare “{run}” with.", run=run.name)
    if other.trace is None:
        return _(
            "The numbers of “{run}” are no longer kept: show it on the page Tree, and "
            "it is computed again.",
            run=other.name,
        )
    return _("The runs are compared once both have ended.")


def _all_hidden(*widgets: QWidget) -> bool:
    """Tell whether each of them is hidden by itself, not by what is around it."""
    return all(widget.isHidden() for widget in widgets)


def _group(groups: Sequence[Group], side: int, token: int) -> int | None:
    """Return the number of the group of a token of a side; None for none."""
    return next((at for at, one in enumerate(groups) if token in one[side]), None)


def _counterpart(groups: Sequence[Group], side: int | None, at: int) -> int | None:
    """Return the token of b that stands for one of a, or for a group (None)."""
    number = at if side is None else _group(groups, side, at)
    if number is None or number >= len(groups):
        return None
    return groups[number][1][-1]


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
