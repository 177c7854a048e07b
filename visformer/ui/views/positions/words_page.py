"""The Words page: a token's nearest tokens by their embeddings."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QWidget

from visformer.language import N_, _
from visformer.pictures.positions import (
    NOT_KNOWN,
    cosine_table,
    near_words_text,
    sentence_tokens,
)
from visformer.session.state import Session, State
from visformer.text import clean
from visformer.ui.layout import LeastColumn, fill
from visformer.ui.views.view import View
from visformer.ui.widgets.canvas import MapCell
from visformer.ui.widgets.controls import chooser, titled
from visformer.ui.widgets.number_table import NumberTable
from visformer.ui.widgets.plain_label import paragraph
from visformer.ui.widgets.term_tips import TermTip
from visformer.ui.window.large import present_whole
from visformer.values.facts import SentenceSide

if TYPE_CHECKING:
    pass

EMBEDDINGS: dict[SentenceSide, str] = {
    "source": N_("source embedding"),
    "target": N_("target embedding"),
}
NEAREST = 20  # rows of the list


class WordsPage(View):
    """A field for any token, and the list of its nearest."""

    name, title = "words", N_("Words")

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.side = chooser(_("which embedding"), EMBEDDINGS)
        self.side.activated.connect(
            lambda at: self._set(embedding=self.side.itemData(at))
        )
        self.field = QLineEdit()
        self.field.setAccessibleName(_("token to look up"))
        self.field.setPlaceholderText(_("any token"))
        self.field.returnPressed.connect(
            lambda: self._set(token=clean(self.field.text()).strip())
        )
        self.sentence = chooser(_("tokens of the sentence"))
        self.sentence.setPlaceholderText(_("of the sentence"))
        self.sentence.activated.connect(
            lambda at: self._set(token=self.sentence.itemData(at))
        )
        self.about = paragraph(_("what is listed"))
        TermTip(self.about, session, "cosine")
        TermTip(self.side, session, "cosine")
        nearest = _("nearest tokens and their cosines")
        self.table = NumberTable(nearest, most=NEAREST, hugs=True)
        self.table.picked.connect(self._pick)
        self._lay_out()

    def _lay_out(self) -> None:
        title = titled(_("&Token"), self.field)
        self._known = QWidget()
        present_whole(self.table)
        line = fill(QHBoxLayout(), title, self.field, self.sentence, self.side, None)
        row = fill(QHBoxLayout(), self.table, None)
        fill(LeastColumn(self._known), line, row)
        fill(LeastColumn(self), self.about, self._known, None)

    def main_picture(self) -> QWidget | None:
        """Return the list."""
        return self.table if self._known.isVisibleTo(self) else None

    def draw(self, state: State) -> None:
        """Show the nearest tokens of the one that was looked up last."""
        self._state, about = state, state.about
        # of another model than the open one's run nothing is known
        near = None if about is None else state.scene.near
        waits = state.near is None or not state.near.arrived
        known = near is not None or (about is not None and waits)
        shown = near, known, about, state.visible, state.look.pieces
        if not self._changed("near", *shown):
            return
        config = None if about is None else about.model.known
        two = config is not None and not config.shared_embedding
        side: SentenceSide = "source" if near is None else near.side
        tokens = sentence_tokens(state.visible if known else None, side)
        self.sentence.offer(tokens, None if near is None else int(near.ids[0]))
        self.side.setCurrentIndex(self.side.findData(side))
        self.side.setVisible(two)
        self.about.setText(near_words_text(near) if known else _(NOT_KNOWN))
        self._known.setVisible(known)
        self.table.setVisible(near is not None)
        if self._changed("points", near, state.look.pieces):
            self.table.draw(cosine_table(near))

    # ---- what the user does ----------------------------------------------------

    def _set(self, **chosen: Any) -> None:
        self.session.set(views=replace(self._state.views, **chosen))

    def _pick(self, cell: MapCell) -> None:
        if near := self._state.scene.near:
            self._set(token=int(near.ids[cell.row + 1]))
