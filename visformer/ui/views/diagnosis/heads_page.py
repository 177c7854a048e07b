"""The Heads page: every head of the model as a point, over the pairs of a file."""

import math
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QPalette, QPen
from PySide6.QtWidgets import QGraphicsSimpleTextItem, QHBoxLayout, QWidget

from visformer.language import N_, _
from visformer.pictures.picture import Table
from visformer.session import corpus
from visformer.session.corpus import HeadPoint
from visformer.session.state import Session, State
from visformer.ui.layout import LeastColumn, TurningRow, fill
from visformer.ui.look.theme import FONT_PALETTE, Dressed
from visformer.ui.views.positions.curves import Plot, pens, plotting
from visformer.ui.views.view import View
from visformer.ui.widgets.controls import chooser, titled, word_button
from visformer.ui.widgets.export import Export
from visformer.ui.widgets.plain_label import paragraph
from visformer.ui.widgets.table_view import TableColumn, TableView, number_column
from visformer.ui.window.change_offers import asked_pairs
from visformer.ui.window.large import CHOOSES, present_whole
from visformer.ui.window.window_parts import WindowParts
from visformer.values.facts import KINDS
from visformer.values.heads_of_pairs import MEASURES, HeadExample, HeadsOfPairs
from visformer.words import KIND_NAMES

SYMBOLS = "o", "s", "t1"  # of the kinds, which have a colour each, too
SIZE, CHOSEN = 0.6, 1.1  # of a point, in lines of text
PLOT_LINES = 16  # the plot's least height, in lines of text
HEADS, EXAMPLES = 4, 3  # rows that are always in sight
AT_FIRST = "confidence", "importance"
MEASURE_COLUMNS = 2, 3  # of the table of heads


def _columns(x: str, y: str) -> tuple[TableColumn, ...]:
    """Return those of the table of heads: with both measures that are shown."""
    axes = (
        number_column(
            _(MEASURES[name].title), attrgetter(axis), 4, _(MEASURES[name].tip)
        )
        for axis, name in (("x", x), ("y", y))
    )
    kinds = [*map(_, KIND_NAMES.values())]
    return (
        TableColumn(
            *(_("Kind"), lambda one: _(KIND_NAMES[one.kind]), kinds),
            lambda one: KINDS.index(one.kind),
        ),
        TableColumn(
            _("Head"), attrgetter("name"), ("L10 H10",), lambda one: one.place[1:]
        ),
        *axes,
        TableColumn(_("Role"), attrgetter("roles"), key=attrgetter("roles")),
    )


def _example_columns() -> tuple[TableColumn, ...]:
    source = attrgetter("pair.source")
    return (
        number_column(_("Line"), attrgetter("pair.line"), 0),
        number_column(_("Measure"), attrgetter("value"), 4),
        TableColumn(_("Source"), source, key=source),
    )


