"""The Attention tab: the three kinds side by side, below them all heads of one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from PySide6.QtCore import QElapsedTimer, Qt, QTimer, Signal
from PySide6.QtWidgets import (
    QComboBox,
    QHBoxLayout,
    QLabel,
    QSplitter,
    QVBoxLayout,
    QWidget,
)

from visformer.state.pictures.attention import attention_map
from visformer.state.pictures.maps import (
    all_numbers,
    longest_labels,
    marks,
    place,
)
from visformer.state.pictures.masks import KIND_NAMES
from visformer.state.pictures.mosaic import Mosaic, is_large, mosaic, mosaic_parts
from visformer.state.pictures.weights import made_of, same
from visformer.state.state import SCALES, Cell, State
from visformer.trace import KINDS, Kind, Trace
from visformer.ui.candidates import plain_label
from visformer.ui.heatmap import HeatMap
from visformer.ui.overview import Overview

HINT = "wheel: zoom · drag: move · click: keep a cell · right click: copy or save"
SLICE_MS = 8  # of the overview of a long sentence, a turn of the event loop


class _Shown:
    """What a kind's picture is made of; equal while it is made of the same objects."""

    def __init__(self, trace: Trace | None, kind: Kind) -> None:
        self._parts: tuple[object, ...] = ()
        if trace is not None and kind == "encoder":  # the same at every step
            encoder = trace.encoder_rows, trace.masks["encoder"]
            self._parts = trace.model, trace.source, *encoder
        elif trace is not None:
            last = trace.steps[-1] if trace.steps else None
            self._parts = *made_of(trace), last

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Shown) and same(self._parts, other._parts)

    def __hash__(self) -> int:
        return hash(tuple(id(part) for part in self._parts))


