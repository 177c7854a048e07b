"""The Output tab: the next token, what each layer would say, the numbers behind it."""

import math
from dataclasses import replace

from PySide6.QtCore import (
    QEvent,
    QObject,
    QPoint,
    QPointF,
    QRect,
    QRectF,
    QSignalBlocker,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import (
    QFontMetricsF,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
)
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QSplitter, QToolTip, QWidget

from visformer.language import N_, _, clauses, sentences
from visformer.pictures.candidates import (
    TokenBar,
    bars_table,
    headline,
    predicts,
    token_bars,
)
from visformer.pictures.comparison import Runs, candidate_numbers, no_step_words
from visformer.pictures.output import (
    MOST_ROWS,
    MOST_STEPS,
    SHOWS,
    Text,
    all_lens,
    chosen_line,
    first_row,
    flow_words,
    how_words,
    lens_cell_words,
    logit_table,
    output_picture,
    output_words,
    product_table,
    rank_words,
    softmax_words,
    step_lens,
    steps_range,
)
from visformer.pictures.picture import NOTHING, Bytes, Matrix, codes
from visformer.pictures.words.absent import has_output, has_target, no_lens_words
from visformer.session.both import names
from visformer.session.state import Session, State
from visformer.ui.layout import LeastColumn, fill, laid_out_once, paint_later
from visformer.ui.look import theme
from visformer.ui.look.theme import Dressed, fed_colour, letter_width
from visformer.ui.views.output.cache import CachePage
from visformer.ui.views.output.search_page import SearchPage
from visformer.ui.views.view import PagedView, View
from visformer.ui.widgets.both_runs import BesideSwitch
from visformer.ui.widgets.canvas import Canvas, MapCell
from visformer.ui.widgets.colour_bar import colour_table, inks
from visformer.ui.widgets.controls import chooser, titled
from visformer.ui.widgets.export import Export
from visformer.ui.widgets.heatmap import HeatMap
from visformer.ui.widgets.number_table import NumberTable
from visformer.ui.widgets.plain_label import (
    cut_to_room,
    paragraph,
    plain_label,
    plain_tip,
    written,
)
from visformer.ui.widgets.term_tips import TermTip
from visformer.ui.window.large import present_whole
from visformer.words import NOUGHT, dimension_words, number, probability

STACKED = 2.3  # lines of height from which the number goes below the token
FEWEST = 3  # characters of a token that are worth writing
ENOUGH = 8  # characters of one that is cut where a number stands beside it


class CellTexts(QWidget):
    """Lies over the cells of a map, ignores the mouse, and follows zoom and drag."""

    resized = Signal()

    def __init__(self, canvas: Canvas) -> None:
        super().__init__(canvas)
        self._canvas = canvas
        self.texts: tuple[tuple[Text, ...], ...] = ()
        self._matrix: Matrix | None = None
        self._codes = NOTHING  # of the matrix
        self._widths: dict[str, float] = {}  # of texts in this font, in pixels
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        canvas.digits = False  # these texts stand in their place
        canvas.moved.connect(self.update)
        canvas.installEventFilter(self)

    def draw(self, matrix: Matrix | None, texts: tuple[tuple[Text, ...], ...]) -> None:
        """Write these texts on the cells of the matrix that the map shows."""
        before = self.texts, self._codes
        self._matrix, self.texts = matrix, texts
        self._codes = NOTHING if matrix is None else codes(matrix.shade, matrix.masked)
        for row in self._changed_rows(*before):
            self.update(self._around(row))

    def _changed_rows(
        self, texts: tuple[tuple[Text, ...], ...], shades: Bytes
    ) -> list[int]:
        """Return the rows that are new, gone, or not as they were."""
        rows = range(max(len(texts), len(self.texts)))
        if shades.shape[1] != self._codes.shape[1]:
            return list(rows)
        both = min(len(texts), len(self.texts), len(shades), len(self._codes))
        same = (shades[:both] == self._codes[:both]).all(1)
        return [
            row
            for row in rows
            if row >= both or not same[row] or texts[row] != self.texts[row]
        ]

    def _around(self, row: int) -> QRect:
        """Return where a row is written, in pixels; texts may stand out a little."""
        view, over = self._canvas.view, self.fontMetrics().height() // 2
        high = self.height() / view.height()
        first = math.floor((row - view.y()) * high)
        return QRect(0, first - over, self.width(), math.ceil(high) + 2 * over)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Keep the size of the cells."""
        if event.type() == QEvent.Type.Resize:
            self.setGeometry(self._canvas.rect())
            self.resized.emit()
        return False

    def paintEvent(self, event: QPaintEvent) -> None:
        view, matrix = self._canvas.view, self._matrix
        if matrix is None or not self.texts:
            return
        painter = QPainter(self)
        colours = colour_table(self.palette(), signed=matrix.signed)
        ink = inks(colours, self.palette())
        wide, high = self.width() / view.width(), self.height() / view.height()
        writer = _Writer(painter, self._widths, wide, high)
        last_row = min(len(self.texts), math.ceil(view.bottom()))
        last_column = min(len(self.texts[0]), math.ceil(view.right()))
        for row in range(max(0, math.floor(view.top())), last_row):
            if not event.rect().intersects(self._around(row)):
                continue
            for column in range(max(0, math.floor(view.left())), last_column):
                left, top = (column - view.x()) * wide, (row - view.y()) * high
                painter.setPen(ink[self._codes[row, column]])
                token, number = self.texts[row][column]
                writer.write(left, top, (written((token,))[0], number))

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        self._widths = {}


class _Writer:
    """Writes tokens and numbers into cells of one size, at points.

    Qt is asked for the width of each text once: to align a text in a box it would lay
    it out twice.
    """

    def __init__(
        self, painter: QPainter, widths: dict[str, float], wide: float, high: float
    ) -> None:
        """``widths``: those known of texts, to be added to; a cell's size in pixels."""
        self._painter, self._widths = painter, widths
        self._metrics = QFontMetricsF(painter.font())
        self._letter = letter_width(painter.fontMetrics())
        self._line = painter.fontMetrics().height()
        self._room, self._high = wide - self._letter, high

    def write(self, left: float, top: float, text: Text) -> None:
        """Write the token above the number, or before it, or alone, as space allows."""
        token, number = text
        number = "" if number == NOUGHT else number  # as in a map's cells
        room, high, line = self._room, self._high, self._line
        if room < FEWEST * self._letter or high < 0.8 * line:
            return
        left += self._letter / 2
        whole, number_room = round(self._width(token)), round(self._width(number))
        if number and high >= STACKED * line and number_room <= room:
            middle = top + high / 2
            self._put(left, room, middle, line, number)
            top, high = middle - line, line
        elif number and self._has_room(whole, number_room + self._letter):
            self._put(left, room, top, high, number, share=1)
            room -= number_room + self._letter / 2
        if whole > room:
            token = cut_to_room(token, self._painter.fontMetrics(), room)
        self._put(left, room, top, high, token)

    def _has_room(self, token: int, number: float) -> bool:
        """Tell whether a number stands beside a token, or beside enough of a long one.

        Both are widths in pixels.
        """
        return min(token, ENOUGH * self._letter) + number <= self._room

    def _put(
        self,
        left: float,
        room: float,
        top: float,
        high: float,
        text: str,
        share: float = 0.5,
    ) -> None:
        """Write in the middle of a height; ``share`` of the free room is before it."""
        metrics = self._metrics
        before = share * (room - self._width(text))
        down = (high - metrics.height()) / 2 + metrics.ascent()
        self._painter.drawText(QPointF(left + before, top + down), text)

    def _width(self, text: str) -> float:
        if text not in self._widths:
            self._widths[text] = self._metrics.horizontalAdvance(text)
        return self._widths[text]


HINT = N_("click: go to the step · drag: see more")
LEAST_MAP = 130  # pixels: the minimum height of a map's cells; then the view scrolls
SIDE_BY_SIDE = 56  # the least width in lines of text; else one below the other
AROUND_LINES = 7  # what stands around them, in lines of text
STRETCH = 100.0  # a few rows of many columns still fill the map
CELL_LINES = 1.15  # minimum height of a step's cell in lines; the rest is dragged to


class NextToken(Dressed, View):
    """The sentence, the bars, the logit lens; below, the numbers they come from."""

    name, title, compares = "next", N_("Next token"), True

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._headline = paragraph(_("the next token in a sentence"))
        self.bars = BarChart()
        self.bars.setAccessibleName(_("the next token, best first"))
        self.beside, self.other = BesideSwitch(session), BarChart()
        self.other.setAccessibleName(_("the next token in the other run, best first"))
        self._names = paragraph(_("the other run")), paragraph(_("the run"))
        self.both = NumberTable(_("the next token in both runs"), least=3)
        self._flow = paragraph(_("how the token of this step came about"))
        TermTip(self.bars, session, "probability")
        self._output = _map(_("decoder output Z, rows by dimensions"))
        self._output.hovered.connect(self._tell_output)
        self._output.clicked.connect(self._go_to_row)
        self.products = NumberTable(
            _("the current row of Z and the logit of the step's token")
        )
        self.products.hovered.connect(self._mark_dimension)
        self._softmax = paragraph(_("the softmax with its numbers"))
        TermTip(self._softmax, session, "logit", "probability")
        self.logits = NumberTable(_("logits and probabilities, best first"))
        self._how = paragraph(_("how the lens is computed"))
        self._ranks = paragraph(_("the step's token through the layers"))
        self._step_map = _map(_("logit lens of this step, layers by tokens"))
        self._step_texts = CellTexts(self._step_map.canvas)
        self._step_map.hovered.connect(self._tell_step)
        self._steps_map = _map(_("logit lens of all steps, steps by layers"))
        self._steps_texts = CellTexts(self._steps_map.canvas)
        self._steps_texts.resized.connect(self._follow)
        self._steps_map.hovered.connect(self._tell_steps)
        self._steps_map.clicked.connect(self._go_to_step)
        self.shows = chooser(_("what the cells of all steps show"), SHOWS)
        self.shows.currentIndexChanged.connect(self._choose_shows)
        self._lay_out()

    def _lay_out(self) -> None:
        hint = plain_label(_(HINT), faint=True)
        hint.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        shows = titled(_("cells s&how"), self.shows), self.shows, (hint, 1)
        self._left = _column(self._output, self.products)
        self._right = _column(self._softmax, self.logits)
        self._above = _splitter(Qt.Orientation.Horizontal, self._left, self._right)
        self._lens = _column(self._ranks, self._step_map)
        self._every = _column(fill(QHBoxLayout(), *shows), self._steps_map)
        self._columns = [
            _column(name, bars)
            for name, bars in zip(self._names, (self.other, self.bars), strict=True)
        ]
        parts = *self._columns, self._lens
        self._first = _splitter(Qt.Orientation.Horizontal, *parts)
        self._first.setStretchFactor(2, 2)
        present_whole(self._first)
        self._column = fill(
            LeastColumn(self),
            *(self._headline, (self._first, 1), self.both),
            *(self._how, (self._every, 1)),
            *(self._flow, (self._above, 1)),
        )
        self._column.setContentsMargins(4, 4, 4, 4)
        self.dress()

    def _dress(self) -> None:
        self._keep_room()
        self._turn()

    def _keep_room(self) -> None:
        """Reserve lines for the words, so that stepping and hovering move nothing."""
        self._headline.setFont(theme.sized(self.font(), theme.TITLE, bold=True))
        self._column.setSpacing(theme.gap(self))
        for beside in (self._lens, self._right):
            layout = beside.layout()
            if layout is not None:
                layout.setContentsMargins(theme.gap(self, 2), 0, 0, 0)
        line = self.fontMetrics().lineSpacing()
        lines = {self._flow: 2, self._softmax: 3, self._how: 2, self._ranks: 2}
        for label, count in lines.items():
            label.setMinimumHeight(count * line)
            label.setAlignment(Qt.AlignmentFlag.AlignTop)
        for heat_map in (self._output, self._step_map, self._steps_map):
            heat_map.setMinimumHeight(LEAST_MAP + AROUND_LINES * line)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._turn()

    def _turn(self) -> None:
        wide = self.width() >= SIDE_BY_SIDE * self.fontMetrics().height()
        side = Qt.Orientation.Horizontal if wide else Qt.Orientation.Vertical
        self._above.setOrientation(side)
        self._first.setOrientation(Qt.Orientation.Horizontal if self._for_all else side)

    def present(self, *, on: bool) -> None:
        """Show an audience the bars beside the lens, whatever the room."""
        super().present(on=on)
        self._turn()

    # ---- drawing ---------------------------------------------------------------

    def main_picture(self) -> QWidget | None:
        """Return the bars, with the lens of the step where there is one."""
        return self._first if self.bars.isVisibleTo(self) else None

    def draw(self, state: State) -> None:
        self._state = state
        if self._changed(
            "whether there is a lens", bool(state.lens and state.lens.rows)
        ):
            paint_later(self)  # most of what is seen comes with it
        with laid_out_once(self, self._lens, self._every, self._left, self._right):
            self._draw_changes()

    def _draw_changes(self) -> None:
        state = self._state
        if self._changed("output", state.visible, state.trace):
            self._draw_output()
        if self._changed("bars", state.visible):
            self._headline.setText(headline(state.visible))
            self.bars.draw(token_bars(state.visible))
            self._columns[1].setVisible(predicts(state.visible))
        self.beside.draw(state)
        if self._changed("both", self._other_run(state), state.visible, names(state)):
            self._draw_both()
        if self._changed("numbers", state.visible, state.lens):
            self._draw_numbers()
        with QSignalBlocker(self.shows):
            self.shows.setCurrentIndex(max(0, self.shows.findData(state.views.lens)))
        shows = self.shows.currentData()
        of = state.visible, state.trace, self._other
        if self._changed("lens", *of, state.lens, shows):
            self._draw_lens()

    @property
    def tool(self) -> QWidget | None:
        """The switch for both runs."""
        return self.beside

    def _draw_both(self) -> None:
        """Show the other run's bars in place of the lens, and the difference below."""
        state, other, numbers = self._state, self._other, None
        called, ended = names(state), ""
        if other is not None and state.visible is not None:
            step = len(state.visible)
            ended = no_step_words(called[0], other, step)
            numbers = candidate_numbers(Runs(other, state.visible, step), called)
            self.other.draw(token_bars(other))
        self._names[0].setText(ended or called[0])
        self._names[1].setText(called[1])
        for part in (self._columns[0], self._names[1]):
            part.setVisible(other is not None)
        self.other.setVisible(other is not None and not ended and predicts(other))
        self.both.setVisible(numbers is not None)
        self.both.draw(numbers)

    def _choose_shows(self) -> None:
        views = replace(self._state.views, lens=self.shows.currentData())
        self.session.set(views=views)

    def _draw_output(self) -> None:
        state = self._state
        self._tell_row("")
        extent = None
        picture = None if state.visible is None else output_picture(state.visible)
        if state.trace is not None and picture is not None:
            extent = min(len(state.trace), MOST_ROWS), len(picture.columns)
        self._output.draw(picture, extent=extent)
        self._above.setVisible(state.visible is None or picture is not None)
        self._mark_dimension(None)

    def _draw_numbers(self) -> None:
        state = self._state
        self.products.draw(product_table(state.visible, state.lens))
        self._softmax.setText(softmax_words(state.visible, state.lens))
        self.logits.draw(logit_table(state.visible, state.lens))
        self.logits.mark(chosen_line(state.visible, state.lens), None)

    def _mark_dimension(self, at: tuple[int, int] | None) -> None:
        """Mark the current row of Z, and a dimension of it."""
        trace = self._state.visible
        if trace is None or not len(trace):
            return
        row = len(trace) - 1 - first_row(trace)
        cell = None if at is None else (row, at[1])
        self._output.mark(cell, rows=(row,), columns=() if at is None else (at[1],))

    def _draw_lens(self) -> None:
        state = self._state
        self._how.setText(self._lens_words())
        lens = state.visible is None or not no_lens_words(state.visible)
        for part in (self._every, self._right):
            part.setVisible(lens)
        self._lens.setVisible(lens and self._other is None)
        self._ranks.setText(rank_words(state.visible, state.lens))
        one = step_lens(state.visible, state.lens)
        # the step's token is cut where it is wide, not turned: no step moves the map
        names = one.matrix.columns[1:] if one else ()
        self._step_map.draw(one.matrix if one else None, longest=((), names))
        self._step_map.mark(None, columns=(0,))
        self._step_texts.draw(*((one.matrix, one.texts) if one else (None, ())))
        every = all_lens(state.visible, state.lens, self.shows.currentData())
        extent = None
        if every is not None and state.trace is not None:
            steps = min(len(state.trace), MOST_STEPS)
            extent = steps, len(every.matrix.columns)
        self._steps_map.draw(every.matrix if every else None, extent=extent)
        self._steps_texts.draw(*((every.matrix, every.texts) if every else (None, ())))
        if every is not None:
            last = len(every.matrix.rows) - 1
            self._steps_map.mark(None, rows=(last,))
            self._follow()

    def _follow(self) -> None:
        """Scroll to the current step, with cells high enough to be read."""
        row = len(self._steps_texts.texts) - 1
        if row < 0:
            return
        canvas, view = self._steps_map.canvas, self._steps_map.canvas.view
        line = canvas.fontMetrics().height()  # larger where the map is presented
        fit = max(1, int(canvas.height() / (CELL_LINES * line)))
        high = min(view.height(), fit)
        if view.height() > fit or not view.top() <= row <= view.bottom() - 1:
            top = max(0.0, row + 1 - high)
            canvas.look_at(QRectF(view.x(), top, view.width(), high))

    # ---- what the user does ----------------------------------------------------

    def _tell_output(self, cell: MapCell | None) -> None:
        """Describe the cell pointed at, and mark its dimension below."""
        trace = self._state.visible
        if cell is None or trace is None:
            self._tell_row("")
            self.products.mark(None, None)
            return
        self.products.mark(None, cell[1])
        row = first_row(trace) + cell[0]
        value = float(trace.decoder_output[row, cell[1]])
        pointed = _(
            "Row {row} of Z, {dimension}: {value}.",
            row=row + 1,
            dimension=dimension_words(cell[1]),
            value=number(value, 6),
        )
        self._tell_row(sentences((pointed, output_words(trace, row))))

    def _tell_row(self, pointed: str) -> None:
        """Say how the step's token came about, then describe the row pointed at."""
        trace = self._state.visible
        lines = [flow_words(trace)]
        if trace is not None and len(trace) and has_output(trace):
            lines.append(pointed or output_words(trace, len(trace) - 1))
        self._flow.setText("\n".join(lines))

    def _tell_step(self, cell: MapCell | None) -> None:
        trace = self._state.visible
        if trace is not None and len(trace):
            self._tell_lens((len(trace) - 1, cell[0]) if cell else None)

    def _tell_steps(self, cell: MapCell | None) -> None:
        trace = self._state.visible
        if trace is not None and len(trace):
            first = steps_range(trace).start
            self._tell_lens((first + cell[0], cell[1]) if cell else None)

    def _tell_lens(self, at: tuple[int, int] | None) -> None:
        """Say what a row and a layer predict, in place of how the lens is computed."""
        said = lens_cell_words(self._state.visible, self._state.lens, *at) if at else ""
        self._how.setText(said or self._lens_words())

    def _lens_words(self) -> str:
        """Say how the lens is computed, or why there is none."""
        trace = self._state.visible
        if trace is None or not has_target(trace):
            return ""
        return no_lens_words(trace) or how_words(trace.model)

    def _go_to_row(self, cell: MapCell | None) -> None:
        trace = self._state.visible
        if cell is not None and trace is not None:
            self.session.set(step=first_row(trace) + cell.row + 1)

    def _go_to_step(self, cell: MapCell | None) -> None:
        trace = self._state.visible
        if cell is not None and trace is not None:
            self.session.set(step=steps_range(trace).start + cell.row + 1)


class OutputView(PagedView):
    """The next token, the search among several, and what the decoder keeps."""

    name = "output"
    pages = NextToken, SearchPage, CachePage
    fills = True  # with bars of the next token


def _map(name: str) -> HeatMap:
    return HeatMap(name, stretch=STRETCH)


def _column(*parts: QWidget | QHBoxLayout) -> QWidget:
    """Stack parts vertically; heat maps and splitters take the free height."""
    column = QWidget()
    shares = [(part, int(isinstance(part, HeatMap | QSplitter))) for part in parts]
    rest = [] if any(share for _part, share in shares) else [(None, 1)]
    fill(LeastColumn(column), *shares, *rest, spacing=4)
    return column


def _splitter(orientation: Qt.Orientation, *parts: QWidget) -> QSplitter:
    splitter = QSplitter(orientation)
    for part in parts:
        splitter.addWidget(part)
        splitter.setStretchFactor(splitter.count() - 1, 1)
    splitter.setSizes([500] * len(parts))  # shared out evenly
    splitter.setChildrenCollapsible(False)
    return splitter


LONGEST_NAME = 24  # characters of room for a name


class BarChart(QWidget):
    """Names at the left, numbers at the right, bars between them."""

    def __init__(self) -> None:
        super().__init__()
        self.bars: tuple[TokenBar, ...] = ()
        self._rows = 0  # the most that there were: the room stays
        self.setMouseTracking(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.export = Export(self, lambda: bars_table(self.bars))

    def draw(self, bars: tuple[TokenBar, ...]) -> None:
        """Show these bars."""
        if bars == self.bars:
            return
        self.bars = bars
        if len(bars) > self._rows:
            self._rows = len(bars)
            self.updateGeometry()
        self.setAccessibleDescription(clauses(bar.words for bar in bars[:3]))
        self.update()

    def sizeHint(self) -> QSize:
        em = self.fontMetrics().height()
        return QSize(24 * em, max(self._rows, 10) * self._line())

    def minimumSizeHint(self) -> QSize:
        return QSize(16 * self.fontMetrics().height(), self.sizeHint().height())

    def _line(self) -> int:
        return round(1.35 * self.fontMetrics().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        painter, metrics = QPainter(self), self.fontMetrics()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        line, em = self._line(), metrics.height()
        number = metrics.horizontalAdvance("0.0e−00") + em // 2
        most = min(LONGEST_NAME * letter_width(metrics), self.width() // 3)
        names = [
            cut_to_room(name, metrics, most)
            for name in written(tuple(bar.name for bar in self.bars))
        ]
        name = max(map(metrics.horizontalAdvance, names), default=0)
        ranks = [f"{bar.rank:,}" for bar in self.bars]
        rank = max(map(metrics.horizontalAdvance, ranks), default=0) + em // 2
        left = rank + name + em
        room = max(em, self.width() - left - number)
        for at, (bar, text) in enumerate(zip(self.bars, names, strict=True)):
            y = at * line
            self._paint_row(painter, bar, QRect(left, y, room, line))
            painter.setPen(self._ink(bar))
            left_of = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight
            painter.drawText(QRect(rank, y, name + em // 3, line), left_of, text)
            value = QRect(left + room, y, number, line)
            painter.drawText(value, left_of, probability(bar.p))
            if bar.rank:
                painter.setPen(self.palette().placeholderText().color())
                there = QRect(0, y, rank - em // 3, line)
                painter.drawText(there, left_of, f"{bar.rank:,}")

    def _ink(self, bar: TokenBar) -> Qt.GlobalColor | object:
        palette = self.palette()
        if bar.own and bar.fed:
            return fed_colour(palette)
        return (palette.text() if bar.rank else palette.placeholderText()).color()

    def _paint_row(self, painter: QPainter, bar: TokenBar, box: QRect) -> None:
        """Paint a bar on its track; the step's own token is framed."""
        palette = self.palette()
        track = box.adjusted(0, box.height() // 5, 0, -box.height() // 5)
        painter.fillRect(track, palette.alternateBase())
        if not math.isnan(bar.p):
            full = QRect(track)
            full.setWidth(max(1, round(track.width() * min(1.0, bar.p))))
            colour = palette.highlight().color()
            if not bar.rank:
                colour = palette.placeholderText().color()
            painter.fillRect(full, colour)
        if bar.own:
            ink = fed_colour(palette) if bar.fed else palette.highlight().color()
            painter.setPen(QPen(ink, 2))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(track)

    def _at(self, point: QPoint) -> TokenBar | None:
        row = point.y() // self._line()
        return self.bars[row] if 0 <= row < len(self.bars) else None

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        bar = self._at(event.position().toPoint())
        if bar is not None:
            place = event.globalPosition().toPoint()
            QToolTip.showText(place, plain_tip(bar.words), self)
