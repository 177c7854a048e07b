"""The Words page: a token's nearest tokens by their embeddings, and a map of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from PySide6.QtCore import QEvent, QObject, QPointF, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent, QPalette, QPen
from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QStyle, QWidget

from visformer.engine.messages import Nearest
from visformer.language import N_, _
from visformer.pictures.positions import (
    NOT_KNOWN,
    axis_words,
    cosine_table,
    map_table,
    near_labels,
    near_words_text,
    point_words,
    sentence_tokens,
)
from visformer.session.state import Session, State
from visformer.text import clean
from visformer.ui.layout import LeastColumn, TurningRow, fill, set_least
from visformer.ui.look.theme import FONT_PALETTE, Dressed
from visformer.ui.views.positions.curves import Plot, plotting
from visformer.ui.views.view import View
from visformer.ui.widgets.canvas import MapCell
from visformer.ui.widgets.controls import chooser, titled
from visformer.ui.widgets.export import Export
from visformer.ui.widgets.labels import short
from visformer.ui.widgets.number_table import NumberTable
from visformer.ui.widgets.plain_label import paragraph, plain_label, written
from visformer.ui.widgets.term_tips import TermTip
from visformer.ui.window.large import present_whole
from visformer.values.facts import SentenceSide
from visformer.values.measured import NearWords

if TYPE_CHECKING:
    from pyqtgraph import ScatterPlotItem, TextItem

HINT = N_("Click a token, or walk with the arrow keys and press Enter.")
EMBEDDINGS: dict[SentenceSide, str] = {
    "source": N_("source embedding"),
    "target": N_("target embedding"),
}
NEAREST = 20  # rows of the list
MARGIN = 0.12  # of the range, around the points
DOT = 9  # pixels
Key, Align = Qt.Key, Qt.AlignmentFlag
STEPS = {Key.Key_Down: 1, Key.Key_Right: 1, Key.Key_Up: -1, Key.Key_Left: -1}
BESIDE = (  # where a label may stand
    Align.AlignRight | Align.AlignVCenter,
    Align.AlignLeft | Align.AlignVCenter,
    Align.AlignTop | Align.AlignHCenter,
    Align.AlignBottom | Align.AlignHCenter,
)


class WordMap(QObject):
    """A scatter plot of pyqtgraph; a label that would lie on another is left out."""

    chosen = Signal(int)  # the id of a token that is clicked, or taken with Enter
    pointed = Signal(int)  # the index of a point; -1: none

    def __init__(self) -> None:
        super().__init__()
        self._near: NearWords | None = None
        self.at = 0  # the point that the keys are on
        self._plot = Plot(_("map of the tokens: arrow keys and Enter walk"), 0)
        self.widget: QWidget = self._plot.widget
        self._dots: ScatterPlotItem = plotting().ScatterPlotItem(
            hoverable=True,
            hoverSize=DOT + 4,
            tip=lambda x, y, data: point_words(self._near, data) if self._near else "",
        )
        self._dots.sigClicked.connect(lambda _dots, found: self._choose(found))
        self._dots.sigHovered.connect(
            lambda _dots, found: self.pointed.emit(
                found[0].data() if len(found) else -1
            )
        )
        self._plot.box.addItem(self._dots)
        self.labels: list[TextItem] = []
        self.export = Export(self.widget, lambda: map_table(self._near))
        self._plot.box.setAspectLocked(True)  # distances are alike in all directions
        self._plot.box.sigRangeChanged.connect(self._place)
        self.widget.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.widget.installEventFilter(self)

    def draw(self, near: NearWords | None) -> None:
        """Show tokens; the keys begin at the one asked for."""
        self._near, self.at = near, 0
        if near is not None:
            left, low = near.places.min(0).tolist()
            wide, high = np.ptp(near.places, 0).clip(1e-6).tolist()
            self._plot.box.setRange(QRectF(left, low, wide, high), padding=MARGIN)
        self.dress()

    def dress(self) -> None:
        """Take up the widget's colours and font, and draw all again."""
        self._plot.dress(self.widget, *axis_words(self._near))
        spots: list[dict[str, Any]] = [
            {
                "pos": place,
                "data": at,
                "brush": self._ink(at),
                "pen": QPen(self._ink(0), 2) if at == self.at else None,
                "size": DOT + 5 * (at in (0, self.at)),
            }
            for at, place in enumerate(self._places)
        ]
        self._dots.setData(spots)
        self._place()

    @property
    def _places(self) -> list[list[float]]:
        """Where the points lie, [N, 2], on the axes."""
        return [] if self._near is None else self._near.places.tolist()

    def _ink(self, at: int) -> QColor:
        """Return the colour of a point: that of the token asked for, or another."""
        role = QPalette.ColorRole.Text if at else QPalette.ColorRole.Highlight
        return self.widget.palette().color(role)

    def _place(self) -> None:
        """Write the labels that have room: the token in focus, then the nearest.

        One beside, above or below its point, where it lies on no other label.
        """
        view, metrics = self._plot.box, self.widget.fontMetrics()
        for label in self.labels:
            view.removeItem(label)
        names, dots = written(near_labels(self._near)), []
        for place in self._places:
            dots.append(QRect(0, 0, DOT + 4, DOT + 4))
            dots[-1].moveCenter(view.mapFromView(QPointF(*place)).toPoint())
        self.labels, taken = [], [*dots]
        room, way = view.rect().toRect(), Qt.LayoutDirection.LeftToRight
        for at in sorted(range(len(names)), key=lambda at: (at != self.at, at)):
            name, dot = short(names[at]), dots[at]
            size = QSize(metrics.horizontalAdvance(name) + 8, metrics.height())
            wide, high = size.toTuple()
            around = dot.adjusted(-wide, -high, wide, high)
            for where in BESIDE:
                box = QStyle.alignedRect(way, where, size, around)
                others = (one for one in taken if one != dot)
                if room.contains(box) and not any(map(box.intersects, others)):
                    self._write(name, box, self._ink(at))
                    taken.append(box)
                    break

    def _write(self, name: str, box: QRect, ink: QColor) -> None:
        """Write a label into a box of pixels of the plot."""
        text = plotting().TextItem(name, color=ink, anchor=(0.5, 0.5))
        text.setFont(self.widget.font())
        text.setAcceptedMouseButtons(Qt.MouseButton.NoButton)
        self._plot.box.addItem(text, ignoreBounds=True)
        text.setPos(self._plot.box.mapToView(QRectF(box).center()))
        self.labels.append(text)

    # ---- what the user does ----------------------------------------------------

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Walk with the arrow keys, best first; Enter goes to the token."""
        if event.type() in FONT_PALETTE:  # also of a map that is presented
            self.dress()
        near, pressed = self._near, event.type() == QEvent.Type.KeyPress
        if near is None or not pressed or not isinstance(event, QKeyEvent):
            return False
        key, keypad = Key(event.key()), Qt.KeyboardModifier.KeypadModifier
        if key in STEPS and not event.modifiers() & ~keypad:
            self.at = (self.at + STEPS[key]) % len(near.ids)
            self.dress()
            self.pointed.emit(self.at)
        elif key in (Key.Key_Return, Key.Key_Enter):
            self.chosen.emit(int(near.ids[self.at]))
        else:
            return False
        return True

    def _choose(self, found: Any) -> None:
        if len(found) and self._near is not None:
            self.chosen.emit(int(self._near.ids[found[0].data()]))


class WordsPage(Dressed, View):
    """A field for any token, the list of its nearest, and the map."""

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
        self.about = paragraph(_("what is listed and drawn"))
        TermTip(self.about, session, "cosine", "component")
        TermTip(self.side, session, "cosine")
        nearest = _("nearest tokens and their cosines")
        self.table = NumberTable(nearest, most=NEAREST, hugs=True)
        self.table.picked.connect(self._pick)
        self.map = WordMap()
        self.map.chosen.connect(lambda id: self._set(token=id))
        self.map.pointed.connect(self._tell)
        self.hover = plain_label(_(HINT), faint=True)
        self._lay_out()

    def _lay_out(self) -> None:
        title = titled(_("&Token"), self.field)
        fields = title, self.field, self.sentence, self.side, (self.hover, 1)
        self._both = TurningRow((self.table, 0), self.map.widget)
        self._both.row.setAlignment(self.table, Align.AlignTop)
        self._known = QWidget()
        present_whole(self._both)
        line = fill(QHBoxLayout(), *fields)
        fill(LeastColumn(self._known), line, (self._both, 1))
        # the stretch takes the room where there are no pictures
        fill(LeastColumn(self), self.about, (self._known, 1), None)
        self.dress()

    def _dress(self) -> None:
        set_least(self.map.widget)

    def main_picture(self) -> QWidget | None:
        """Return the list and the map."""
        return self._both if self._known.isVisibleTo(self) else None

    def draw(self, state: State) -> None:
        """Show the nearest tokens of the one that was looked up last."""
        self._state, about = state, state.about
        # of another model than the open one's run nothing is known
        near = None if about is None else state.near
        waits = state.near_of is None or state.awaiting.newest(Nearest) is not None
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
        self._both.setVisible(near is not None)
        if self._changed("points", near, state.look.pieces):
            self.table.draw(cosine_table(near))
            self.map.draw(near)
            self._tell(-1)

    # ---- what the user does ----------------------------------------------------

    def _set(self, **chosen: Any) -> None:
        self.session.set(views=replace(self._state.views, **chosen))

    def _pick(self, cell: MapCell) -> None:
        if self._state.near is not None:
            self._set(token=int(self._state.near.ids[cell.row + 1]))

    def _tell(self, at: int) -> None:
        near = self._state.near
        told = _(HINT) if near is None or at < 0 else point_words(near, at)
        self.hover.setText(told)
        self.table.mark(at - 1 if at > 0 else None, None)
