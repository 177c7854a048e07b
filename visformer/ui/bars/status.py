"""The status bar: the translation, what is changed, the cell in words, the speed.

The translation stands there as a sentence, to read, to copy and to compare.
"""

from PySide6.QtCore import QRect, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QGuiApplication,
    QPainter,
    QPaintEvent,
    QPalette,
    QPen,
    QResizeEvent,
)
from PySide6.QtWidgets import (
    QProgressBar,
    QPushButton,
    QSizePolicy,
    QStatusBar,
    QWidget,
)

from visformer.language import _
from visformer.pictures.attention.cell_words import cell_words
from visformer.pictures.words.translation_text import AGAINST, TextPart
from visformer.session.runs import compared
from visformer.session.state import State
from visformer.ui.layout import Still
from visformer.ui.look import icons
from visformer.ui.look.theme import FONT_PALETTE, Dressed, fed_colour, gap
from visformer.ui.widgets.controls import tool_button
from visformer.ui.widgets.plain_label import PlainLabel, cut_to_room, plain_label


class Sentence(Dressed, QWidget):
    """One line; cut where there is no room, copied whole."""

    dressed_at = FONT_PALETTE

    def __init__(self) -> None:
        super().__init__()
        self._text = ""
        self.words, self.other = MarkedLabel(), MarkedLabel()
        self.words.setAccessibleName(_("the translation"))
        self.other.setAccessibleName(_("what the translation is compared with"))
        self.other.setForegroundRole(QPalette.ColorRole.PlaceholderText)
        self.copy = tool_button(
            _("Copy the translation"),
            lambda: QGuiApplication.clipboard().setText(self._text),
        )
        for part in (self.words, self.copy, self.other):
            part.setParent(self)
        self.dress()

    def _dress(self) -> None:
        icons.dress(self.copy, "copy")
        self._place()

    # A layout would arrange the window anew with each word.

    def sizeHint(self) -> QSize:
        button = self.copy.sizeHint()
        return QSize(
            button.width(), max(button.height(), self.words.sizeHint().height())
        )

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._place()

    def _place(self) -> None:
        """Put the button after the words, and what they are compared with after it."""
        high, size, space = self.height(), self.copy.sizeHint(), gap(self)
        room = max(1, self.width() - size.width() - space)
        wide = min(room, self.words.sizeHint().width())
        self.words.setGeometry(0, 0, wide, high)
        x = wide + space
        self.copy.setGeometry(
            x, (high - size.height()) // 2, size.width(), size.height()
        )
        x += size.width() + space
        self.other.setGeometry(x, 0, max(0, self.width() - x), high)

    def draw(self, state: State) -> None:
        """Show what is translated up to the current step, the rest, and differences."""
        said = compared(state)
        trace = state.trace if said.rest else state.visible
        self._text = trace.text if trace is not None else ""
        self.words.set_parts(said.parts, rest=said.rest)
        if said.against:
            around = _(AGAINST[said.against], text="\0").split("\0")
            self.other.set_parts(said.other, *around)
        self.other.setVisible(bool(said.other))
        self.copy.setEnabled(bool(self._text))
        self._place()


class MarkedLabel(PlainLabel):
    """Words that differ are underlined, in a colour of their own; the rest is faint."""

    def __init__(self) -> None:
        super().__init__()
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.parts: tuple[TextPart, ...] = ()
        self._around = "", ""  # said before and after the parts
        self.rest = ""

    def set_parts(
        self,
        parts: tuple[TextPart, ...],
        before: str = "",
        after: str = "",
        rest: str = "",
    ) -> None:
        """Show a sentence in parts and its rest, between words that are not of it."""
        if (parts, (before, after), rest) == (self.parts, self._around, self.rest):
            return
        self.parts, self._around, self.rest = parts, (before, after), rest
        self.setText("".join((before, *(part.text for part in parts), rest, after)))
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        if not self.rest and not any(part.differs for part in self.parts):
            super().paintEvent(event)
            return
        before, after = (TextPart(text, differs=False) for text in self._around)
        rest = TextPart(self.rest, differs=False)
        parts = before, *self.parts, rest, after
        paint_parts(QPainter(self), self.contentsRect(), parts, self, faint=rest)


