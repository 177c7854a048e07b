"""The two strips of tokens: rows of chips, tinted by attention; each can be picked."""

from collections.abc import Callable, Iterable
from functools import lru_cache, partial

from PySide6.QtCore import QEvent, QPoint, QRect, QSize, Qt, Signal
from PySide6.QtGui import (
    QContextMenuEvent,
    QFocusEvent,
    QFontMetrics,
    QGuiApplication,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QWheelEvent,
)
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QMenu,
    QScrollArea,
    QSizePolicy,
    QToolButton,
    QToolTip,
    QVBoxLayout,
    QWidget,
)

from visformer.language import N_, _
from visformer.pictures.attention.strips import (
    Chip,
    first_chip,
    source_strip,
    target_strip,
)
from visformer.pictures.candidates import masked_token
from visformer.pictures.picture import raw_label
from visformer.pictures.words.absent import has_source, has_target
from visformer.session.state import State
from visformer.session.tree import reading_kind
from visformer.ui.bars.chip_painter import REACH, SIZED, ChipLook, ChipPainter, look_of
from visformer.ui.layout import fill
from visformer.ui.look import icons
from visformer.ui.look.theme import letter_width
from visformer.ui.widgets.controls import Offer, add_offers, keeps
from visformer.ui.widgets.plain_label import plain_label, plain_tip, written
from visformer.values.facts import SentenceSide
from visformer.values.trace import Trace
from visformer.words import number, probability

CHIP_WORDS = {  # by whether it is masked, and read: has a weight
    (False, False): N_("piece {piece}, id {id}"),
    (False, True): N_("piece {piece}, id {id}, weight {weight} ({done})"),
    (True, False): N_("piece {piece}, id {id}, masked"),
    (True, True): N_("piece {piece}, id {id}, masked, weight {weight} ({done})"),
}
WALKS = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}
ENTER = Qt.Key.Key_Return, Qt.Key.Key_Enter
LEAST = 28  # letters: the least width of a strip
WIDTHS = 4096  # of texts that are kept


