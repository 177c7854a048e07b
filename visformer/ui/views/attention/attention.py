"""The Attention tab: one kind large, the others small, and all heads of the kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Literal

from PySide6.QtCore import QElapsedTimer, QPoint, QPointF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QCursor
from PySide6.QtWidgets import (
    QHBoxLayout,
    QPushButton,
    QStackedWidget,
    QToolTip,
    QVBoxLayout,
    QWidget,
)

from visformer.language import _
from visformer.pictures.attention.finder import find_words, head_finder
from visformer.pictures.attention.gist import gist_of
from visformer.pictures.attention.maps import all_numbers, layer_and_head, reserved
from visformer.pictures.attention.mosaic import Mosaic, is_large, mosaic, mosaic_parts
from visformer.pictures.attention.ranking import Ranking, order_words, ranking_parts
from visformer.pictures.attention.reading import (
    Reading,
    is_impossible,
    is_large_summary,
    matrix,
    offered_scale,
    reading,
    shown_marks,
    small_title,
    summary,
    summary_parts,
    whole_codes,
    whole_labels,
)
from visformer.pictures.attention.weights import head_parts, takes_long
from visformer.pictures.picture import Bytes, Matrix, Table
from visformer.pictures.selection import AttentionCell, Look, Order, Summary
from visformer.pictures.words.absent import missing_kinds_words
from visformer.session.both import beside
from visformer.session.runs import fixed_words
from visformer.session.state import Session, State
from visformer.ui.bars.look_bar import LookBar
from visformer.ui.layout import fill
from visformer.ui.views.attention.arc_map import SideToken
from visformer.ui.views.attention.kind_panel import KindPanel, KindsPane
from visformer.ui.views.attention.overview import Overview
from visformer.ui.views.view import View
from visformer.ui.widgets.both_runs import BesideSwitch, BothMaps
from visformer.ui.widgets.canvas import MapCell
from visformer.ui.widgets.controls import Offer
from visformer.ui.widgets.heatmap import HeatMap
from visformer.ui.widgets.labels import LongestLabels, longest
from visformer.ui.widgets.plain_label import paragraph
from visformer.ui.widgets.term_tips import TermTip
from visformer.ui.window.change_offers import cell_offers, head_offers, pin
from visformer.values.facts import KINDS, Kind
from visformer.values.measured import ATTRIBUTIONS
from visformer.values.memo import same
from visformer.values.trace import Trace
from visformer.words import KIND_NAMES

SLICE_MS = 8  # of work on a long sentence per turn of the event loop
FULL = 200  # pixels that a cell is dragged up for a weight of 1
PRESENTED = 2.0  # ratio of a cell's sides for an audience, at most
STOP = object()
LongWork = Kind | Literal["order", "overview"]


class _Shown:
    """What a kind's picture is made from; equal while these are the same objects."""

    def __init__(self, trace: Trace | None, kind: Kind) -> None:
        self._parts: tuple[object, ...] = ()
        if trace is None or kind not in trace.kinds:
            return
        if kind == "encoder":  # the same at every step
            encoder = trace.encoder_rows, trace.masks["encoder"]
            self._parts = trace.model, trace.source, *encoder
        else:
            last = trace.steps[-1] if trace.steps else None
            self._parts = *trace.storage, last

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Shown) and same(self._parts, other._parts)

    def __hash__(self) -> int:
        return hash(tuple(id(part) for part in self._parts))


