"""Two runs on screen: switches that make them, and a head's maps in both."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from PySide6.QtWidgets import QCheckBox, QPushButton

from visformer.language import _
from visformer.pictures.comparison import Group, SideMaps, side_maps
from visformer.pictures.picture import Matrix, is_same
from visformer.pictures.selection import AttentionCell
from visformer.session.both import alone_words, both, paired, show_beside
from visformer.session.runs import change_run, fixed_words
from visformer.session.state import Session, State
from visformer.ui.changed import Changed
from visformer.ui.layout import TurningRow
from visformer.ui.widgets.canvas import MapCell
from visformer.ui.widgets.heatmap import HeatMap
from visformer.ui.widgets.plain_label import plain_tip
from visformer.ui.window.large import present_whole
from visformer.values.intervention import Intervention


class Without(NamedTuple):
    """What is left out, how the button says so, and where it cannot be left out."""

    off: str  # a template: what a click does
    on: str  # a template: what a click does afterwards
    is_off: Callable[[Intervention], bool]
    turned: Callable[[Intervention], Intervention]  # off or on again
    there: Callable[[State], bool]
    looked: Callable[[State], State]  # where its effect is seen


class RunSwitch(QPushButton):
    """Changes the run at once, and shows the effect in the lab of its tab."""

    def __init__(self, session: Session, without: Without, tab: str) -> None:
        super().__init__(_(without.off))
        self._session, self._without, self._tab = session, without, tab
        self.clicked.connect(self._switch)

    def draw(self, state: State) -> None:
        """Say what a click does."""
        without, fixed = self._without, fixed_words(state)
        off = without.is_off(state.intervention)
        self.setText(_(without.on if off else without.off))
        self.setVisible(without.there(state))
        self.setEnabled(state.trace is not None and not fixed)
        self.setToolTip(plain_tip(fixed))

    def _switch(self) -> None:
        session, without = self._session, self._without
        before = session.state.intervention
        if not without.is_off(before):
            session.go(without.looked(session.state).turned(self._tab, "lab"))
        session.do(change_run, without.turned(before))


def attention_maps() -> list[HeatMap]:
    """Return maps of the run on screen and of the baseline."""
    names = _("attention of the run on screen"), _("attention of the original run")
    return [HeatMap(name) for name in names]


def draw_both(maps: Sequence[HeatMap], pictures: Sequence[Matrix]) -> None:
    """Draw as many maps as there are pictures; the first map stays, even if empty."""
    for index, heat_map in enumerate(maps):
        there = index < len(pictures)
        heat_map.setVisible(there or index == 0)
        heat_map.draw(pictures[index] if there else None)


class BesideSwitch(QCheckBox):
    """Shows both runs in a picture; grey, with the reason, where there is one only."""

    def __init__(self, session: Session) -> None:
        super().__init__(_("&Both runs"))
        self._changed = Changed()
        self.clicked.connect(lambda: session.do(show_beside))

    def draw(self, state: State) -> None:
        """Say whether both are shown."""
        reason = alone_words(state)
        self.setChecked(state.views.beside)
        self.setEnabled(not reason)
        if self._changed("tip", reason):
            tip = _("Show the run that this one is compared with beside it (Ctrl+B)")
            self.setToolTip(plain_tip(reason or tip))


class BothMaps(TurningRow):
    """Both maps of the chosen head and their difference; one cursor for all three."""

    def __init__(self, session: Session) -> None:
        self.maps = {
            "a": HeatMap(_("attention of the run that is compared with")),
            "b": HeatMap(_("attention of the run on screen")),
            "difference": HeatMap(_("difference of the weights")),
        }
        super().__init__(*self.maps.values())
        self._session, self._state = session, State()
        self._made: SideMaps | None = None
        self._changed = Changed()
        for name, heat_map in self.maps.items():
            heat_map.hovered.connect(lambda at, name=name: self._hover(name, at))
            heat_map.clicked.connect(lambda at, name=name: self._click(name, at))
        present_whole(self)

    def draw(self, state: State) -> None:
        """Show the chosen head up to the step; where they are not compared, nothing."""
        self._state, found = state, paired(state)
        if self._changed("maps", found, *state.place[1:4], state.visible):
            traces, self._made = both(state), None
            if found is not None and traces is not None and state.visible is not None:
                cut = traces[0].until(len(state.visible)), state.visible
                self._made = side_maps(found, cut, state.selection)
            self._draw_maps()
        self._mark_cell()

    def _draw_maps(self) -> None:
        made = self._made
        for name, heat_map in self.maps.items():
            matrix = None if made is None else getattr(made, name)
            heat_map.setVisible(matrix is not None or made is None)
            if made is None or matrix is None:
                heat_map.draw(None)
            elif not is_same(matrix, heat_map.matrix):
                rows, columns = made.room[name != "a"]
                extent = len(rows), len(columns)
                heat_map.draw(matrix, extent=extent, longest=(rows, columns))

    def _mark_cell(self) -> None:
        """Mark the cell in focus in both maps and in their difference."""
        cell, made = self._state.cell, self._made
        if made is None or cell is None or cell.kind != self._state.kind:
            for heat_map in self.maps.values():
                heat_map.mark(None)
            return
        self._mark("b", cell.query, cell.key)
        query = _group(made.queries, 1, cell.query)
        key = _group(made.keys, 1, cell.key)
        first = [
            None if at is None else groups[at][0][-1]
            for at, groups in ((query, made.queries), (key, made.keys))
        ]
        self._mark("a", *first)
        self._mark("difference", query, key)

    def _mark(self, name: str, row: int | None, column: int | None) -> None:
        cell = None if row is None or column is None else (row, column)
        rows = () if row is None else (row,)
        columns = () if column is None else (column,)
        self.maps[name].mark(cell, rows=rows, columns=columns)

    def _hover(self, name: str, at: MapCell | None) -> None:
        self._session.set(hovered=self._cell(name, at))

    def _click(self, name: str, at: MapCell | None) -> None:
        cell = self._cell(name, at)
        if cell is not None:
            locked = None if cell == self._state.locked else cell
            self._session.set(locked=locked)

    def _cell(self, name: str, at: MapCell | None) -> AttentionCell | None:
        """Return the cell of the run on screen that one of any map stands for."""
        made, (query, key) = self._made, (None, None) if at is None else at
        if made is not None and name != "b" and query is not None and key is not None:
            side = 0 if name == "a" else None
            query = _counterpart(made.queries, side, query)
            key = _counterpart(made.keys, side, key)
        if query is None or key is None:
            return None
        return AttentionCell(self._state.kind, query, key)


def _group(groups: Sequence[Group], side: int, token: int) -> int | None:
    """Return the number of the group of a token of a side; None for none."""
    return next((at for at, one in enumerate(groups) if token in one[side]), None)


def _counterpart(groups: Sequence[Group], side: int | None, at: int) -> int | None:
    """Return the token of b that stands for one of a, or for a group (None)."""
    number = at if side is None else _group(groups, side, at)
    if number is None or number >= len(groups):
        return None
    return groups[number][1][-1]
