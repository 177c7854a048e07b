"""The Architecture tab: the model as a diagram, with the current step's path."""

import math

from PySide6.QtCore import (
    QEasingCurve,
    QEvent,
    QPointF,
    QRectF,
    QSize,
    Qt,
    QVariantAnimation,
    Signal,
)
from PySide6.QtGui import (
    QFont,
    QFontMetricsF,
    QHideEvent,
    QKeyEvent,
    QMouseEvent,
    QPaintEngine,
    QPainter,
    QPaintEvent,
    QPalette,
    QPixmap,
    QResizeEvent,
)
from PySide6.QtWidgets import QCheckBox, QVBoxLayout, QWidget

from visformer.language import N_, _
from visformer.pictures.diagram.architecture import architecture
from visformer.pictures.diagram.blocks import block_path, counts_table, model_of
from visformer.pictures.diagram.columns import Drawing
from visformer.pictures.picture import Table
from visformer.session.state import Session, State
from visformer.ui.changed import Changed
from visformer.ui.layout import fill, scrolled
from visformer.ui.look.theme import Dressed, animation, has_motion
from visformer.ui.views.architecture.diagram_canvas import (
    Painting,
    has_ground,
    lettering,
)
from visformer.ui.views.view import View
from visformer.ui.widgets.controls import keeps
from visformer.ui.widgets.export import Export
from visformer.ui.widgets.plain_label import is_raw
from visformer.ui.window.large import can_be_large

FLOW_MS = 240  # that a step's token takes on its way through the decoder
SAMPLE = "Masked multi-head attention 1,024"  # typical text, to measure a character
LARGER = (1.6, 1.5, 1.4, 1.3, 1.2, 1.1)  # of the text: a hall looks at it from afar
ROOMY = 150  # characters across, which text that is made larger leaves
SCALES = (1.0, 0.95, 0.9, 0.85)  # if none fits, it scrolls downwards
NARROW = (*SCALES, 0.8, 0.75, 0.7, 0.65, 0.6)  # to fit the width alone
WHOLE = (*NARROW, 0.55, 0.5, 0.45, 0.4, 0.35, 0.3)  # to fit all, when asked to
NOTHING = N_("No model is open yet.")
WALKS = {
    Qt.Key.Key_Left: (-1, 0),
    Qt.Key.Key_Right: (1, 0),
    Qt.Key.Key_Up: (0, -1),
    Qt.Key.Key_Down: (0, 1),
}
ENTER = (Qt.Key.Key_Return, Qt.Key.Key_Enter)


class ArchitectureView(Dressed, View):
    """The diagram in a scroll area: it scrolls where there is too little space."""

    name = "architecture"
    fills = True  # it names the next token itself

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.diagram = _Diagram(session)
        self._scroll = scrolled(self.diagram)
        self._scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.diagram.walked.connect(self._follow)
        # only then is there room to scroll to
        bar = self._scroll.verticalScrollBar()
        bar.rangeChanged.connect(lambda *_range: self.diagram.show_chosen())
        self.whole = QCheckBox(_("&Whole model"), self)
        self.whole.setToolTip(
            _("Show the whole model at once, in smaller text where it needs to be")
        )
        self.whole.toggled.connect(self._fit_whole)
        fill(QVBoxLayout(self), (self._scroll, 1), self.whole, spacing=0)
        can_be_large(self)
        self._built = True

    def draw(self, state: State) -> None:
        self.diagram.draw(state)
        if self._changed("fit", state.model, state.layer, state.trace is None):
            self._fit()
        drawing = self.diagram.drawing
        if drawing is not None and self._changed("chosen", drawing.chosen):
            self.diagram.show_chosen()

    def present(self, *, on: bool) -> None:
        """Show an audience the whole model at once."""
        self.whole.setEnabled(not on)
        self._fit_whole(on or self.whole.isChecked())

    def _fit_whole(self, whole: bool) -> None:
        self.diagram.whole = whole
        self._fit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        """Lay the diagram out; where it scrolls, offer to show all of it."""
        bar = self._scroll.verticalScrollBar().sizeHint().width()
        self.diagram.fit(self.size(), bar)
        scrolls = self.whole.isChecked() or self.diagram.scrolls
        self.whole.setVisible(scrolls and self.whole.isEnabled())
        if scrolls:
            row = QSize(0, self.whole.sizeHint().height())
            self.diagram.fit(self.size() - row, bar)

    def _dress(self) -> None:
        self._fit()

    def _follow(self, box: QRectF) -> None:
        centre = box.center().toPoint()
        half = box.size().toSize() / 2
        self._scroll.ensureVisible(
            centre.x(), centre.y(), half.width() + 8, half.height() + 8
        )


