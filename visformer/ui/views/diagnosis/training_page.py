"""The Training page: one sentence along a training, as curves and as runs."""

import numpy as np
from PySide6.QtCore import QSignalBlocker, Qt
from PySide6.QtGui import QPalette, QPen
from PySide6.QtWidgets import QFileDialog, QHBoxLayout, QSlider, QWidget

from visformer.language import N_, _
from visformer.pictures.picture import Table
from visformer.session import training
from visformer.session.state import Session, State
from visformer.ui.layout import LeastColumn, TurningRow, fill
from visformer.ui.look.theme import FONT_PALETTE, Dressed
from visformer.ui.views.positions.curves import Plot, pens, plotting
from visformer.ui.views.view import View
from visformer.ui.widgets.controls import chooser, word_button
from visformer.ui.widgets.export import Export
from visformer.ui.widgets.plain_label import paragraph
from visformer.ui.window.large import present_whole
from visformer.ui.window.window_parts import WindowParts
from visformer.values.arrays import Floats
from visformer.words import head_words

MEASURES = {
    "entropy": N_("entropy of the head's rows, in bits"),
    "largest": N_("mean of the rows' largest weights"),
    "order": N_("how steadily the head advances, −1 to 1"),
    "importance": N_("change in log p without the head, estimated, in nats"),
}
NO_HEADS = np.zeros((0, 0), np.float32)
MOST_HEADS = 256  # curves of one kind
FAINT = 90  # of 255: the curves of heads that are not looked at
PLOT_LINES = 12  # of text: the least height


class TrainingPage(Dressed, View):
    """A slider through a series of checkpoints, with the loss and each head."""

    name, title, plots = "training", N_("Training"), True
    dressed_at = FONT_PALETTE  # which pyqtgraph does not follow

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.choose = word_button(
            _("Choose a folder…"),
            _("A folder of checkpoints, or of recorded runs (.vis) of one sentence"),
            self._choose,
        )
        self.again = word_button(
            _("Run again"),
            _("Run the sentence on screen by every checkpoint of the folder"),
            lambda: self._follow(self._folder),
        )
        self.measure = chooser(_("what the curves of heads show"), MEASURES)
        self.measure.activated.connect(lambda: self._redraw())
        self.words = paragraph(_("what the series shows"))
        self.loss = SeriesPlot(_("loss along the training"), 1)
        self.heads = SeriesPlot(_("each head along the training"), MOST_HEADS)
        self.points = QSlider(Qt.Orientation.Horizontal)
        self.points.setAccessibleName(_("point of the training"))
        self.points.valueChanged.connect(self._turn)
        row = fill(QHBoxLayout(), self.choose, self.again, self.measure, None)
        plots = TurningRow(self.loss, self.heads)
        present_whole(plots)
        self._plots = self.main = plots
        fill(LeastColumn(self), row, self.words, (plots, 1), self.points, None)
        self.dress()

    @property
    def _folder(self) -> str:
        series = self._state.series
        return "" if series is None else series.folder

    def _dress(self) -> None:
        for plot in (self.loss, self.heads):
            plot.setMinimumHeight(PLOT_LINES * self.fontMetrics().lineSpacing())
        self._changed.forget()
        self.draw(self._state)

    def draw(self, state: State) -> None:
        """Draw the points that have come; the slider stands at the one on screen."""
        self._state, series = state, state.series
        place = training.place(state)
        self.again.setEnabled(bool(self._folder) and not state.busy)
        self.words.setText(training.words(state))
        count = 0 if series is None else len(series.points)
        looked = (state.kind, state.layer, state.head) if count else ()
        if not self._changed("series", series, place, looked):
            return
        self._plots.setVisible(bool(count))
        self.points.setVisible(count > 1)
        self.measure.setVisible(bool(count))
        with QSignalBlocker(self.points):
            self.points.setRange(0, max(0, count - 1))
            self.points.setValue(count - 1 if place is None else place)
        self._redraw()

    def _redraw(self) -> None:
        state, series = self._state, self._state.series
        points = () if series is None else series.points
        steps = np.array([point.step for point in points], np.float32)
        at = training.place(state)
        mark = None if at is None else float(steps[at])
        axis = _("step of the training")
        loss = np.array([[point.loss] for point in points], np.float32).reshape(-1, 1)
        self.loss.draw(steps, loss, (_("loss"),), 0, mark)
        self.loss.name_axes(axis, _("loss, nats per token"))
        name, kind = self.measure.currentData(), state.kind
        grids = [p.heads[name].get(kind, NO_HEADS) for p in points]
        shape = (0, 0) if series is None else training.heads_shape(series, name, kind)
        values = np.full((len(points), shape[0] * shape[1]), np.nan, np.float32)
        for row, grid in zip(values, grids, strict=True):
            if grid.shape == shape:  # else it is of another model
                row[:] = grid.ravel()
        # another model on screen may have heads that no curve is of
        places = list(np.ndindex(shape))
        place = state.layer, state.head
        chosen = places.index(place) if place in places else None
        names = tuple(head_words(*one) for one in places)
        self.heads.draw(steps, values, names, chosen, mark)
        self.heads.name_axes(axis, _(MEASURES[name]))

    def _turn(self, at: int) -> None:
        window = self.window()
        if isinstance(window, WindowParts):
            window.turn_to(training.turn_to, at)

    def _choose(self) -> None:
        folder = QFileDialog.getExistingDirectory(self, _("A training's checkpoints"))
        if folder:
            self._follow(folder)

    def _follow(self, folder: str) -> None:
        self.session.do(training.follow, folder)