class HeadsPage(Dressed, View):
    """A scatter plot of heads beside a table of them, and sentences of one."""

    name, title, plots = "heads", N_("Heads"), True

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.choose = word_button(
            _("Measure over a file…"),
            _("Pairs of sentences: a source, a tab and a reference on each line"),
            self._choose,
        )
        self.axes = tuple(chooser(name) for name in (_("axis below"), _("left axis")))
        for box in self.axes:
            box.activated.connect(lambda: self._redraw())
        self._named = [
            titled(title, box)
            for title, box in zip((_("&Across"), _("&Up")), self.axes, strict=True)
        ]
        self.words = paragraph(_("what is measured"))
        self.plot = HeadsPlot()
        self.plot.picked.connect(self._look)
        columns, by = _columns(*AT_FIRST), MEASURE_COLUMNS[1]
        self.heads = TableView(_("heads"), columns, by=by, least=HEADS, high=1.6)
        self.heads.chosen.connect(self._look)
        self.heads.opened.connect(lambda _one: session.set(tab="attention"))
        self.head = paragraph(_("the head that is looked at"))
        self.caption = paragraph(_("which sentences are listed"))
        columns, named = _example_columns(), _("sentences of the head")
        self.examples = TableView(named, columns, by=1, least=EXAMPLES, high=1.6)
        self.examples.opened.connect(self._open)
        side = QWidget()
        parts = (self.heads, 3), self.head, self.caption, (self.examples, 2)
        fill(LeastColumn(side), *parts)
        self._found = TurningRow((self.plot, 1), (side, 1))
        for part in (self._found, self.heads, self.examples):
            present_whole(part)
        boxes = [
            part for pair in zip(self._named, self.axes, strict=True) for part in pair
        ]
        row = fill(QHBoxLayout(), self.choose, *boxes, None)
        fill(LeastColumn(self), row, self.words, (self._found, 1), None)
        self.dress()

    def _dress(self) -> None:
        self.plot.setMinimumHeight(PLOT_LINES * self.fontMetrics().lineSpacing())

    def main_picture(self) -> QWidget | None:
        """Return the plot, where there is one."""
        return None if self._found.isHidden() else self.plot

    def draw(self, state: State) -> None:
        """Draw the heads as far as they are measured, and the one looked at."""
        self._state, found = state, state.heads
        self.choose.setEnabled(state.opened is not None and not state.busy)
        if not self._changed("heads", found, state.kind, state.layer, state.head):
            return
        self.words.setText(corpus.words(state))
        known = {} if found is None else corpus.known_measures(found)
        for part in (self._found, *self.axes, *self._named):
            part.setVisible(bool(known))
        for box, first in zip(self.axes, AT_FIRST, strict=True):
            titles = {name: _(title) for name, title in known.items()}
            wanted = box.currentData() or first
            box.offer(titles, wanted if wanted in known else next(iter(known), ""))
        if known:
            self._redraw()

    def _redraw(self) -> None:
        state, found = self._state, self._state.heads
        if found is None:
            return
        x, y = (box.currentData() for box in self.axes)
        every = [*corpus.points(found, x, y)]
        place = state.kind, state.layer, state.head
        chosen = next((one for one in every if one.place == place), None)
        self.plot.draw(found, every, (x, y), chosen)
        if self._changed("table", found, x, y):
            self.heads.fill(every, _columns(x, y))
        self.heads.select(chosen)
        for part in (self.head, self.caption, self.examples):
            part.setVisible(chosen is not None)
        if chosen is None or not self._changed("examples", found, y, place):
            return
        self.head.setText(corpus.head_line(found, *place))
        self.examples.fill(found.examples(y, *place))
        self.caption.setText(
            _(
                "Sentences with its largest and smallest “{measure}”: a double click "
                "opens one.",
                measure=_(MEASURES[y].title),
            )
        )

    # ---- what the user does ----------------------------------------------------

    def _look(self, one: HeadPoint) -> None:
        self.session.set(kind=one.kind, layer=one.layer, head=one.head)

    def _open(self, example: HeadExample) -> None:
        window = self.window()
        if isinstance(window, WindowParts):
            window.turn_to(corpus.show_example, example)

    def _choose(self) -> None:
        if path := asked_pairs(self):
            self.session.do(corpus.measure, path)