class _Diagram(QWidget):
    """Paints a Drawing; a block is chosen with the mouse or the arrow keys."""

    walked = Signal(QRectF)  # where the chosen block stands, to be seen

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self.drawing: Drawing | None = None
        self._drawn: Drawing | None = None  # the last one that was made
        self.chosen = ""
        self._state = State()
        self._closed: frozenset[str] = frozenset()
        self._room = QSize(1, 1)
        self._scale = 1.0  # of the text
        self.whole = False  # shown at once, however small
        self._bar = self._bars = 0  # pixels that a scroll bar would take, and takes
        self._changed = Changed()
        self._image = DiagramImage()
        self.export = Export(self, self._counts)
        # runs after a step, then stops
        self.flow = animation(self, FLOW_MS, lambda _: self.update(), self.update)
        self.flow.setEasingCurve(QEasingCurve.Type.InOutQuad)
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName(
            _("diagram of the model; the arrow keys move between blocks")
        )

    def draw(self, state: State) -> None:
        """Show a State; do nothing where what is shown is unchanged."""
        at = state.kind, state.layer, state.head
        needs = (state.trace, state.visible, state.model, at)
        if not self._changed("diagram", *needs):
            return
        follows = self._is_next(state)
        if (
            block_path(self.chosen).layer is not None
            and state.layer != self._state.layer
        ):
            self.chosen = ""
        self._state = state
        self.flow.stop()
        self._lay_out()
        if follows and self.isVisible() and has_motion():
            self.flow.start()

    def _is_next(self, state: State) -> bool:
        """Tell whether a State shows the step after the one shown now."""
        before = self._state
        same = before.trace is not None and before.trace is state.trace
        return same and state.step == before.step + 1

    @property
    def scrolls(self) -> bool:
        """Whether there is too little room for the whole diagram."""
        return self._bars > 0

    def fit(self, room: QSize, bar: int) -> None:
        """Lay out for this size in pixels, of which a scroll bar takes ``bar``."""
        self._room, self._bar = room, bar
        self._lay_out()

    def _units(self) -> tuple[float, float]:
        """Return the width of an average character and a line's height, in pixels."""
        metrics = QFontMetricsF(self._font())
        return metrics.horizontalAdvance(SAMPLE) / len(SAMPLE), metrics.height()

    def _font(self) -> QFont:
        """Return the font, a little smaller where that avoids scroll bars."""
        font = QFont(self.font())
        font.setPointSizeF(font.pointSizeF() * self._scale)
        return font

    def _lay_out(self) -> None:
        state = self._state
        at, font = (state.kind, state.layer), self.font().key()
        needs = self._room, font, state.model, at, self._closed, self.whole
        if self._changed("size of the text", *needs, state.trace is None):
            self._fit()
        wide, high = self._units()
        self.drawing = self._drawing_of(self.chosen)
        if self.drawing is not None:
            self.setMinimumSize(
                math.floor(self.drawing.width * wide),
                math.floor(self.drawing.height * high),
            )
            self.setAccessibleDescription(self._words())
        self.update()

    def _fit(self) -> None:
        """Choose the size of the text, whichever block will be shown inside."""
        self._bars = 0
        scales = (*LARGER, *(WHOLE if self.whole else SCALES))
        for self._scale in scales:
            across, down = self._fits()
            if across and down:
                return
        # it is scrolled, and the bar takes room
        self._bars = self._bar
        for self._scale in NARROW:
            if self._fits()[0]:
                return
        self._scale = 1.0

    def _fits(self) -> tuple[bool, bool]:
        """Tell whether the diagram fits across and down."""
        wide, high = self._units()
        if self._scale > 1 and self._room.width() < ROOMY * wide:
            return False, False  # what it says beside the model would have no room
        drawing = self._drawing_of("")
        if drawing is None:
            return True, True
        across = drawing.width * wide < self._room.width() - self._bars + 1
        return across, drawing.height * high < self._room.height() + 1

    def _counts(self) -> Table | None:
        return counts_table(model_of(self._state.visible, self._state.model))

    def _drawing_of(self, chosen: str) -> Drawing | None:
        """Return the diagram; a question about the one asked for last costs nothing."""
        wide, high = self._units()
        columns = (self._room.width() - self._bars) / wide
        lines = (self._room.height() - self._bars) / high
        state = self._state
        at = state.kind, state.layer, state.head
        needs = state.visible, state.model, at, chosen, columns, lines, self._closed
        if self._changed("drawing", *needs):
            self._drawn = architecture(
                state.visible,
                state.model,
                state.selection,
                chosen=chosen,
                columns=columns,
                lines=lines,
                closed=self._closed,
            )
        return self._drawn

    def _words(self) -> str:
        """Describe the chosen block and the step for screen readers."""
        drawing = self.drawing
        if drawing is None:
            return _(NOTHING)
        box = drawing.box(drawing.chosen)
        if box is None:
            return drawing.sentence
        return _("{block}. {sentence}", block=box.words, sentence=drawing.sentence)

    # ---- painting --------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        if self.drawing is None:
            painter.setPen(self.palette().placeholderText().color())
            painter.drawText(self.rect(), Qt.AlignmentFlag.AlignCenter, _(NOTHING))
            return
        font, units = self._font(), self._units()
        image = self._image.of(self.drawing, self, font, units)
        if painter.paintEngine().type() == QPaintEngine.Type.Raster:
            painter.drawPixmap(0, 0, image)
        else:  # texts and lines stay what they are
            self._image.draw(painter, self.drawing, self, units)
        running = self.flow.state() == QVariantAnimation.State.Running
        if running and self.drawing.path:
            painting = Painting(painter, self, *units)
            painting.token(self.drawing, float(self.flow.currentValue()))

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self.flow.stop()

    # ---- mouse and keys --------------------------------------------------------

    def _at(self, point: QPointF) -> str:
        wide, high = self._units()
        drawing = self.drawing
        return drawing.at(point.x() / wide, point.y() / high) if drawing else ""

    def choose(self, id: str) -> None:
        """Show the inside of a block."""
        if id and id != self.chosen:
            self.chosen = id
            self._lay_out()

    def go(self, id: str) -> None:
        """Go to a block's numbers; a layer opens, or closes where it is open."""
        drawing, place = self.drawing, block_path(id)
        if drawing is None or not id:
            return
        self.choose(id)
        if place.layer is not None and not place.part:
            opened = drawing.box(f"{id}.self_attention") is not None
            only = frozenset({place.stack})
            self._closed = self._closed | only if opened else self._closed - only
            self._lay_out()
            if opened:
                return
        goal = drawing.goes.get(id)
        if goal is not None:
            self.session.set(**goal)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        id = self._at(event.position())
        self.setCursor(
            Qt.CursorShape.PointingHandCursor if id else Qt.CursorShape.ArrowCursor
        )
        if self._x_is_outside_zoom(event.position()):
            self.choose(id)

    def _x_is_outside_zoom(self, point: QPointF) -> bool:
        """Tell whether a point is in the model, not in a block's inside."""
        drawing, (wide, _) = self.drawing, self._units()
        return drawing is not None and point.x() / wide < drawing.beside

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self.go(self._at(event.position()))

    def event(self, event: QEvent) -> bool:
        """Keep plain arrows from the window's own keys."""
        if keeps(event, WALKS):
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key, drawing = Qt.Key(event.key()), self.drawing
        if drawing is None or (key not in WALKS and key not in ENTER):
            super().keyPressEvent(event)
        elif key in ENTER:
            self.go(drawing.chosen)
        else:
            self.choose(drawing.walk(drawing.chosen, *WALKS[key]))
            self.show_chosen()

    def show_chosen(self) -> None:
        """Ask for the chosen block to be in sight."""
        drawing = self.drawing
        box = drawing.box(drawing.chosen) if drawing is not None else None
        if box is not None:
            wide, high = self._units()
            place = box.x * wide, box.y * high, box.width * wide, box.height * high
            self.walked.emit(QRectF(*place))