def paint_parts(
    painter: QPainter,
    room: QRect,
    parts: tuple[TextPart, ...],
    widget: QWidget,
    *,
    faint: TextPart | None = None,
    ink: QColor | None = None,
) -> None:
    """Paint parts of a text in a widget's colours, or one; cut where room is short."""
    metrics, palette = widget.fontMetrics(), widget.palette()
    usual = palette.color(widget.foregroundRole())
    inks = ink or usual, ink or fed_colour(palette)
    x, end = room.left(), room.right()
    text = "".join(part.text for part in parts)
    whole = metrics.horizontalAdvance(text) <= end - x + 1
    for part in parts:
        text = part.text
        if not whole and metrics.horizontalAdvance(text) > end - x:
            text = cut_to_room(text, metrics, end - x)
        pale = palette.color(QPalette.ColorRole.PlaceholderText)
        painter.setPen(pale if part is faint else inks[part.differs])
        wide = metrics.horizontalAdvance(text)
        box = QRect(x, room.top(), wide, room.height())
        painter.drawText(box, Qt.AlignmentFlag.AlignVCenter, text)
        if part.differs and text.strip():
            blank = len(text) - len(text.lstrip())
            left = x + metrics.horizontalAdvance(text[:blank])
            y = box.center().y() + metrics.height() // 2 - 1
            painter.setPen(QPen(inks[True], max(1, metrics.height() // 12)))
            painter.drawLine(left, y, box.right(), y)
        x += wide
        if text != part.text:
            break


class StatusLine(Dressed, QStatusBar):
    """The translation first; a bar moves while the engine works, with Stop beside it.

    Its height is that of all it may ever hold, so that nothing pushes the pictures.
    """

    stopped = Signal()

    def __init__(self, modified: QWidget, sentence: QWidget) -> None:
        """Take in the translation, and what says how the run is modified, if it is."""
        super().__init__()
        self.setSizeGripEnabled(False)
        self.addWidget(sentence, 4)
        self.addWidget(modified, 8)
        self.words, self.engine = plain_label(""), plain_label("")  # words: of the cell
        self._gaps = QWidget(), QWidget()
        places = Still(self.words), Still(self.engine)
        for space, place in zip(self._gaps, places, strict=True):
            self.addWidget(space)
            place.setMinimumWidth(1)  # it is cut; a tooltip has all of it
            self.addWidget(place, 2 if place is places[0] else 0)
        policy = QSizePolicy.Policy
        places[0].setSizePolicy(policy.Ignored, policy.Preferred)
        self._progress = QProgressBar()
        self._progress.setMaximumWidth(120)
        self._progress.setRange(0, 0)
        self._progress.setAccessibleName(_("The engine is working"))
        self.addPermanentWidget(self._progress)
        self.stop = QPushButton(_("Stop"))
        self.stop.setToolTip(_("Stop what the engine is doing (Ctrl+.)"))
        self.stop.clicked.connect(self.stopped)
        self.addPermanentWidget(self.stop)
        self.dress()

    def _dress(self) -> None:
        """Keep the texts apart, which would read as one, and off the window's edges."""
        self.setContentsMargins(gap(self), 0, gap(self), 0)
        for space in self._gaps:
            space.setFixedWidth(gap(self, 2))

    def draw(self, state: State) -> None:
        """Say what is on screen and what the engine is doing."""
        self._progress.setVisible(bool(state.busy))
        self.stop.setVisible(bool(state.busy))
        cell = cell_words(state.visible, state.selection, state.look)
        self.words.setText(state.busy or cell)
        self.engine.setText(_engine_words(state))


def _engine_words(state: State) -> str:
    device = state.model.device if state.model else _("no device")
    speed = _("no step timed yet")
    if state.step_ms:
        speed = _("{time} ms/step", time=f"{state.step_ms:.1f}")
    if state.recorded:
        return _("recorded, {device} | {speed}", device=device, speed=speed)
    return _("{device} | {speed}", device=device, speed=speed)