class AttentionView(View):
    """Three maps with linked cursors, the scale, and the grid of heads."""

    name, compares = "attention", True

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._needs: tuple[object, ...] = ()  # what the overview is made from
        self._readings: dict[Kind, Reading | None] = {}
        self._longest: dict[Kind, LongestLabels] = {}
        self._extents: dict[Kind, tuple[int, int]] = {}
        self._ahead: dict[Kind, Bytes | None] = {}
        self._filling: Mosaic | None = None
        self._overviews: dict[Kind, tuple[tuple[object, ...], Mosaic]] = {}
        # what takes long for a long sentence: summaries, the overview and its order
        self._tasks: dict[LongWork, Iterator[Ranking | Mosaic | None]] = {}
        self._turns = QTimer(self)
        self._turns.timeout.connect(self._work)
        self.panels = {kind: self._panel(kind) for kind in KINDS}
        self.maps = {kind: panel.heat_map for kind, panel in self.panels.items()}
        self.heads = HeadsPane(
            lambda: all_numbers(self._state.visible, self._state.kind)
        )
        self.heads.chosen.connect(
            lambda layer, head: session.set(layer=layer, head=head)
        )
        self.heads.order_chosen.connect(self._choose_order)
        self.overview = self.heads.overview
        TermTip(self.overview.orders, session, "order")
        self.overview.resized.connect(self._draw_overview)
        self.overview.export.offers = self._head_offers
        self.both = BothMaps(session)
        self.both.maps["b"].export.offers = self._offers_of_both
        self.pane = KindsPane(dict(self.panels), self.heads, self.both)
        self.heads.folded.connect(self.pane.fold)
        self.bar, self.beside = LookBar(), BesideSwitch(session)
        TermTip(self.bar.summaries, session, "summary")
        self.bar.changed.connect(lambda look: session.set(look=look))
        self.bar.scale_chosen.connect(lambda scale: session.set(scale=scale))
        self._absent = paragraph(_("kinds of attention that are not there"))
        self._lay_out()

    def _panel(self, kind: Kind) -> KindPanel:
        panel = KindPanel(_(KIND_NAMES[kind]), grows=kind != "encoder")
        panel.hovered.connect(partial(self._hover, kind))
        panel.clicked.connect(partial(self._click, kind))
        panel.offer_taken.connect(self._take_offer)
        panel.heat_map.export.offers = partial(self._cell_offers, kind)
        panel.heat_map.canvas.pulled.connect(partial(self._pull, kind))
        return panel

    def _lay_out(self) -> None:
        row = fill(QHBoxLayout(), (self.bar, 1), self.beside)
        parts = row, self._absent, (self.pane, 1)
        column = fill(QVBoxLayout(self), *parts, spacing=4)
        column.setContentsMargins(4, 4, 4, 4)

    # ---- drawing ---------------------------------------------------------------

    def main_picture(self) -> QWidget | None:
        """Return the picture of the kind that is looked at, or its maps in two runs."""
        return self.both if beside(self._state) else self.panels[self._state.kind]

    def present(self, *, on: bool) -> None:
        """Let cells take all of a wide screen."""
        for heat_map in (*self.maps.values(), *self.both.maps.values()):
            heat_map.stretch(PRESENTED if on else 1)

    @property
    def drawing(self) -> bool:
        """Whether a long sentence is still being drawn."""
        return self._turns.isActive()

    def draw(self, state: State) -> None:
        self._state = state
        self._measure()
        model = state.model if state.trace is None else state.trace.model
        self._absent.setText(missing_kinds_words(model))
        self._absent.setVisible(bool(self._absent.text()))
        self.beside.draw(state)
        kinds, both = KINDS if model is None else model.kinds, beside(state) is not None
        self.bar.setEnabled(not both)  # of both there are maps of one head
        if both:
            self.both.draw(state)
        shape = self._extents.get(state.kind, (1, 1))
        for heat_map in self.maps.values():
            heat_map.hold(held=True)
        self.pane.draw(kinds, state.kind, shape, both=both)
        for kind, panel in self.panels.items():
            if kind in kinds:
                self._draw_panel(kind, panel)
            else:
                self._tasks.pop(kind, None)
        for heat_map in self.maps.values():
            heat_map.hold(held=False)
        self._draw_finder()
        self._draw_order()
        self._draw_overview()
        self.bar.draw(state.look, state.scale, working=self.summarising)

    def say(self) -> None:
        for kind, panel in self.panels.items():
            shown = self._readings.get(kind)
            if self._changed(f"gist of {kind}", shown):
                panel.say(gist_of(shown))

    def _draw_panel(self, kind: Kind, panel: KindPanel) -> None:
        state, look = self._state, self._state.look
        # what is small is a map, and what is signed
        if look.form != "map" and (kind != state.kind or look.summary == "gradient"):
            look = replace(look, form="map")
        extent, room = self._extents.get(kind), self._longest.get(kind, ((), ()))
        numbers = look.form, look.summary, look.hide, look.renormalise, look.words
        mass = look.mass if look.form == "arcs" else None
        shown = _Shown(state.visible, kind)
        at = (
            layer_and_head(state.visible, state.selection, kind)
            if state.visible
            else (0, 0)
        )
        known = state.attributions if look.summary in ATTRIBUTIONS else None
        looks = (*numbers, mass, *at, state.scale, kind == state.kind, known)
        ahead = self._rows_ahead(kind, look, looks)
        if self._changed(kind, shown, looks, extent, room, ahead):
            self._tasks.pop(kind, None)
            parts = _missing_parts(state.visible, kind, at, look.summary)
            if parts is not None:
                self._begin(kind, parts)
                old, trace = self._readings.get(kind), state.visible
                counts = trace and tuple(map(len, trace.tokens(kind)))
                if old and (old.query_tokens, old.key_tokens) != counts:
                    self._readings[kind] = None  # it is another sentence's
                    panel.draw(None, look, extent=extent, longest=room)
                return
            drawn = reading(state.visible, state.selection, look, kind)
            self._readings[kind] = drawn
            small = kind != state.kind and look.summary == "head"
            title = small_title(kind, *at) if small else ""
            picture = None if drawn is None else matrix(drawn, state.selection, title)
            if picture is not None:
                offer, note = picture.offer, picture.note
                if small and picture.values.size:  # the large one's offer is for all
                    offer, note = "", "" if state.scale == "fixed" else note
                picture = replace(picture, ahead=ahead, offer=offer, note=note)
            panel.draw(picture, look, extent=extent, longest=room)
        drawn = self._readings.get(kind)
        if drawn is not None and state.visible is not None and kind not in self._tasks:
            panel.mark(state.visible, drawn, shown_marks(drawn, state.cell), look)

    def _rows_ahead(self, kind: Kind, look: Look, looks: object) -> Bytes | None:
        """Return the codes of the whole run, so that later rows are seen; made once.

        There are none where the rows of a step are not those of the whole run.
        """
        state = self._state
        trace, apart = state.ahead, kind == "encoder" or bool(state.passes)
        if trace is None or apart or look.form != "map":
            return None
        if state.awaiting.decoding or is_large(trace, kind):
            return None
        if self._changed(f"rows ahead of {kind}", trace, looks):
            self._ahead[kind] = whole_codes(trace, state.selection, look, kind)
        return self._ahead[kind]

    def _draw_finder(self) -> None:
        """Offer to find the head that reads the locked cell, or show all of them."""
        state, cell = self._state, self._state.locked
        question = ""
        if state.visible is not None and cell is not None and cell.kind == state.kind:
            question = find_words(state.visible, cell)
        self.overview.header.offer(question)
        found = bool(question) and state.look.order == "cell"
        needs = _Shown(state.visible, state.kind), cell, state.scale
        if not self._changed("finder", found, *(needs if found else ())):
            return
        matrix = None
        if found and state.visible is not None and cell is not None:
            matrix = head_finder(state.visible, state.selection, cell)
        self.heads.show_cell(matrix)

    def _draw_overview(self) -> None:
        state, kind = self._state, self._state.kind
        if state.trace is None or state.visible is None:
            self._tasks.pop("overview", None)
            if self._changed("overview", None):
                self.overview.draw(None)
            return
        size = self.overview.thumbnail(
            state.trace.layers(kind), state.trace.heads(kind)
        )
        shown = _Shown(state.visible, kind)
        extent = self._extent(kind)
        needs = (shown, kind, state.scale, extent, size)
        if self._changed("overview", *needs):
            self._begin_overview(needs, size)
        self.heads.choose(*layer_and_head(state.visible, state.selection, kind))

    def _begin_overview(self, needs: tuple[object, ...], size: tuple[int, int]) -> None:
        """Draw the overview; in slices if the sentence is long."""
        state, kind, self._needs = self._state, self._state.kind, needs
        self._tasks.pop("overview", None)
        if state.trace is None or state.visible is None:
            return
        kept = self._overviews.get(kind)
        if kept is not None and kept[0] == needs:
            self.overview.draw(kept[1])
            return
        selection, extent = state.selection, self._extent(kind)
        if is_large(state.trace, kind):
            parts = mosaic_parts(
                state.visible, selection, kind, extent=extent, thumbnail=size
            )
            self._begin("overview", parts)
        else:
            drawn = mosaic(
                state.visible, selection, kind, extent=extent, thumbnail=size
            )
            self.overview.draw(drawn)

    def _draw_order(self) -> None:
        state, kind, order = self._state, self._state.kind, self._state.look.order
        if not self._changed("order", _Shown(state.visible, kind), kind, order):
            return
        self._tasks.pop("order", None)
        ranking = None
        if order not in ("place", "cell") and state.visible is not None:
            parts = ranking_parts(state.visible, kind, order)
            if is_large(state.visible.whole, kind):
                self._begin("order", parts)
            else:
                ranking = list(parts)[-1]
        self.overview.rank(order, ranking, order_words(order, kind))

    def _begin(self, name: LongWork, parts: Iterator[Ranking | Mosaic | None]) -> None:
        self._tasks[name] = parts
        self._turns.start()

    def _work(self) -> None:
        """Continue long work for a few milliseconds; show what is finished.

        The large picture comes first, then the small ones, and all heads at last.
        """
        timer, filled, ended = QElapsedTimer(), False, False
        timer.start()
        while self._tasks and not timer.hasExpired(SLICE_MS) and not ended:
            name = min(self._tasks, key=self._urgency)
            part = next(self._tasks[name], STOP)
            if isinstance(part, Mosaic):
                self._filling, filled = part, True
            elif isinstance(part, Ranking):
                look = self._state.look
                words = order_words(look.order, self._state.kind)
                self.overview.rank(look.order, part, words)
            elif part is STOP:
                self._end_task(name)
                ended = name != "overview"
        trace = self._state.visible
        if filled and trace is not None:
            self.overview.draw(self._filling)
            selection, kind = self._state.selection, self._state.kind
            self.overview.choose(layer_and_head(trace, selection, kind))
        if not self._tasks:
            self._turns.stop()
        if ended:
            self.session.set()  # the strips and the status line want it too

    def _urgency(self, name: LongWork) -> tuple[bool, bool]:
        return name not in KINDS, name != self._state.kind

    @property
    def summarising(self) -> bool:
        """Whether a long sentence lacks a picture; that of all heads comes last."""
        return bool(self._tasks.keys() - {"overview"})

    def _end_task(self, name: LongWork) -> None:
        del self._tasks[name]
        if name == "overview" and self._filling is not None:
            self._overviews[self._state.kind] = self._needs, self._filling
        elif name != "order":  # a kind's summary is there now
            self._changed.forget(name)

    def _measure(self) -> None:
        """Reserve space for all that is known, so that cells keep their size."""
        trace, look = self._told, self._state.look
        grows = self._state.awaiting.decoding
        if not self._changed("room", trace, look, grows):
            return
        self._extents, self._longest = {}, {}
        if trace is None:
            return
        labels = {kind: whole_labels(trace, kind, look) for kind in trace.kinds}
        # one height of column labels, so that the maps start on one line
        every = chain.from_iterable(columns for _, columns in labels.values())
        column = max(every, key=len, default="")
        for kind, (rows, columns) in labels.items():
            counts = len(rows), len(columns)
            self._extents[kind] = self._reserved(trace, kind, counts)
            self._longest[kind] = longest(rows), (column, *longest(columns))

    @property
    def _told(self) -> Trace | None:
        """The Trace as far as it may be known: how long it becomes is a secret."""
        return self._state.trace if self._state.look.ahead else self._state.visible

    def _extent(self, kind: Kind) -> tuple[int, int]:
        """Rows and columns of the overview's thumbnails: every token decoded."""
        trace = self._told
        assert trace is not None
        queries, keys = trace.tokens(kind)
        return self._reserved(trace, kind, (len(queries), len(keys)))

    def _reserved(
        self, trace: Trace, kind: Kind, counts: tuple[int, int]
    ) -> tuple[int, int]:
        grows = self._state.awaiting.decoding or not self._state.look.ahead
        return reserved(counts, kind, grows=grows, source=len(trace.source))

    # ---- what the user does ----------------------------------------------------

    def _take_offer(self) -> None:
        shown, scale = self._readings.get(self._state.kind), self._state.scale
        wanted = None if shown is None else offered_scale(shown.values, scale)
        if wanted is not None:
            self.session.set(scale=wanted)

    def _head_offers(self, place: QPoint) -> Iterable[Offer]:
        at = self.overview.head_at(QPointF(self.overview.mapFromGlobal(place)))
        return head_offers(self.session, self, self._state.kind, at) if at else ()

    def _cell_offers(self, kind: Kind, place: QPoint) -> Iterable[Offer]:
        canvas = self.maps[kind].canvas
        at = canvas.cell_at(QPointF(canvas.mapFromGlobal(place)))
        found = None if at is None else self._cell_of_head(kind, at)
        return () if found is None else cell_offers(self.session, self, *found)

    def _offers_of_both(self, place: QPoint) -> Iterable[Offer]:
        state, canvas = self._state, self.both.maps["b"].canvas
        at = canvas.cell_at(QPointF(canvas.mapFromGlobal(place)))
        if at is None:
            return ()
        head = state.layer, state.head
        return cell_offers(self.session, self, AttentionCell(state.kind, *at), head)

    def _cell_of_head(
        self, kind: Kind, at: MapCell
    ) -> tuple[AttentionCell, tuple[int, int]] | None:
        """Return a cell of a map, and its layer and head; None of several heads."""
        state, reading = self._state, self._readings.get(kind)
        trace = state.visible
        if reading is None or trace is None or state.look.summary != "head":
            return None
        return reading.cell(*at), layer_and_head(trace, state.selection, kind)

    def _pull(self, kind: Kind, at: MapCell, up: float, ends: bool) -> None:
        """Set a cell's weight by how far the mouse goes up from it."""
        found, reading = self._cell_of_head(kind, at), self._readings.get(kind)
        if found is None or reading is None or fixed_words(self._state):
            return
        weight = min(1.0, max(0.0, float(reading.values[at]) + up / FULL))
        QToolTip.showText(QCursor.pos(), f"{weight:.3f}", self)
        if ends:
            pin(self.session, *found, round(weight, 3))

    def _choose_order(self, order: Order) -> None:
        self.session.set(look=replace(self._state.look, order=order))

    def _hover(self, kind: Kind, at: MapCell | SideToken | None) -> None:
        cell, look = self._focus(kind, at)
        self.session.set(hovered=cell, look=look)

    def _click(self, kind: Kind, at: MapCell | SideToken | None) -> None:
        if at is None or kind != self._state.kind:
            self.session.set(kind=kind)
            return
        cell, look = self._focus(kind, at)
        locked = None if cell == self._state.locked else cell
        self.session.set(kind=kind, locked=locked, look=look)

    def _focus(
        self, kind: Kind, at: MapCell | SideToken | None
    ) -> tuple[AttentionCell | None, Look]:
        """Return the cell to focus, and the look that goes with it.

        For a token it is the cell of its largest weight, and its weights stand out.
        """
        shown, look = self._readings.get(kind), self._state.look
        if at is None or shown is None:
            return None, look
        if isinstance(at, MapCell):
            return shown.cell(*at), look
        look = look if at.side == look.by else replace(look, by=at.side)
        return shown.cell(*shown.partner(*at)), look