class SeriesPlot(Dressed, QWidget):
    """Curves over the steps of a training, one of them in full colour."""

    dressed_at = FONT_PALETTE  # which pyqtgraph does not follow

    def __init__(self, name: str, most: int) -> None:
        """``most``: curves, of which the first are drawn where there are more."""
        super().__init__()
        self._most = most
        self._plot = Plot(name, 0)  # a curve takes long to make: those that are drawn
        self._plot.widget.setContextMenuPolicy(Qt.ContextMenuPolicy.NoContextMenu)
        self._line = plotting().InfiniteLine(angle=90)
        self._line.setZValue(0.5)  # above the curves but for the chosen one
        self._plot.box.addItem(self._line, ignoreBounds=True)
        self._titles = "", ""
        self._numbers: tuple[Floats, Floats, tuple[str, ...]] | None = None
        self.export = Export(self, self.table)
        fill(LeastColumn(self), (self._plot.widget, 1))
        self.dress()

    def draw(
        self,
        steps: Floats,
        values: Floats,
        names: tuple[str, ...],
        chosen: int | None,
        mark: float | None,
    ) -> None:
        """Draw columns of values [N, C] over steps [N]; ``mark``: the step shown."""
        self._numbers = steps, values, names
        pen, *_others = pens(self.palette(), thin=False)
        faint = QPen(self.palette().color(QPalette.ColorRole.Text), 0)
        colour = faint.color()
        colour.setAlpha(FAINT)
        faint.setColor(colour)
        self._plot.have(min(self._most, values.shape[1]))
        for at, curve in enumerate(self._plot.curves):
            if at < values.shape[1]:
                curve.setZValue(at == chosen)
                curve.setData(steps, values[:, at], pen=pen if at == chosen else faint)
            else:
                curve.clear()
        self._line.setVisible(mark is not None)
        if mark is not None:
            self._line.setPos(mark)
        self._line.setPen(QPen(self.palette().color(QPalette.ColorRole.Highlight), 0))

    def name_axes(self, bottom: str, left: str) -> None:
        """Name both axes."""
        self._titles = bottom, left
        self._plot.dress(self, bottom, left)

    def _dress(self) -> None:
        self._plot.dress(self, *self._titles)

    def table(self) -> Table | None:
        """Return the numbers drawn: a row for each point of the series."""
        if self._numbers is None or not self._numbers[2]:
            return None
        steps, values, names = self._numbers
        return Table(tuple(f"{step:g}" for step in steps), names, values)