class TokenStrip(QScrollArea):
    """Chips side by side; scrolls to keep the current one visible.

    With the focus on it, the arrow keys walk along the chips and Enter picks one.

    Its height does not change with what it shows: buttons at its ends scroll it.
    """

    clicked = Signal(int)
    beside = Signal()  # a click beside the tokens, or a double click

    def __init__(self, name: str, empty: str, *, tall: bool = False) -> None:
        """``tall``: there is room for a large chip before there is one."""
        super().__init__()
        # entries for a token, above the others
        self.offers: Callable[[int], Iterable[Offer]] = lambda _at: ()
        self.row = _ChipRow(empty, tall=tall)
        self.row.beside.connect(self.beside)
        self._tokens = ""  # all of them
        self.row.clicked.connect(self.clicked)
        # only then is there room to scroll to
        self.horizontalScrollBar().rangeChanged.connect(lambda *_range: self._follow())
        self.setWidget(self.row)
        self.setWidgetResizable(True)
        self.setFrameShape(QScrollArea.Shape.NoFrame)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._ends = (
            self._end("unfold", _("Earlier tokens"), -1),
            self._end("fold", _("Later tokens"), 1),
        )
        self._end_width = self._ends[0].sizeHint().width()
        bar = self.horizontalScrollBar()
        bar.rangeChanged.connect(lambda *_range: self._show_ends())
        bar.valueChanged.connect(lambda _value: self._show_ends())
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)  # a click leaves the arrow keys
        self.setAccessibleName(name)
        self._fit()

    def draw(self, chips: tuple[Chip, ...]) -> None:
        """Show these tokens."""
        if chips == self.row.chips:
            return
        self.row.set_chips(chips)
        unknown = any(chip.tint != chip.tint for chip in chips)  # NaN
        tokens = " ".join([chip.token for chip in chips])
        if unknown:
            tokens = _("{tokens}; the weights are NaN", tokens=tokens)
        self._tokens = tokens
        self._say()
        told = _("This colour means that the weight is NaN (not a number).")
        if (told if unknown else "") != self.row.toolTip():
            self.row.setToolTip(told if unknown else "")
        self._fit()
        self._follow()

    def explain_clicks(self, words: str) -> None:
        """Say at each token what a click on it does; "" for nothing."""
        self.row.clicks = words

    def _show(self, box: QRect) -> None:
        around = box.width() // 2 + 2 * self._end_width
        self.ensureVisible(box.center().x(), 0, around, 0)

    def _follow(self) -> None:
        for chip, box in zip(self.row.chips, self.row.boxes, strict=True):
            if chip.current:
                self._show(box)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        kinds = QEvent.Type.PaletteChange, QEvent.Type.FontChange
        if event.type() in kinds and "_ends" in self.__dict__:
            for button, shape in zip(self._ends, ("unfold", "fold"), strict=True):
                icons.dress(button, shape)
        if event.type() in (QEvent.Type.FontChange, QEvent.Type.StyleChange):
            self.row.lay_out()
            self._fit()
            if "_end_width" in self.__dict__:
                self._end_width = self._ends[0].sizeHint().width()

    def event(self, event: QEvent) -> bool:
        """Keep the keys that walk along the chips from the window's own."""
        return keeps(event, (*WALKS, *ENTER)) or super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key, at = Qt.Key(event.key()), self.row.focused
        if event.modifiers() or at is None or key not in (*WALKS, *ENTER):
            super().keyPressEvent(event)
        elif key in ENTER:
            self.clicked.emit(at)
        else:
            self._focus(at + WALKS[key])

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        marks = [2 * chip.current + chip.marked for chip in self.row.chips]
        self._focus(marks.index(max(marks)) if marks else 0)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self._focus(None)

    def _focus(self, at: int | None) -> None:
        last = len(self.row.chips) - 1
        self.row.focused = None if at is None or last < 0 else min(max(at, 0), last)
        self.row.update()
        if self.row.focused is not None:
            box = self.row.boxes[self.row.focused]
            self._show(box)
        self._say()

    def _say(self) -> None:
        """Describe the chip that has the focus, or all tokens, to a screen reader."""
        words, at = self._tokens, self.row.focused
        if at is not None:
            words = f"{self.row.chips[at].token}, {self.row.words(at)}"
        self.setAccessibleDescription(words)

    def resizeEvent(self, event: QEvent) -> None:
        super().resizeEvent(event)  # type: ignore[arg-type]
        self._show_ends()

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Scroll sideways, whichever way the wheel turns."""
        bar, turn = self.horizontalScrollBar(), event.angleDelta()
        bar.setValue(bar.value() - (turn.y() or turn.x()))
        event.accept()

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        at = self.row.at(self.row.mapFromGlobal(event.globalPos()))
        menu = self.menu(self.row.focused if at is None else at)
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(event.globalPos())

    def menu(self, at: int | None = None) -> QMenu:
        """Build the menu, at a token; disabled while there is nothing to copy."""
        menu, chips = QMenu(self), self.row.chips
        add_offers(menu, () if at is None else self.offers(at))
        for title, texts in (
            (_("Copy the &tokens"), [raw_label(chip.token) for chip in chips]),
            (_("Copy their &ids"), [str(chip.id) for chip in chips]),
        ):
            entry, text = menu.addAction(title), " ".join(texts)
            entry.setEnabled(bool(chips))
            entry.triggered.connect(partial(_copy, text))
        return menu

    def _end(self, shape: str, name: str, way: int) -> QToolButton:
        button = QToolButton(self)
        button.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        button.setAutoFillBackground(True)
        button.setToolTip(name)
        button.setAccessibleName(name)
        button.clicked.connect(lambda: self._turn(way))
        icons.dress(button, shape)
        button.hide()
        return button

    def _turn(self, way: int) -> None:
        bar = self.horizontalScrollBar()
        bar.setValue(bar.value() + way * bar.pageStep() * 3 // 4)

    def _show_ends(self) -> None:
        """Show a button where more tokens lie."""
        bar, (left, right) = self.horizontalScrollBar(), self._ends
        wide = self._end_width
        left.setGeometry(0, 0, wide, self.height())
        right.setGeometry(self.width() - wide, 0, wide, self.height())
        left.setVisible(bar.value() > bar.minimum())
        right.setVisible(bar.value() < bar.maximum())

    def _fit(self) -> None:
        self.setFixedHeight(self.row.sizeHint().height())
        self.setMinimumWidth(LEAST * letter_width(self.fontMetrics()))


def _looks(chips: tuple[Chip, ...]) -> list[ChipLook]:
    """Return what chips are painted from, with their tokens as written now."""
    tokens = written(tuple([chip.token for chip in chips]))
    pairs = zip(chips, tokens, strict=True)
    shown = [x if x.token == token else x._replace(token=token) for x, token in pairs]
    return list(map(look_of, shown, (*shown[1:], None)))


def _copy(text: str) -> None:
    QGuiApplication.clipboard().setText(text)


class _ChipRow(QWidget):
    clicked = Signal(int)
    beside = Signal()

    def __init__(self, empty: str, *, tall: bool) -> None:
        super().__init__()
        self.clicks = ""  # what a click does, in words
        self.chips: tuple[Chip, ...] = ()
        self.boxes: list[QRect] = []
        self._looks: list[ChipLook] = []  # what is painted of each chip
        self._empty = empty
        self._height = self._band = 0  # of the row, and of what is below the tokens
        self._end = 0  # where the next chip would be
        self.focused: int | None = None  # the chip that keys act on
        self._tall = tall  # or there was a large chip: its room stays
        self.setMouseTracking(True)
        self.lay_out()

    def set_chips(self, chips: tuple[Chip, ...]) -> None:
        """Show these chips; what stays the same is not painted again."""
        before, height = self._looks, self._height
        if self.focused is not None:
            self.focused = min(self.focused, len(chips) - 1) if chips else None
        self.chips, self._looks = chips, _looks(chips)
        pairs = zip(before, self._looks, strict=False)
        changed = [at for at, (was, now) in enumerate(pairs) if was != now]
        first = changed[0] if changed else min(len(before), len(chips))
        if [look[:SIZED] for look in before] != [look[:SIZED] for look in self._looks]:
            edge = self.boxes[first].left() if first < len(self.boxes) else self._end
            self._place(first)
            self.update(edge - REACH, 0, self.width(), self.height())
        elif changed:
            box = self.boxes[first].united(self.boxes[changed[-1]])
            self.update(box.adjusted(-REACH, -REACH, REACH, REACH))
        if not (before and chips) or height != self._height:
            self.update()

    def lay_out(self) -> None:
        """Measure and paint all chips in the present font and colours."""
        self._painter = ChipPainter(self.font(), self.palette())
        fonts = self._painter.body, self._painter.word, self._painter.caption
        self._widths = [_measured(metrics) for metrics in fonts]
        self._looks = _looks(self.chips)  # perhaps as raw pieces
        self._place()
        self.update()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange and "_painter" in self.__dict__:
            self.lay_out()

    def _place(self, first: int = 0) -> None:
        """Place the chips from one on: those before it are where they were."""
        body, word = self._painter.body.height(), self._painter.word.height()
        gap, around = body // 4, body * 2 // 3
        before = self._band, self._height
        told = any(_is_told(look) for look in self._looks)
        self._tall = self._tall or any(look.current for look in self._looks)
        below = self._painter.below  # its room stays: the first moves none
        self._band = below if told else 0
        self._height = max(2 * body, word * self._tall + gap)
        self._height += below if self._tall or told else 0
        first = first if before == (self._band, self._height) else 0
        self.boxes = self.boxes[:first]
        x = self.boxes[-1].left() + self.boxes[-1].width() + gap if first else gap
        wide, wide_word, wide_below = self._widths
        for look in self._looks[first:]:
            measure = wide_word if look.current else wide
            width = max(measure(look.token or " "), wide_below(look.below)) + around
            high = (word if look.current else body) + body - gap
            high = min(high, self._height - self._band - gap) + self._band_of(look)
            top = (self._height - high) // 2
            x -= (gap + 1) * (look.joins[0] and bool(self.boxes))  # on the same line
            self.boxes.append(QRect(x, top, width, high))
            x += width + gap
        self._end = x
        self.setMinimumWidth(x)

    def _band_of(self, look: ChipLook) -> int:
        """Return the height of what is said below a token, in pixels."""
        return self._band if self._band and _is_told(look) else 0

    def sizeHint(self) -> QSize:
        edge = self._painter.body.height()
        width = self.boxes[-1].right() + edge if self.boxes else 0
        return QSize(width, self._height)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        if not self.chips:
            painter.setPen(self.palette().placeholderText().color())
            left = self.rect().adjusted(self.height() // 4, 0, 0, 0)
            painter.drawText(left, Qt.AlignmentFlag.AlignVCenter, self._empty)
        first, last = event.rect().left(), event.rect().right()
        for look, box in zip(self._looks, self.boxes, strict=True):
            edge = REACH if look.strong else 1
            if box.right() + edge >= first and box.left() - edge <= last:
                self._painter.paint(painter, look, box, self._band_of(look))
        if self.focused is not None:
            painter.setPen(QPen(self.palette().text().color(), REACH))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            box = self.boxes[self.focused]
            painter.drawRoundedRect(box, box.height() / 5, box.height() / 5)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        index = self.at(event.position().toPoint())
        if index is not None:
            where, words = event.globalPosition().toPoint(), self.words(index)
            QToolTip.showText(where, plain_tip(words), self)

    def words(self, index: int) -> str:
        """Say what a chip is, and what a click on it does."""
        return "\n".join(filter(None, (chip_words(self.chips[index]), self.clicks)))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        index = self.at(event.position().toPoint())
        if event.button() != Qt.MouseButton.LeftButton:
            return  # it only opens the menu
        if index is not None:
            self.clicked.emit(index)
        else:
            self.beside.emit()

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self.beside.emit()

    def at(self, point: QPoint) -> int | None:
        return next(
            (i for i, box in enumerate(self.boxes) if box.contains(point)), None
        )


def chip_words(chip: Chip) -> str:
    """Say what a chip is: its token's id, weight, who fed it, and its loss."""
    lines = [
        _(
            CHIP_WORDS[chip.filled, chip.read],
            piece=raw_label(chip.token),
            id=chip.id,
            weight=probability(chip.tint),
            done=chip.done,
        ),
        "" if chip.read else chip.done,
        chip.fed,
    ]
    if chip.loss is not None:
        lines.append(_("loss = −ln p = {loss} nats", loss=number(chip.loss)))
    return "\n".join(filter(None, lines))


