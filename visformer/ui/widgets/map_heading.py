"""What stands above a map: its title, what there is to see, what was done to it."""

from __future__ import annotations

from PySide6.QtCore import QRect, Qt
from PySide6.QtGui import QFontMetrics, QPalette
from PySide6.QtWidgets import QWidget

from visformer.pictures.attention.gist import Gist
from visformer.pictures.picture import Matrix
from visformer.ui.theme import gap, hue
from visformer.ui.widgets.gist_label import GistLabel
from visformer.ui.widgets.kind_sign import KindSign
from visformer.ui.widgets.label_text import title_font
from visformer.ui.widgets.plain_label import plain_label, wrapped_height, write_in

LONG = 32  # letters of a gist that is long


class MapHeading(QWidget):
    """The sign of a kind and the title; beside or below it the gist; what was done."""

    def __init__(self, parent: QWidget, *, gist: bool) -> None:
        """``gist``: there is room for what ``say`` writes, so that it moves nothing."""
        super().__init__(parent)
        self._has_gist = gist
        self._sign, self.gist = KindSign(self), GistLabel(self)
        self.title, self.done = plain_label(parent=self), plain_label(parent=self)
        for label in (self.title, self.done):
            label.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.done.setWordWrap(True)
        self._placed: tuple[object, ...] = ()  # what all places follow from

    def draw(self, matrix: Matrix) -> None:
        """Write a matrix's title in the hue of what it names, and what was done."""
        self._sign.draw(matrix.sign)
        self.title.setText(matrix.title)
        self.done.setText(matrix.done)
        ink = hue(self.palette(), matrix.role)
        write_in(self.title, QPalette.ColorRole.WindowText, ink)

    def say(self, gist: Gist) -> None:
        """Write what there is to see."""
        self.gist.draw(gist)
        self.gist.setVisible(bool(gist.words))

    def place(self, width: int) -> int:
        """Place all in so many pixels of width; return the height that it takes.

        The title is as large as it fits on one line; a long one wraps. The gist stands
        beside it, or below where most would be too long.
        """
        texts = self.title.text(), self.done.text(), self._sign.isHidden()
        placed = width, self.font(), *texts
        if placed != self._placed:
            self._placed = placed
            self.setGeometry(0, 0, width, self._place(width))
        return self.height()

    def _place(self, width: int) -> int:
        edge, text = gap(self) // 2, self.title.text()
        wide, body, left = width - 2 * edge, self.fontMetrics(), edge
        side = 0 if self._sign.isHidden() else self._sign.sizeHint().height()
        left += side + body.averageCharWidth() if side else 0
        room = wide + edge - left
        face = title_font(self.font(), text, room)
        self.title.setFont(face)
        metrics = QFontMetrics(face)
        line, title = metrics.height() + 2, metrics.horizontalAdvance(text) + edge
        if self.title.wordWrap() != (title > room):
            self.title.setWordWrap(title > room)
        high = max(line, wrapped_height(metrics, text, room)) if title > room else line
        title = max(0, min(room, title))
        self._sign.setGeometry(edge, edge + (line - side) // 2, side, side)
        self.title.setGeometry(left, edge, title, high)
        off = metrics.ascent() - body.ascent()  # one baseline
        left += title + body.averageCharWidth()
        place = QRect(left, edge + off, max(0, wide - left), body.height() + 2)
        if self._has_gist and place.width() < LONG * body.averageCharWidth():
            place = QRect(edge, edge + high, wide, body.height() + 2)
            high += place.height()
        self.gist.setGeometry(place)
        done = wrapped_height(body, self.done.text(), wide)
        self.done.setGeometry(edge, edge + high, wide, done)
        return edge + high + done
