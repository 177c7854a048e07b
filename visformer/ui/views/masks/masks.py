"""The Masks tab: what each query may attend to, in one sentence or in a batch."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtWidgets import QPushButton, QWidget

from visformer.language import N_
from visformer.pictures.attention.maps import layer_and_head
from visformer.pictures.masks import batch_examples, chosen
from visformer.pictures.selection import AttentionCell
from visformer.pictures.words.leak_words import batch_words, run_words
from visformer.session import side_requests
from visformer.session.state import Session, State
from visformer.ui.layout import LeastColumn, TurningRow, fill
from visformer.ui.views.masks.batch_panel import BatchPanel
from visformer.ui.views.masks.mask_fields import leaking_step
from visformer.ui.views.masks.mask_lab import MaskLab
from visformer.ui.views.masks.mask_maps import MaskMaps, MaskPlaces
from visformer.ui.views.view import PagedView, View
from visformer.ui.widgets.run_switch import Without
from visformer.values.changes.causal import Causal
from visformer.values.facts import KINDS, Kind
from visformer.values.intervention import Intervention

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
        self._followed = False
        self._maps.clicked.connect(self._lock)
        self._maps.hovered.connect(self._hover)
        both = TurningRow((self._maps, 5), (self._batch, 2), room=ROOM)
        fill(LeastColumn(self), both)

    @property
    def tool(self) -> QPushButton:
        """Runs the batch: in sight however far down its sentences stand."""
        return self._batch.run_it

    def main_picture(self) -> QWidget | None:
        """Return the large mask."""
        return self._maps.picture

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