def _measured(metrics: QFontMetrics) -> Callable[[str], int]:
    @lru_cache(WIDTHS)  # of the method itself it would load all of PySide's signatures
    def width(text: str) -> int:
        return metrics.horizontalAdvance(text)

    return width


def _is_told(look: ChipLook) -> bool:
    return bool(look.below) or look.loss is not None


class Strips(QWidget):
    """Source and target, or prompt and continuation; a side that is not there hides."""

    step_chosen = Signal(int)  # the one that chose the token clicked
    source_chosen = Signal(int)  # a source token

    def __init__(self) -> None:
        super().__init__()
        self._trace: Trace | None = None
        self.source = TokenStrip(_("Source tokens"), _("source tokens appear here"))
        self.target = TokenStrip(
            _("Target tokens"), _("nothing decoded yet: step forward"), tall=True
        )
        self.sides: dict[SentenceSide, TokenStrip] = {
            "source": self.source,
            "target": self.target,
        }
        self.target.explain_clicks(_("Click: go to the step that wrote it."))
        self._source_name = plain_label("", faint=True)
        self._target_name = plain_label(_("target"), faint=True)
        self.folded = False  # the tokens are not wanted
        self.has_source = True  # or a prompt
        self.source_row = _row(self._source_name, self.source)  # may stand elsewhere
        self._target_row = _row(self._target_name, self.target)
        fill(QVBoxLayout(self), self.source_row, self._target_row, spacing=3)
        self.source.clicked.connect(self.source_chosen)
        self.target.clicked.connect(self._choose_step)
        self._name(None)

    def draw(self, state: State) -> None:
        """Show what is read and written up to the current step."""
        self._trace = trace = state.visible
        looked = trace, state.selection, state.look
        self.source.draw(source_strip(*looked, masked_token(trace, state.locked)))
        self.target.draw(target_strip(*looked, state.ahead))
        self._name(trace)

    def put_beside_target(self, play: QWidget) -> None:
        """Put a widget at the end of the target's row."""
        layout = self._target_row.layout()
        assert layout is not None
        layout.addWidget(play)

    def _name(self, trace: Trace | None) -> None:
        alone = trace is not None and not has_source(trace)
        self._source_name.setText(_("prompt") if alone else _("source"))
        asked = _(
            "Click: see what it reads. Then click another one: which head reads that "
            "from it?"
        )
        self.source.explain_clicks(asked if trace and reading_kind(trace) else "")
        self.has_source = trace is None or has_source(trace) or trace.prompt > 0
        if self.isAncestorOf(self.source_row):
            self.source_row.setVisible(self.has_source)
        for part in (self._target_name, self.target):
            part.setVisible(not self.folded and (trace is None or has_target(trace)))

    def _choose_step(self, index: int) -> None:
        if self._trace is not None:
            self.step_chosen.emit(index + first_chip(self._trace))


def _row(name: QLabel, strip: TokenStrip) -> QWidget:
    row = QWidget()
    fill(QHBoxLayout(row), name, (strip, 1), spacing=6)
    return row
