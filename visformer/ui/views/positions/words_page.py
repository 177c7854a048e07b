"""The Words page: a token's nearest tokens by their embeddings, and a map of them."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QSignalBlocker
from PySide6.QtWidgets import QHBoxLayout, QLabel, QLineEdit, QWidget

from visformer.language import N_, _
from visformer.pictures.word_points import (
    WordPoint,
    cosine_table,
    near_words_text,
    points,
    sentence_tokens,
    sides,
)
from visformer.session.looking_up import look_up
from visformer.session.state import Session, State
from visformer.ui.layout import LeastColumn, TurningRow, set_least
from visformer.ui.look.theme import Dressed
from visformer.ui.views.positions.word_map import WordMap
from visformer.ui.views.view import View
from visformer.ui.widgets.canvas import MapCell
from visformer.ui.widgets.controls import ComboBox
from visformer.ui.widgets.number_table import NumberTable
from visformer.ui.widgets.plain_label import paragraph, plain_label
from visformer.ui.window.large import present_whole
from visformer.values.facts import SentenceSide
from visformer.values.near_words import NearWords
from visformer.values.trace import Trace

HINT = N_("Click a token, or walk with the arrow keys and press Enter.")
NEAREST = 20  # rows of the list
LIST = 30  # letters: the least width of the list


class _List(Dressed, QWidget):
    """Keeps the cosines in sight beside names of any size."""

    def _dress(self) -> None:
        self.setMinimumWidth(LIST * self.fontMetrics().averageCharWidth())


class WordsPage(View):
    """A field for any token, the list of its nearest, and the map."""

    name, title = "words", N_("Words")

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.side = ComboBox()
        self.side.setAccessibleName(_("which embedding"))
        self.side.setToolTip(
            _(
                "An embedding is a table with one row of numbers for each token. A "
                "cosine of 1 is the same direction, 0 is none in common."
            )
        )
        self.side.activated.connect(self._choose_side)
        self.field = QLineEdit()
        self.field.setAccessibleName(_("token to look up"))
        self.field.setPlaceholderText(_("any token"))
        self.field.returnPressed.connect(self._look_up)
        self.sentence = ComboBox()
        self.sentence.setAccessibleName(_("tokens of the sentence"))
        self.sentence.setPlaceholderText(_("of the sentence"))
        self.sentence.activated.connect(self._choose)
        self.about = paragraph(_("what is listed and drawn"))
        self.table = NumberTable(_("nearest tokens and their cosines"), most=NEAREST)
        self.table.picked.connect(self._pick)
        self.map = WordMap()
        self.map.chosen.connect(self._go)
        self.map.pointed.connect(self._tell)
        self.hover = plain_label(_(HINT), faint=True)
        self._lay_out()

    def _lay_out(self) -> None:
        line = QHBoxLayout()
        title = QLabel(_("&Token"))
        title.setBuddy(self.field)
        for widget in (title, self.field, self.sentence, self.side):
            line.addWidget(widget)
        line.addWidget(self.hover, 1)
        self._list = _List()
        column = LeastColumn(self._list)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self.table)
        column.addStretch()
        self._list.dress()
        self._both = TurningRow((self._list, 1), (self.map.widget, 4))
        present_whole(self._both)
        self._known = QWidget()
        below = LeastColumn(self._known)
        below.setContentsMargins(0, 0, 0, 0)
        below.addLayout(line)
        below.addWidget(self._both, 1)
        layout = LeastColumn(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.about)
        layout.addWidget(self._known, 1)
        layout.addStretch()  # takes the room where there are no pictures
        self._fit()

    def _fit(self) -> None:
        set_least(self.map.widget)
        self.field.setMinimumWidth(14 * self.fontMetrics().averageCharWidth())

    def changeEvent(self, event: QEvent) -> None:
        """Follow the palette and the font, which pyqtgraph does not."""
        super().changeEvent(event)
        kinds = (QEvent.Type.PaletteChange, QEvent.Type.FontChange)
        if event.type() in kinds and hasattr(self, "_known"):
            self._fit()
            self.map.dress()

    def main_picture(self) -> QWidget | None:
        """Return the list and the map."""
        return self._both if self._known.isVisibleTo(self) else None

    def draw(self, state: State) -> None:
        """Show the nearest tokens of the one that was looked up last."""
        self._state = state
        # of another model than the open one's run nothing is known
        model = None if state.about is None else state.about.model
        if self._changed("sides", sides(model)):
            with QSignalBlocker(self.side):
                self.side.clear()
                for side, title in sides(model):
                    self.side.addItem(title, side)
        shown = state.visible if sides(model) else None
        if self._changed("tokens", self._side, shown):
            self._list_tokens(shown)
        if not self._changed("near", state.near, model, state.look.pieces):
            return
        near = state.near if sides(model) else None
        self.about.setText(near_words_text(near, model))
        self._known.setVisible(bool(sides(model)))
        if near is not None:
            self.side.setCurrentIndex(max(0, self.side.findData(near.side)))
            self.sentence.setCurrentIndex(self._listed(near))
        self.side.setVisible(self.side.count() > 1)
        self._both.setVisible(near is not None and bool(near.tokens))
        self.table.draw(cosine_table(near))
        self.map.draw(near)
        self._tell(None)

    # ---- what the user does ----------------------------------------------------

    @property
    def _side(self) -> SentenceSide:
        side: SentenceSide = self.side.currentData() or "source"
        return side

    def _list_tokens(self, trace: Trace | None) -> None:
        """Offer the sentence's tokens."""
        with QSignalBlocker(self.sentence):
            self.sentence.clear()
            for id, label in sentence_tokens(trace, self._side):
                self.sentence.addItem(str(label), id)
            self.sentence.setCurrentIndex(-1)

    def _listed(self, near: NearWords) -> int:
        """Return where the sentence's list has the token; -1: nowhere."""
        return self.sentence.findData(int(near.ids[0])) if near.tokens else -1

    def _choose(self, index: int) -> None:
        self._go(self.sentence.itemData(index))

    def _look_up(self) -> None:
        self.session.do(look_up, self._side, self.field.text())

    def _go(self, id: int) -> None:
        self.session.do(look_up, self._side, id)

    def _choose_side(self) -> None:
        """Look the same token up in the other table, by its name."""
        near = self._state.near
        if near is not None:
            name = near.tokens[0] if near.tokens else near.asked
            self.session.do(look_up, self._side, name)

    def _pick(self, cell: MapCell) -> None:
        self._go(points(self._state.near)[cell.row + 1].id)

    def _tell(self, point: WordPoint | None) -> None:
        self.hover.setText(_(HINT) if point is None else point.words)
        row = None if point is None else points(self._state.near).index(point)
        self.table.mark(row - 1 if row else None, None)