def _missing_parts(
    trace: Trace | None, kind: Kind, at: tuple[int, int], how: Summary
) -> Iterator[None] | None:
    """Return what makes the numbers of a picture that takes long; None: they are there.

    ``at`` are a layer and a head.
    """
    if trace is None or how in ATTRIBUTIONS:
        return None
    if how == "head":
        return head_parts(trace, kind, *at) if takes_long(trace, kind, *at) else None
    known = is_impossible(trace, kind, how) or not is_large_summary(trace, kind, how)
    if known or summary(trace, kind, at[0], how) is not None:
        return None
    return summary_parts(trace, kind, at[0], how)


class HeadsPane(QStackedWidget):
    """Shows the overview, or which head reads the locked cell most."""

    chosen = Signal(int, int)  # layer and head
    order_chosen = Signal(str)
    folded = Signal(bool)

    def __init__(self, table: Callable[[], Table | None]) -> None:
        """``table`` gives every head's weights for export."""
        super().__init__()
        self.overview = Overview(table)
        self.overview.chosen.connect(self.chosen)
        self.overview.order_chosen.connect(self.order_chosen)
        self.overview.folding.connect(self.folded)
        self.finder = HeatMap(_("the locked cell in every head"))
        self.finder.clicked.connect(self._choose)
        self.back = QPushButton(_("Back to all heads"))
        self.back.clicked.connect(lambda: self._order("place"))
        self.overview.question.clicked.connect(lambda: self._order("cell"))
        page = QWidget()
        column = fill(QVBoxLayout(page), self.back, (self.finder, 1))
        column.setAlignment(self.back, Qt.AlignmentFlag.AlignLeft)
        self.addWidget(self.overview)
        self.addWidget(page)

    def show_cell(self, matrix: Matrix | None) -> None:
        """Show a cell in every head; None goes back to the thumbnails."""
        if matrix is not None:
            self.finder.draw(matrix)
        self.setCurrentIndex(0 if matrix is None else 1)

    def choose(self, layer: int, head: int) -> None:
        """Frame a head in both."""
        self.overview.choose((layer, head))
        self.finder.mark((layer, head), value=False)

    def sizeHint(self) -> QSize:
        return self.overview.sizeHint()

    def _order(self, order: Order) -> None:
        self.order_chosen.emit(order)

    def _choose(self, cell: MapCell | None) -> None:
        if cell is not None:
            self.chosen.emit(*cell)