GROUNDS = 2  # kept: from the first step, or another layer, one often goes back


class DiagramImage:
    """Keeps what was painted of a diagram, in the pixels of its widget's screen.

    Boxes and arrows stay as they are from step to step: they are painted once, and at
    each step the tokens and words over them.
    """

    def __init__(self) -> None:
        self._image = QPixmap()
        self._of: tuple[object, ...] = ()  # what the image was painted from
        # the same without tokens and words, newest first, and what each is made of
        self._grounds: list[tuple[tuple[object, ...], QPixmap]] = []
        self._type: tuple[object, ...] = ()  # of the lettering

    def of(
        self, drawing: Drawing, widget: QWidget, font: QFont, units: tuple[float, float]
    ) -> QPixmap:
        """Return the image; ``units``: a character's width and a line's height."""
        ratio, kind = widget.devicePixelRatioF(), (font.key(), units, is_raw())
        look = widget.size(), ratio, widget.palette().cacheKey(), widget.hasFocus()
        if (drawing, look, kind) == self._of:
            return self._image
        self._of = drawing, look, kind
        if kind != self._type:
            self._type, self._lettering = kind, lettering(font, units[0])
        parts = look, units, _ground(drawing)
        kept = next((one for one in self._grounds if one[0] == parts), None)
        if kept is None:
            kept = parts, self._blank(widget, ratio)
            painter = QPainter(kept[1])
            Painting(painter, widget, *units).draw(drawing)
            painter.end()
        others = [one for one in self._grounds if one is not kept]
        self._grounds = [kept, *others][:GROUNDS]
        if (self._image.size(), self._image.devicePixelRatio()) != (
            kept[1].size(),
            ratio,
        ):
            self._image = self._blank(widget, ratio)
        painter = QPainter(self._image)
        painter.drawPixmap(0, 0, kept[1])
        Painting(painter, widget, *units).write(drawing, self._lettering)
        painter.end()
        return self._image

    def draw(
        self,
        painter: QPainter,
        drawing: Drawing,
        widget: QWidget,
        units: tuple[float, float],
    ) -> None:
        """Draw it without an image, once there is one."""
        painting = Painting(painter, widget, *units)
        painting.draw(drawing)
        painting.write(drawing, self._lettering)

    def _blank(self, widget: QWidget, ratio: float) -> QPixmap:
        pixmap = QPixmap(widget.size() * ratio)
        pixmap.setDevicePixelRatio(ratio)
        pixmap.fill(widget.palette().color(QPalette.ColorRole.Window))
        return pixmap


def _ground(drawing: Drawing) -> tuple[object, ...]:
    """Return what boxes and arrows are painted from."""
    boxes = []
    for box in drawing.boxes:
        chosen = bool(box.id) and box.id == drawing.chosen
        if box.style != "token" and has_ground(box, chosen=chosen):
            place = box.x, box.y, box.width, box.height
            boxes.append((place, box.style, box.strong, box.role, box.stack, chosen))
    return drawing.arrows, boxes
