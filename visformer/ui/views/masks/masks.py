"""The Masks tab: what each query may attend to, in one sentence or in a batch."""

from dataclasses import replace
from functools import partial

import numpy as np
from PySide6.QtCore import QEvent, QRect, QSize, Qt, Signal
from PySide6.QtGui import QImage, QPainter, QPaintEvent, QPalette, QPen
from PySide6.QtWidgets import (
    QAbstractButton,
    QButtonGroup,
    QGridLayout,
    QLabel,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from visformer.language import N_, _, sentences
from visformer.pictures.attention.maps import layer_and_head
from visformer.pictures.masks import (
    PART_NAMES,
    PARTS,
    MaskPart,
    batch_examples,
    cell_words,
    chosen,
    false_words,
    mask_picture,
    note,
    parts_of,
    solid_words,
)
from visformer.pictures.picture import Matrix, codes
from visformer.pictures.selection import AttentionCell
from visformer.pictures.words.absent import missing_kinds_words
from visformer.pictures.words.leak_words import batch_words, mask_and_leaks, run_words
from visformer.session import side_requests
from visformer.session.state import Session, State
from visformer.ui.changed import Changed
from visformer.ui.layout import LeastColumn, LeastRow, TurningRow, fill, laid_out_once
from visformer.ui.look import theme
from visformer.ui.look.theme import Dressed, is_over, letter_width
from visformer.ui.views.masks.batch_panel import BatchPanel
from visformer.ui.views.masks.mask_lab import MaskLab, leaking_step
from visformer.ui.views.view import PagedView, View
from visformer.ui.widgets.both_runs import Without
from visformer.ui.widgets.canvas import MapCell
from visformer.ui.widgets.colour_bar import colour_table, image_of
from visformer.ui.widgets.heatmap import HeatMap
from visformer.ui.widgets.plain_label import paragraph, plain_label, plain_tip
from visformer.ui.window.large import can_be_large
from visformer.values.changes.mask_changes import Causal
from visformer.values.facts import KINDS, Kind
from visformer.values.intervention import Intervention
from visformer.values.trace import Trace
from visformer.words import KIND_NAMES

LINES, CHARACTERS = 20, 34  # the least height and width of the large mask, in text
SHORT_NAMES: dict[MaskPart, str] = {
    "padding": N_("padding"),
    "causal": N_("causal"),
    "combined": N_("combined"),
}
FIRST: tuple[Kind, MaskPart] = ("decoder", "combined")  # the mask that matters

MaskPlaces = dict[Kind, tuple[int, int]]  # the selected layer and head of each kind
MaskPlace = tuple[Kind, MaskPart]


class _LargeMask(Dressed, QWidget):
    """A map, or words where it would be of one colour; also where it is presented."""

    def __init__(self, heat_map: HeatMap) -> None:
        super().__init__()
        self._map = heat_map
        self.solid = paragraph(_("what the large mask hides"))
        self.solid.setAlignment(Qt.AlignmentFlag.AlignCenter)
        fill(LeastColumn(self), (heat_map, 1), (self.solid, 1))
        can_be_large(self)
        self.dress()

    def say(self, words: str) -> None:
        """Show words instead of the map; "": the map."""
        with laid_out_once(self):
            self.solid.setText(words)
            self.solid.setVisible(bool(words))
            self._map.setVisible(not words)

    def _dress(self) -> None:
        metrics = self.fontMetrics()
        wide = CHARACTERS * letter_width(metrics)
        # where it is presented nothing scrolls
        most = self.screen().availableGeometry().height() * 2 // 3
        self._map.setMinimumSize(wide, min(LINES * metrics.lineSpacing(), most))
        self.solid.setMinimumWidth(wide)  # as what stands in its place
        self.solid.setFont(theme.sized(self.font(), theme.TITLE, bold=True))


class MaskMaps(Dressed, QWidget):
    """Nine masks of a sentence, kinds by parts: one large, the others a click away."""

    clicked = Signal(object)  # the AttentionCell
    hovered = Signal(object)  # the AttentionCell or None

    def __init__(self) -> None:
        super().__init__()
        self._changed = Changed()
        self._trace: Trace | None = None
        self._places: MaskPlaces = {}
        self._marked: AttentionCell | None = None
        self.large: MaskPlace = FIRST
        self._legend = paragraph(_("what the colours mean"))
        self._about = paragraph(_("leaks"))
        self.map = HeatMap(_("the large mask"))
        self.map.clicked.connect(self._click)
        self.map.hovered.connect(self._hover)
        self.picture = _LargeMask(self.map)
        self.solid = self.picture.solid
        self.note = paragraph(_("the large mask in words"))
        self.thumbs: dict[MaskPlace, MaskThumb] = {}
        self._titles: list[tuple[QLabel, Kind | MaskPart]] = []
        self._lay_out()
        self.dress()

    def _lay_out(self) -> None:
        parts = self._legend, self._about, (self.picture, 1), self.note
        shown = fill(QVBoxLayout(), *parts)
        grid = QGridLayout()
        grid.setSpacing(theme.gap(self))
        group = QButtonGroup(self)
        for column, part in enumerate(PARTS):
            self._title(grid, (0, column, 1), _(SHORT_NAMES[part]), part)
            for row, kind in enumerate(KINDS):
                if not column:
                    at = (2 * row + 1, 0, 3)
                    self._title(grid, at, _(KIND_NAMES[kind]), kind)
                thumb = self.thumbs[kind, part] = MaskThumb()
                names = {"kind": _(KIND_NAMES[kind]), "mask": _(PART_NAMES[part])}
                thumb.setAccessibleName(_("{mask} of {kind} attention", **names))
                thumb.clicked.connect(partial(self.enlarge, (kind, part)))
                group.addButton(thumb)
                grid.addWidget(thumb, 2 * row + 2, column)
        beside = fill(QVBoxLayout(), grid, (None, 1))
        fill(LeastRow(self), (shown, 1), beside, spacing=theme.gap(self, 2))

    def _title(
        self,
        grid: QGridLayout,
        at: tuple[int, int, int],
        text: str,
        of: Kind | MaskPart,
    ) -> None:
        title = plain_label(text, faint=True)
        self._titles.append((title, of))
        grid.addWidget(title, at[0], at[1], 1, at[2])

    def _dress(self) -> None:
        metrics = self.fontMetrics()
        self._legend.setMinimumHeight(2 * metrics.lineSpacing())  # hovering moves none
        for title, _of in self._titles:
            title.setFont(theme.sized(self.font(), theme.CAPTION))

    # ---- drawing ---------------------------------------------------------------

    def tell(self, about: str) -> None:
        self._about.setText(about)
        self._about.setVisible(bool(about))

    def enlarge(self, place: MaskPlace) -> None:
        """Show another mask large."""
        self.large = place
        self._draw_large()

    def draw(
        self, trace: Trace | None, places: MaskPlaces, cell: AttentionCell | None
    ) -> None:
        """Show the masks of a Trace, or say that there is none."""
        self._marked = cell
        if self._changed("legend", trace):
            self._legend.setText(_legend(trace))
        if self._changed("there", None if trace is None else trace.model):
            self._show_there(trace)
        if self._changed("pictures", trace, places):
            self._trace, self._places = trace, places
            for (kind, part), thumb in self.thumbs.items():
                if trace is None or thumb.isHidden():
                    thumb.draw(None, "")
                else:
                    words = note(trace, kind, part, *places[kind])
                    layer = places[kind][0]
                    thumb.draw(mask_picture(trace, kind, part, layer), words)
        self._draw_large()

    def _show_there(self, trace: Trace | None) -> None:
        kinds, parts = KINDS if trace is None else trace.kinds, parts_of(trace)
        for (kind, part), thumb in self.thumbs.items():
            thumb.setVisible(kind in kinds and part in parts)
        for title, of in self._titles:
            title.setVisible(of in kinds or of in parts)
        if self.large[0] not in kinds or self.large[1] not in parts:
            self.large = (FIRST[0] if FIRST[0] in kinds else kinds[-1], FIRST[1])

    def _draw_large(self) -> None:
        trace, (kind, part) = self._trace, self.large
        self.thumbs[self.large].setChecked(True)
        if self._changed("large", trace, self._places, self.large):
            if trace is None:
                self.map.draw(None)
                self.note.setText("")
                self.picture.say("")
            else:
                layer, head = self._places[kind]
                self.map.draw(mask_and_leaks(trace, kind, part, layer))
                said = parts_of(trace)[part], note(trace, kind, part, layer, head)
                self.note.setText(sentences(said))
                self.picture.say(solid_words(trace, kind, part, layer))
        if self._changed("marks", trace, self._places, self.large, self._marked):
            self._mark(self._marked)

    def _mark(self, cell: AttentionCell | None) -> None:
        if cell is None or cell.kind != self.large[0]:
            self.map.mark(None)
        else:
            row, column = cell.query, cell.key
            self.map.mark((row, column), rows=(row,), columns=(column,))

    # ---- the mouse -------------------------------------------------------------

    def _click(self, cell: MapCell | None) -> None:
        if cell is not None:
            self.clicked.emit(AttentionCell(self.large[0], *cell))

    def _hover(self, cell: MapCell | None) -> None:
        if self._trace is None or cell is None:
            self._legend.setText(_legend(self._trace))
            self.hovered.emit(None)
            return
        kind = self.large[0]
        layer, _head = self._places[kind]
        self._legend.setText(cell_words(self._trace, kind, layer, *cell))
        self.hovered.emit(AttentionCell(kind, *cell))


def _legend(trace: Trace | None) -> str:
    """Say what True and False mean, with the model's masked value."""
    if trace is None:
        return _("No sentence has been run yet: there are no masks to show.")
    colours = _(
        "True (may attend) or {false}; False cells are hatched.",
        false=false_words(trace),
    )
    return sentences((colours, missing_kinds_words(trace.model)))


THUMB_LINES = 4.5  # of text: the height and the width of a thumb
NOTHING_HIDDEN = N_("hides nothing")
NO_CELLS_YET = N_("no cells yet")


class MaskThumb(QAbstractButton):
    """A button with the mask on it; checked while that mask is the large one."""

    def __init__(self) -> None:
        super().__init__()
        self.setCheckable(True)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self._matrix: Matrix | None = None
        self.said = ""  # in place of a mask without cells, or that hides none
        self._image: QImage | None = None

    def draw(self, matrix: Matrix | None, words: str) -> None:
        """Show a mask; ``words`` tell what it hides."""
        if words != self.accessibleDescription():
            self.setToolTip(plain_tip(words))
            self.setAccessibleDescription(words)
        said, before = self.said, self._matrix
        self._matrix, self.said = matrix, _said(matrix)
        if self.said != said or not (said or _is_same(matrix, before)):
            self._image = None
            self.update()

    def sizeHint(self) -> QSize:
        side = round(THUMB_LINES * self.fontMetrics().lineSpacing())
        return QSize(side, side)

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter, palette = QPainter(self), self.palette()
        box = self.rect().adjusted(2, 2, -3, -3)
        if self.said:
            painter.setFont(theme.sized(self.font(), theme.CAPTION))
            painter.setPen(palette.color(QPalette.ColorRole.PlaceholderText))
            flags = Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap
            painter.drawText(box.adjusted(2, 2, -2, -2), flags, self.said)
        elif self._matrix is not None:
            rows, columns = self._matrix.values.shape
            size = QSize(columns, rows).scaled(
                box.size(), Qt.AspectRatioMode.KeepAspectRatio
            )
            place = QRect(0, 0, max(1, size.width()), max(1, size.height()))
            place.moveCenter(box.center())
            painter.setRenderHint(QPainter.RenderHint.LosslessImageRendering)
            painter.drawImage(place, self._painted(palette))
        chosen = self.isChecked()
        role = QPalette.ColorRole.Highlight if chosen else QPalette.ColorRole.Mid
        framed = chosen or self.hasFocus() or is_over(self)
        if framed and not chosen:
            role = QPalette.ColorRole.Highlight
        painter.setPen(QPen(palette.color(role), 3 if chosen else 1))
        painter.drawRect(box)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        self._image = None
        if event.type() == QEvent.Type.FontChange:
            self.updateGeometry()

    def _painted(self, palette: QPalette) -> QImage:
        if self._image is None and self._matrix is not None:
            cells = codes(self._matrix.shade, self._matrix.masked)
            self._image = image_of(cells, colour_table(palette))
        assert self._image is not None
        return self._image


def _said(matrix: Matrix | None) -> str:
    if matrix is None:
        return ""
    if not matrix.values.size:
        return _(NO_CELLS_YET)
    return _(NOTHING_HIDDEN) if matrix.masked is None else ""


def _is_same(one: Matrix | None, other: Matrix | None) -> bool:
    if one is None or other is None:
        return one is other
    return np.array_equal(one.values, other.values)


ROOM = 1.25  # times the least width: then the batch stands beside the masks


def _turned(change: Intervention) -> Intervention:
    """Switch the causal mask of all layers off, or on again."""
    off, there = Causal(None), change.of(Causal, layer=None)
    return change.without(off) if there else change.with_change(off)


NO_CAUSAL_MASK = Without(
    N_("Run without the causal mask"),
    N_("Run with the causal mask again"),
    lambda change: bool(change.of(Causal, layer=None)),
    _turned,
    lambda state: state.model is None or "decoder" in state.model.kinds,
    lambda state: replace(state, kind="decoder", step=leaking_step(state)),
)


class MasksPage(View):
    """The masks of one sentence, and the batch that contains it."""

    name, title = "masks", N_("Masks")

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._batch = BatchPanel()
        self._batch.requested.connect(
            lambda sentences: session.do(side_requests.batch, sentences)
        )
        self._batch.left.connect(lambda: session.do(side_requests.leave_batch))
        self._batch.row_chosen.connect(self._draw_row)
        self._maps = MaskMaps()
        self.main = self._maps.picture
        self._followed = False
        self._maps.clicked.connect(self._lock)
        self._maps.hovered.connect(self._hover)
        both = TurningRow((self._maps, 5), (self._batch, 2), room=ROOM)
        fill(LeastColumn(self), both)

    @property
    def tool(self) -> QPushButton:
        """Runs the batch: in sight however far down its sentences stand."""
        return self._batch.run_it

    def draw(self, state: State) -> None:
        self._state = state
        if state.trace is not None:
            self._batch.offer(batch_examples(state.trace.source_text))
        shown = state.batch, state.visible, state.model, state.busy
        if self._changed("batch panel", *shown):
            self._batch.draw(state, fresh=self._changed("batch", state.batch))
        self._draw_row(self._batch.row)

    def _draw_row(self, row: int) -> None:
        # The cell in focus belongs to the sentence on screen, not to the batch.
        state = self._state
        cell = None if state.batch else state.cell
        trace = chosen(state.batch, state.visible, row)
        places: MaskPlaces = {}
        if trace is not None:
            places = {
                kind: layer_and_head(trace, state.selection, kind)
                for kind in trace.kinds
            }
        modified = bool(state.intervention)
        if self._changed("kind", state.kind) and trace is not None:
            self._follow(state.kind)
        if self._changed("words", trace, state.batch, state.head, modified):
            words = run_words(trace)
            if state.batch:
                words = batch_words(trace, state.head, modified=modified)
            self._maps.tell(words)
        self._maps.draw(trace, places, cell)

    def _follow(self, kind: Kind) -> None:
        """Show the mask of a kind that was chosen elsewhere while this page is open."""
        if self._followed and kind in KINDS:
            self._maps.large = kind, self._maps.large[1]
        self._followed = True

    def _lock(self, cell: AttentionCell) -> None:
        if not self._state.batch:
            self.session.set(kind=cell.kind, locked=cell)

    def _hover(self, cell: AttentionCell | None) -> None:
        if not self._state.batch:
            self.session.set(hovered=cell)


class MasksView(PagedView):
    """The masks as they are, and a lab to change them in."""

    name = "masks"
    pages = MasksPage, MaskLab

    def __init__(self, session: Session) -> None:
        super().__init__(session, NO_CAUSAL_MASK)