class AttentionView(QWidget):
    """Three maps with linked cursors, the scale, and the grid of heads."""

    picked = Signal(object)  # a dict of State changes
    failed = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._state = State()
        self._drawn: dict[object, tuple[object, ...]] = {}  # what each part shows
        self._longest: dict[Kind, tuple[str, str]] = {}
        self._measured: Trace | None = None
        self._parts: Iterator[Mosaic] = iter(())  # of the overview of a long sentence
        self._filling: Mosaic | None = None
        self._overviews: dict[Kind, tuple[tuple[object, ...], Mosaic]] = {}
        self._slices = QTimer(self)
        self._slices.timeout.connect(self._draw_slice)
        self.maps = {kind: self._map(kind) for kind in KINDS}
        self.overview = Overview(lambda: all_numbers(self._state))
        self.overview.export.failed.connect(self.failed)
        self.overview.chosen.connect(self._choose)
        self.overview.resized.connect(self._draw_overview)
        self.scales = _scale_box()
        self.scales.activated.connect(
            lambda _: self.picked.emit({"scale": self.scales.currentData()})
        )
        self._lay_out()

    def _map(self, kind: Kind) -> HeatMap:
        heat_map = HeatMap()
        heat_map.setAccessibleName(f"{KIND_NAMES[kind]} attention")
        heat_map.hovered.connect(partial(self._hover, kind))
        heat_map.clicked.connect(partial(self._click, kind))
        heat_map.failed.connect(self.failed)
        return heat_map

    def _lay_out(self) -> None:
        maps = QWidget()
        row = QHBoxLayout(maps)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(4)
        for heat_map in self.maps.values():
            row.addWidget(heat_map, 1)
        splitter = QSplitter(Qt.Orientation.Vertical)
        splitter.addWidget(maps)
        splitter.addWidget(self.overview)
        splitter.setChildrenCollapsible(False)
        splitter.setSizes([640, 360])  # shared out in this proportion
        splitter.setStretchFactor(0, 16)
        splitter.setStretchFactor(1, 9)
        title = QLabel("&colour:")
        title.setBuddy(self.scales)
        line = QHBoxLayout()
        line.addWidget(title)
        line.addWidget(self.scales)
        line.addWidget(plain_label(HINT, faint=True))
        line.addStretch(1)
        column = QVBoxLayout(self)
        column.setContentsMargins(4, 4, 4, 4)
        column.setSpacing(4)
        column.addLayout(line)
        column.addWidget(splitter, 1)

    # ---- drawing ---------------------------------------------------------------

    def draw(self, state: State) -> None:
        """Show a State; parts whose numbers did not change keep their image."""
        self._state = state
        self.scales.setCurrentIndex(self.scales.findData(state.scale))
        for kind, heat_map in self.maps.items():
            self._draw_map(kind, heat_map)
            heat_map.set_focused(kind == state.kind and state.shown is not None)
        self._draw_overview()

    def _draw_map(self, kind: Kind, heat_map: HeatMap) -> None:
        state = self._state
        extent, longest = self._extent(kind), self._longest_labels(kind)
        shown = _Shown(state.shown, kind)
        needs = (shown, *place(state, kind), state.scale, extent, longest)
        if self._changed(kind, needs):
            picture = attention_map(state, kind)
            heat_map.draw(picture, extent=extent, longest=longest)
        marked = marks(state, kind)
        heat_map.mark(marked.cell, rows=marked.rows, columns=marked.columns)

    def _draw_overview(self) -> None:
        state, kind = self._state, self._state.kind
        if state.trace is None:
            self._slices.stop()
            if self._changed("overview", (None,)):
                self.overview.draw(None)
            return
        size = self.overview.thumbnail(
            state.trace.layers(kind), state.trace.heads(kind)
        )
        shown = _Shown(state.shown, kind)
        needs = (shown, kind, state.scale, self._extent(kind), size)
        if self._changed("overview", needs):
            self._begin_overview(needs, size)
        self.overview.choose(place(state, kind))

    def _begin_overview(self, needs: tuple[object, ...], size: tuple[int, int]) -> None:
        """Draw the overview, in slices where the sentence is long."""
        state, kind = self._state, self._state.kind
        self._slices.stop()
        kept = self._overviews.get(kind)
        if kept is not None and kept[0] == needs:
            self.overview.draw(kept[1])
        elif is_large(state, kind):
            self._parts = mosaic_parts(state, kind, thumbnail=size)
            self._slices.start()
        else:
            self.overview.draw(mosaic(state, kind, thumbnail=size))

    def _draw_slice(self) -> None:
        """Go on with the overview for a few milliseconds, and show how far it is."""
        timer = QElapsedTimer()
        timer.start()
        kind = self._state.kind
        finished = True
        for part in self._parts:
            self._filling = part
            if timer.hasExpired(SLICE_MS):
                finished = False
                break
        self.overview.draw(self._filling)
        self.overview.choose(place(self._state, kind))
        if finished and self._filling is not None:
            self._slices.stop()
            self._overviews[kind] = self._drawn["overview"], self._filling

    def _changed(self, part: object, needs: tuple[object, ...]) -> bool:
        """Tell whether a part shows something else; Traces compare by identity."""
        changed = self._drawn.get(part) != needs
        self._drawn[part] = needs
        return changed

    def _extent(self, kind: Kind) -> tuple[int, int] | None:
        """Rows and columns of all that was decoded: cells keep their size."""
        if self._state.trace is None:
            return None
        queries, keys = self._state.trace.tokens(kind)
        return len(queries), len(keys)

    def _longest_labels(self, kind: Kind) -> tuple[str, str]:
        trace = self._state.trace
        if trace is None:
            return "", ""
        if trace is not self._measured:
            self._measured = trace
            longest = {kind: longest_labels(trace, kind) for kind in KINDS}
            # one height of column labels, so that the maps start on one line
            column = max((columns for _, columns in longest.values()), key=len)
            self._longest = {
                kind: (rows, column) for kind, (rows, _) in longest.items()
            }
        return self._longest[kind]

    # ---- what the user does ----------------------------------------------------

    @property
    def slicing(self) -> bool:
        """Tell whether the overview of a long sentence is still being filled."""
        return self._slices.isActive()

    def walk(self, d_layer: int, d_head: int) -> None:
        """Choose a neighbour in the grid of heads."""
        self.overview.walk(d_layer, d_head)

    def _choose(self, at: tuple[int, int]) -> None:
        self.picked.emit({"layer": at[0], "head": at[1]})

    def _hover(self, kind: Kind, at: tuple[int, int] | None) -> None:
        self.picked.emit({"hovered": Cell(kind, *at) if at else None})

    def _click(self, kind: Kind, at: tuple[int, int] | None) -> None:
        """Lock a cell, or free it where it is locked; a click beside takes the kind."""
        changes: dict[str, object] = {"kind": kind}
        if at is not None:
            cell = Cell(kind, *at)
            changes["locked"] = None if cell == self._state.locked else cell
        self.picked.emit(changes)


def _scale_box() -> QComboBox:
    box = QComboBox()
    for name, title in SCALES.items():
        box.addItem(title, name)
    box.setAccessibleName("colour scale of the maps")
    return box
