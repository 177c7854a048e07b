"""The Masks tab: what each query may attend to, in one sentence or in a batch."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtWidgets import (
    QGridLayout,
    QLabel,
    QScrollArea,
    QSplitter,
    QVBoxLayout,
    QWidget,
)

from visformer.language import N_, _
from visformer.pictures.absent import missing_kinds_words
from visformer.pictures.attention.maps import layer_and_head
from visformer.pictures.mask_lab import batch_words
from visformer.pictures.masks import (
    PART_NAMES,
    PARTS,
    MaskPart,
    cell_words,
    chosen,
    false_words,
    mask_picture,
    note,
    parts_of,
)
from visformer.pictures.picture import Matrix
from visformer.pictures.selection import AttentionCell
from visformer.session import side_requests
from visformer.session.state import Session, State
from visformer.ui.changed import Changed
from visformer.ui.views.mask_lab import MaskLab
from visformer.ui.views.view import PagedView, View
from visformer.ui.widgets.batch_panel import BatchPanel
from visformer.ui.widgets.canvas import MapCell
from visformer.ui.widgets.heatmap import HeatMap
from visformer.ui.widgets.plain_label import paragraph
from visformer.values.facts import KINDS, Kind
from visformer.values.trace import Trace
from visformer.words import KIND_NAMES

LEAST_LINES = 15  # minimum height of a map in lines of text; then the maps scroll
SAMPLES = ("I have a cat.", "Thank you.")

Places = dict[Kind, tuple[int, int]]  # the selected layer and head of each kind


class MasksPage(View):
    """Nine maps of one sentence, kinds by parts; and the batch that contains it."""

    name, title = "masks", N_("Masks")

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._batch = BatchPanel()
        self._batch.requested.connect(self._run_batch)
        self._batch.left.connect(self._leave_batch)
        self._batch.row_chosen.connect(self._draw_row)
        self._maps = _MaskMaps()
        self._maps.clicked.connect(self._lock)
        self._maps.hovered.connect(self._hover)
        self._maps.failed.connect(self.fail)
        splitter = QSplitter(Qt.Orientation.Horizontal)
        splitter.addWidget(self._batch)
        splitter.addWidget(self._maps)
        splitter.setSizes([280, 720])  # shared out in this proportion
        splitter.setStretchFactor(0, 2)
        splitter.setStretchFactor(1, 5)
        splitter.setChildrenCollapsible(False)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(splitter)

    def draw(self, state: State) -> None:
        """Show the batch if there is one, otherwise the sentence on screen."""
        self._state = state
        if state.trace is not None:
            self._batch.offer((state.trace.source_text, *SAMPLES))
        shown = state.batch, state.shown, state.model, state.busy
        if self._changed("batch panel", *shown):
            self._batch.draw(state, fresh=self._changed("batch", state.batch))
        self._draw_row(self._batch.row)

    def _draw_row(self, row: int) -> None:
        # The cell in focus belongs to the sentence on screen, not to the batch.
        state = self._state
        cell = None if state.batch else state.cell
        trace = chosen(state.batch, state.shown, row)
        places: Places = {}
        if trace is not None:
            places = {
                kind: layer_and_head(trace, state.selection, kind)
                for kind in trace.kinds
            }
        modified = bool(state.intervention)
        if self._changed("words", trace, state.batch, state.head, modified):
            words = ""
            if state.batch:
                words = batch_words(trace, state.head, modified=modified)
            self._maps.tell(words)
        self._maps.draw(trace, places, cell)

    def _run_batch(self, sentences: tuple[str, ...]) -> None:
        self.session.do(side_requests.batch, sentences)

    def _leave_batch(self) -> None:
        self.session.set(batch=())

    def _lock(self, cell: AttentionCell) -> None:
        if not self._state.batch:
            self.session.set(kind=cell.kind, locked=cell)

    def _hover(self, cell: AttentionCell | None) -> None:
        if not self._state.batch:
            self.session.set(hovered=cell)


class MasksView(PagedView):
    """The masks as they are, and a lab to change them in."""

    name, title = "masks", N_("Masks")
    pages = MasksPage, MaskLab


class _MaskMaps(QWidget):
    """The nine maps, one row per kind, one column per part, each with a note."""

    clicked = Signal(object)  # the AttentionCell
    hovered = Signal(object)  # the AttentionCell or None
    failed = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self._changed = Changed()
        self._trace: Trace | None = None
        self._places: Places = {}
        self._legend = paragraph(_("what the colours mean"))
        self._about = paragraph(_("leaks of this row of the batch"))
        maps = QWidget()
        self._grid = QGridLayout(maps)
        self._grid.setContentsMargins(0, 0, 0, 0)
        scroll = QScrollArea()
        scroll.setWidget(maps)
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QScrollArea.Shape.NoFrame)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(layout.spacing(), 0, 0, 0)
        layout.addWidget(self._legend)
        layout.addWidget(self._about)
        layout.addWidget(scroll)
        self._cells: dict[tuple[Kind, MaskPart], tuple[HeatMap, QLabel]] = {}
        self._titles: dict[MaskPart, QLabel] = {}
        for column, (part, explanation) in enumerate(PARTS.items()):
            name = _("what the {mask} is", mask=_(PART_NAMES[part]))
            label = paragraph(name, _(explanation))
            label.setAlignment(Qt.AlignmentFlag.AlignTop)
            self._titles[part] = label
            self._grid.addWidget(label, 1, column)
            self._grid.setColumnStretch(column, 1)
            for row, kind in enumerate(KINDS):
                self._add(kind, part, row, column)
        self._fit()

    def changeEvent(self, event: QEvent) -> None:
        """Keep the cells visible below labels of the new size."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange and hasattr(self, "_cells"):
            self._fit()

    def _fit(self) -> None:
        for heat_map, _label in self._cells.values():
            heat_map.setMinimumHeight(LEAST_LINES * self.fontMetrics().lineSpacing())

    def _add(self, kind: Kind, part: MaskPart, row: int, column: int) -> None:
        heat_map = HeatMap()
        names = {"kind": _(KIND_NAMES[kind]), "mask": _(PART_NAMES[part])}
        label = paragraph(_("{mask} of {kind} attention, in words", **names))
        label.setAlignment(Qt.AlignmentFlag.AlignTop)
        heat_map.setAccessibleName(_("{mask} of {kind} attention", **names))
        heat_map.clicked.connect(lambda cell, kind=kind: self._click(kind, cell))
        heat_map.hovered.connect(lambda cell, kind=kind: self._hover(kind, cell))
        heat_map.failed.connect(self.failed)
        self._cells[kind, part] = heat_map, label
        self._grid.addWidget(heat_map, 2 * row + 2, column)
        self._grid.addWidget(label, 2 * row + 3, column)
        self._grid.setRowStretch(2 * row + 2, 1)

    def _click(self, kind: Kind, cell: MapCell | None) -> None:
        if cell is not None:
            self.clicked.emit(AttentionCell(kind, *cell))

    def _hover(self, kind: Kind, cell: MapCell | None) -> None:
        """Say in words what the cell is, and why."""
        if self._trace is None or cell is None:
            self._legend.setText(_legend(self._trace))
            self.hovered.emit(None)
            return
        layer, _head = self._places[kind]
        self._legend.setText(cell_words(self._trace, kind, layer, *cell))
        self.hovered.emit(AttentionCell(kind, *cell))

    def tell(self, about: str) -> None:
        self._about.setText(about)
        self._about.setVisible(bool(about))

    def draw(
        self, trace: Trace | None, places: Places, cell: AttentionCell | None
    ) -> None:
        """Show the masks of a Trace, or say that there is none."""
        if self._changed("legend", trace):
            self._legend.setText(_legend(trace))
        if self._changed("there", None if trace is None else trace.model):
            self._show_there(trace)
        if self._changed("pictures", trace, places):
            self._trace, self._places = trace, places
            pictures = {} if trace is None else _pictures(trace, places)
            notes = {} if trace is None else _notes(trace, places)
            for place, (heat_map, label) in self._cells.items():
                heat_map.draw(pictures.get(place))
                label.setText(notes.get(place, ""))
        if self._changed("marks", trace, places, cell):
            self._mark(cell)

    def _show_there(self, trace: Trace | None) -> None:
        """Hide the kinds and the parts that a Trace does not have."""
        kinds, parts = KINDS if trace is None else trace.kinds, parts_of(trace)
        for column, (part, label) in enumerate(self._titles.items()):
            label.setText(parts.get(part, ""))
            label.setVisible(part in parts)
            self._grid.setColumnStretch(column, int(part in parts))
        for row, kind in enumerate(KINDS):
            self._grid.setRowStretch(2 * row + 2, int(kind in kinds))
            for part in PARTS:
                for widget in self._cells[kind, part]:
                    widget.setVisible(kind in kinds and part in parts)

    def _mark(self, cell: AttentionCell | None) -> None:
        """Frame the cell in focus in the maps of its kind."""
        for (kind, _part), (heat_map, _label) in self._cells.items():
            if cell is None or cell.kind != kind:
                heat_map.mark(None)
            else:
                row, column = cell.query, cell.key
                heat_map.mark((row, column), rows=(row,), columns=(column,))


def _notes(trace: Trace, places: Places) -> dict[tuple[Kind, MaskPart], str]:
    return {
        (kind, part): note(trace, kind, part, *places[kind])
        for kind in trace.kinds
        for part in parts_of(trace)
    }


def _pictures(trace: Trace, places: Places) -> dict[tuple[Kind, MaskPart], Matrix]:
    return {
        (kind, part): mask_picture(trace, kind, part, places[kind][0])
        for kind in trace.kinds
        for part in parts_of(trace)
    }


def _legend(trace: Trace | None) -> str:
    """Say what True and False mean, with the model's masked value."""
    if trace is None:
        return _("No sentence has been run yet: there are no masks to show.")
    colours = _(
        "True (may attend) or {false}; False cells are hatched.",
        false=false_words(trace),
    )
    return " ".join(filter(None, (colours, missing_kinds_words(trace.model))))