class HeadsPlot(Dressed, QWidget):
    """Heads by two measures; labels that would overlap are left out."""

    dressed_at = FONT_PALETTE  # which pyqtgraph does not follow
    picked = Signal(object)  # a HeadPoint

    def __init__(self) -> None:
        super().__init__()
        self._plot = Plot(_("heads by two measures"), 0)
        self._plot.widget.setContextMenuPolicy(Qt.ContextMenuPolicy.NoContextMenu)
        self._legend = plotting().LegendItem(offset=(-1, 1), colCount=len(KINDS))
        self._legend.setParentItem(self._plot.box)
        self._clouds = [self._cloud() for _kind in KINDS]
        self._labels: list[QGraphicsSimpleTextItem] = []
        self._points: Sequence[HeadPoint] = ()
        self._found: HeadsOfPairs | None = None
        self._axes = AT_FIRST
        self._chosen: HeadPoint | None = None
        self._plot.box.sigTransformChanged.connect(self._label)
        self.setProperty(CHOOSES, True)
        self.export = Export(self, self.table)
        fill(LeastColumn(self), (self._plot.widget, 1))
        self.dress()

    def _cloud(self) -> Any:
        made = plotting().ScatterPlotItem(hoverable=True, tip=_tip)
        made.sigClicked.connect(lambda _item, spots, _how: self._pick(spots))
        self._plot.box.addItem(made)
        return made

    def _pick(self, spots: Sequence[Any]) -> None:
        if len(spots):
            self.picked.emit(spots[0].data())

    def draw(
        self,
        found: HeadsOfPairs,
        points: Sequence[HeadPoint],
        axes: tuple[str, str],
        chosen: HeadPoint | None,
    ) -> None:
        """Draw heads by two measures; what is NaN in one of them has no place."""
        self._points = [one for one in points if math.isfinite(one.x + one.y)]
        self._found, self._axes, self._chosen = found, axes, chosen
        self._dress()

    def _draw(self) -> None:
        palette, line = self.palette(), self.fontMetrics().height()
        colours = [pen.color() for pen in pens(palette, thin=True)]
        roles = QPalette.ColorRole
        frame, ink = (
            _pen(palette.color(role), 3) for role in (roles.Highlight, roles.Text)
        )
        self._legend.clear()
        for cloud, kind, colour, symbol in zip(
            self._clouds, KINDS, colours, SYMBOLS, strict=False
        ):
            own = [one for one in self._points if one.kind == kind]
            cloud.setData(
                x=[one.x for one in own],
                y=[one.y for one in own],
                data=own,
                symbol=symbol,
                brush=colour,
                size=[line * (CHOSEN if one == self._chosen else SIZE) for one in own],
                pen=[
                    frame
                    if one == self._chosen
                    else ink
                    if one.roles
                    else _pen(colour, 1)
                    for one in own
                ],
            )
            if own:
                self._legend.addItem(cloud, _(KIND_NAMES[kind]))
        self._range()
        self._label()

    def _range(self) -> None:
        """Leave a margin, above for the legend and to the right for labels."""
        if not self._points:
            return
        box = self._plot.box
        for values, set_range, room in (
            ([one.x for one in self._points], box.setXRange, (0.05, 0.12)),
            ([one.y for one in self._points], box.setYRange, (0.05, 0.18)),
        ):
            low, high = min(values), max(values)
            wide = (high - low) or max(abs(high), 1e-6)
            set_range(low - room[0] * wide, high + room[1] * wide, padding=0)

    def _label(self) -> None:
        """Name heads while there is room: the one looked at, then those with a role."""
        box, metrics = self._plot.box, self.fontMetrics()
        half = SIZE * metrics.height() / 2
        places = [box.mapFromView(QPointF(one.x, one.y)) for one in self._points]
        for label in self._labels:  # mapping may have led here before
            box.scene().removeItem(label)
        self._labels = []
        taken = [
            QRectF(at.x() - half, at.y() - half, 2 * half, 2 * half) for at in places
        ]
        taken.append(self._legend.geometry())
        ink = self.palette().color(QPalette.ColorRole.Text)
        order = [*self._points]
        order.sort(key=lambda one: (one != self._chosen, not one.roles))
        gap = CHOSEN * metrics.height() / 2
        for one in order:
            at = box.mapFromView(QPointF(one.x, one.y))
            wide, high = metrics.horizontalAdvance(one.name), metrics.height()
            left = at.x() + gap
            if left + wide > box.width():
                left = at.x() - gap - wide
            room = QRectF(left, at.y() - high / 2, wide, high)
            if any(room.intersects(other) for other in taken):
                continue
            taken.append(room)
            label = QGraphicsSimpleTextItem(one.name, box)
            label.setFont(self.font())
            label.setBrush(ink)
            label.setPos(room.topLeft())
            self._labels.append(label)

    def _dress(self) -> None:
        self._plot.dress(self, *(_(MEASURES[name].title) for name in self._axes))
        self._legend.setLabelTextColor(self.palette().color(QPalette.ColorRole.Text))
        self._legend.setLabelTextSize(f"{self.font().pointSizeF():g}pt")
        self._draw()

    def table(self) -> Table | None:
        """Return every measure of every head, a row each."""
        found = self._found
        if found is None:
            return None
        every = [*corpus.points(found, *self._axes)]
        means = {k: [found.mean(name, k) for name in MEASURES] for k in found.sums}
        values = [[m[p.layer, p.head] for m in means[p.kind]] for p in every]
        return Table(
            tuple(f"{p.kind} {p.name}" for p in every),
            tuple(_(measure.title) for measure in MEASURES.values()),
            np.array(values, np.float32),
        )


def _pen(colour: QColor, width: int) -> QPen:
    made = QPen(colour, width)
    made.setCosmetic(True)  # its width is in pixels, not in units of the symbol
    return made


def _tip(x: float, y: float, data: HeadPoint) -> str:
    return ", ".join(filter(None, (_(KIND_NAMES[data.kind]), data.name, data.roles)))
