"""Any picture large: it takes the place of all that stands around it, and goes back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from PySide6.QtCore import QEvent, QMargins, QObject, QPoint, QRect, QSize, Qt, Signal
from PySide6.QtGui import (
    QFont,
    QImage,
    QPainter,
    QPaintEvent,
    QPalette,
    QRegion,
    QResizeEvent,
    QScreen,
)
from PySide6.QtWidgets import (
    QAbstractScrollArea,
    QApplication,
    QCheckBox,
    QComboBox,
    QHBoxLayout,
    QLayout,
    QLineEdit,
    QPushButton,
    QScrollArea,
    QSplitter,
    QStackedWidget,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from visformer.language import _
from visformer.session.runs import change_run
from visformer.session.state import Session, State
from visformer.ui.layout import SingleShot
from visformer.ui.look import icons
from visformer.ui.look.theme import THEME, gap, is_over
from visformer.ui.widgets.plain_label import RoleLabel, plain_label
from visformer.values.arrays import Floats

EDGE = 2  # pixels between it and what is painted
CONTROLS = QCheckBox, QComboBox, QLineEdit, QPushButton, QToolButton
REST_MS = 200  # without anything new in the picture, before another place is sought


class CornerButton(QToolButton):
    """Lies on a picture, where nothing is painted, also when the picture changes."""

    def __init__(self, picture: QWidget) -> None:
        super().__init__(picture)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setAutoRaise(True)
        self._picture, self._looking = picture, False
        self._rest = SingleShot(self, self._rested, REST_MS)
        picture.installEventFilter(self)

    def offer(self, icon: str, name: str) -> None:
        """Appear with an icon, and a name as its tooltip."""
        self.setToolTip(name)
        self.setAccessibleName(name)
        icons.dress(self, icon)
        self.show()
        self.raise_()
        self._settle()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Paint and self.isVisible() and not self._looking:
            self._rest.start()
        return False

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint nothing while a place is sought: what is below counts."""
        if self._looking:
            return
        with QPainter(self) as painter:
            painter.fillRect(
                self.rect(), self.palette().color(QPalette.ColorRole.Window)
            )
        super().paintEvent(event)

    @staticmethod
    def leave(picture: QWidget) -> None:
        """Hide the button of a picture until the mouse comes to it again."""
        children = Qt.FindChildOption.FindDirectChildrenOnly
        for button in picture.findChildren(CornerButton, options=children):
            button.hide()

    def _rested(self) -> None:
        if not is_over(self._picture):
            self.hide()
        elif not self.underMouse():
            self._settle()

    def _settle(self) -> None:
        self.adjustSize()
        self._looking = True
        self.move(free_place(self._picture, self.size()))
        self._looking = False


def free_place(picture: QWidget, size: QSize) -> QPoint:
    """Return where something of this size covers least of a picture, in its pixels.

    It is sought from the top right corner to the left, then down the right edge: the
    first place where there are straight lines at most, else the one with the least
    contrast. It lies on no control where there is another place.
    """
    room, edges = picture.rect(), QMargins(EDGE, EDGE, EDGE, EDGE)
    size = size.grownBy(edges).boundedTo(room.size())
    top = QRect(0, 0, room.width(), size.height())
    right = QRect(room.width() - size.width(), 0, size.width(), room.height())
    taken = [
        QRect(control.mapTo(picture, QPoint()), control.size())
        for control in picture.findChildren(QWidget)
        if isinstance(control, CONTROLS) and control.isVisible()
        if not isinstance(control, CornerButton)
    ]
    across = _contrasts(_contrast(picture, top, taken).sum(0), size.width())[::-1]
    down = _contrasts(_contrast(picture, right, taken).sum(1), size.height())
    best = int(np.concatenate([across, down]).argmin())
    if best < len(across):
        place = QPoint(len(across) - 1 - best, 0)
    else:
        place = QPoint(right.left(), best - len(across))
    return place + QPoint(EDGE, EDGE)


def _contrasts(lines: Floats, length: int) -> Floats:
    """Return the contrast in each piece of ``length`` lines, from the first line on."""
    result: Floats = np.lib.stride_tricks.sliding_window_view(lines, length).sum(-1)
    return result


def _contrast(picture: QWidget, strip: QRect, taken: list[QRect]) -> Floats:
    """Return how much pixels differ from their neighbours both ways, [height, width].

    Straight lines do not, words do. It is a sum over red, green and blue (0 to 255
    each), and without bound where a place is ``taken``.
    """
    image = QImage(strip.size(), QImage.Format.Format_RGB32)
    # a view of a scene has another ``render`` of its own
    QWidget.render(picture, image, QPoint(), QRegion(strip))
    seen = np.frombuffer(image.constBits(), np.uint8)
    seen = seen.reshape(image.height(), image.width(), 4)[:, :, :3].astype(np.float32)
    found = np.zeros(seen.shape[:2], np.float32)
    from_left, from_above = (
        np.abs(np.diff(seen, axis=axis)).sum(-1) for axis in (1, 0)
    )
    found[1:, 1:] = np.minimum(
        from_left[1:] + from_left[:-1], from_above[:, 1:] + from_above[:, :-1]
    )
    for place in taken:
        place = place.intersected(strip).translated(-strip.topLeft())
        rows = slice(place.top(), place.bottom() + 1)
        found[rows, place.left() : place.right() + 1] = np.inf
    return found


PICTURE = "can be large"  # a widget's property
CHOOSES = "a click on it chooses"  # and so a double click makes nothing large
GROUP = "is presented whole"  # another one's
NOTICED = frozenset(
    (
        QEvent.Type.MouseButtonPress,
        QEvent.Type.MouseButtonDblClick,
        QEvent.Type.Enter,
        QEvent.Type.Leave,
        QEvent.Type.Show,
    )
)


def can_be_large(picture: QWidget) -> None:
    """Let a picture be made large with a double click, wherever it stands.

    Of pictures inside one another the outermost becomes large.
    """
    picture.setProperty(PICTURE, True)
    _Way(picture)


def present_whole(group: QWidget) -> None:
    """Let pictures that belong together be large together, where a view wants it."""
    group.setProperty(GROUP, True)


class _Way(QObject):
    """Makes its picture large, or puts it back: a button in its corner, two clicks."""

    def __init__(self, picture: QWidget) -> None:
        super().__init__(picture)
        self._picture = picture
        self._watched: set[QWidget] = set()
        self._watch(picture)
        self._button: CornerButton | None = None  # made when the mouse first comes

    def _watch(self, widget: QWidget) -> None:
        if widget not in self._watched:
            self._watched.add(widget)
            widget.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Take double clicks; show the button while the mouse is over the picture."""
        kind = event.type()
        if kind not in NOTICED:
            return False
        clicks = QEvent.Type.MouseButtonPress, QEvent.Type.MouseButtonDblClick
        if kind in (*clicks, QEvent.Type.Enter) and self._picture.property(CHOOSES):
            return False
        if kind == QEvent.Type.MouseButtonPress:
            place = place_of(self._picture)
            if place is not None:
                place.press(self._picture)
        elif kind == QEvent.Type.MouseButtonDblClick:
            place = place_of(self._picture)
            if place is not None:
                place.press_again(self._picture)
                return True
        elif watched is not self._picture:
            return False
        elif kind == QEvent.Type.Show:
            for part in self._picture.findChildren(QWidget):
                if _takes_clicks(part):
                    self._watch(part)
        elif kind == QEvent.Type.Enter:
            self._show_button()
        elif kind == QEvent.Type.Leave and self._button is not None:
            self._button.hide()
        return False

    def _show_button(self) -> None:
        picture, place = self._picture, place_of(self._picture)
        if place is None or place.outermost(picture) is not picture:
            return
        if self._button is None:
            self._button = CornerButton(picture)
            self._button.clicked.connect(self._toggle)
        if place.picture is picture:
            self._button.offer("shrink", _("Back to its place (Esc)"))
        else:
            self._button.offer("enlarge", _("Make it large (F)"))

    def _toggle(self) -> None:
        place = place_of(self._picture)
        if place is not None:
            place.toggle(self._picture)
            self._show_button()


def _takes_clicks(part: QWidget) -> bool:
    """Tell whether a part of a picture keeps the clicks on it to itself."""
    hidden = part.testAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
    viewport = isinstance(part.parentWidget(), QAbstractScrollArea)
    return not hidden and (part.hasMouseTracking() or viewport)


def place_of(widget: QWidget) -> LargePlace | None:
    """Return the place in which a widget would be large."""
    parent = widget.parentWidget()
    while parent is not None and not isinstance(parent, LargePlace):
        parent = parent.parentWidget()
    return parent


def report(widget: QWidget, sentence: str) -> None:
    """Say in a picture's window what went wrong with it, also from another screen."""
    top = widget.window()
    place = top.place if isinstance(top, _Alone) else place_of(widget)
    if place is not None:
        place.failed.emit(sentence)


class _Alone(QWidget):
    """What is around a large picture; on another screen a window of its own."""

    def __init__(self, place: LargePlace) -> None:
        super().__init__()
        self.place = place


class LargePlace(QStackedWidget):
    """What is usually there; or one picture of it, alone."""

    changed = Signal()
    resized = Signal()
    failed = Signal(str)  # what went wrong with a picture here, in a sentence
    pressed = Signal()  # on a picture, before it does anything
    doubled = Signal()  # a second time, before another picture is large

    def __init__(self, usual: QWidget) -> None:
        super().__init__()
        self._pressed: QWidget | None = None  # the picture
        self._sentence = ""  # on what a large picture shows
        self._brief = False
        self._usual, self.alone = usual, _Alone(self)
        self.words = RoleLabel(_("what is seen here"))
        self._mark = plain_label("", faint=True)
        self._column = QVBoxLayout()
        self._column.addWidget(self._mark)
        self._column.addWidget(self.words)
        self._row = QHBoxLayout()
        self._row.addLayout(self._column, 1)
        self._rows = QVBoxLayout(self.alone)
        self._rows.setContentsMargins(gap(self), 0, gap(self), 0)
        self._rows.addLayout(self._row, 1)
        self.addWidget(usual)
        self.addWidget(self.alone)
        self.picture: QWidget | None = None  # the large one
        self._put_back: Callable[[], None] = _nothing
        self._moving = False  # what hears of that may want another picture

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.resized.emit()

    def press(self, picture: QWidget) -> None:
        """Notice a press on a picture: it may be the first of two."""
        self._pressed = picture
        self.pressed.emit()

    def press_again(self, picture: QWidget) -> None:
        """Make large what was pressed first: it may stand elsewhere by now."""
        first = self._pressed or picture
        self.doubled.emit()
        self.toggle(first if self.isAncestorOf(first) else picture)

    def toggle(self, widget: QWidget) -> None:
        """Make the picture that a widget belongs to large, or put it back."""
        if self.picture is not None:
            self.restore()
        else:
            self.enlarge(widget)

    def explain(self, sentence: str) -> None:
        """Say below the large picture what it shows."""
        self._sentence = sentence
        if self.picture is not None:
            self.words.setText(sentence)
            self.words.setVisible(bool(sentence) and not self._brief)

    def be_brief(self, *, brief: bool) -> None:
        """Leave the sentence out, where something else says what is seen."""
        if brief != self._brief:
            self._brief = brief
            self.explain(self._sentence)

    def mark(self, words: str) -> None:
        """Say below the large picture that the run is not the model's own."""
        self._mark.setText(words)
        self._mark.setVisible(bool(words))

    def surround(self, above: QWidget, beside: QWidget) -> None:
        """Keep widgets above the large picture and right of it, hidden at first."""
        self._rows.insertWidget(0, above)
        self._row.addWidget(beside)
        for part in (above, beside):
            part.hide()

    def put_below(self, widget: QWidget) -> None:
        """Keep a widget below the large picture, and below what is beside that."""
        self._rows.addWidget(widget)

    def lend(self, screen: QScreen) -> None:
        """Show the large picture alone on another screen; the keys stay here.

        A click on it must not take them: nothing there knows what they do.
        """
        alone, kinds = self.alone, Qt.WindowType
        self.setCurrentWidget(self._usual)
        alone.setProperty(THEME, self.window().property(THEME))
        alone.setParent(None, kinds.Window | kinds.WindowDoesNotAcceptFocus)
        flag = Qt.WidgetAttribute.WA_ShowWithoutActivating
        alone.setAttribute(flag)
        alone.setGeometry(screen.geometry())
        alone.showFullScreen()

    def take_back(self) -> None:
        """Bring it back from there."""
        self.alone.hide()
        # in one step: else it keeps the window of its own, which paints nothing here
        self.alone.setParent(self, Qt.WindowType.Widget)
        self.addWidget(self.alone)
        if self.picture is not None:
            self.setCurrentWidget(self.alone)

    def toggle_focused(self) -> None:
        """Make the picture with the focus large, or else the largest.

        Put the large one back if there is one.
        """
        widget = QApplication.focusWidget()
        if widget is None or not self.outermost(widget):
            widget = next(iter(self.pictures()), None)
        if self.picture is not None or widget is not None:
            self.toggle(widget or self)

    def enlarge(self, widget: QWidget) -> None:
        """Make a group large, or the outermost picture around a widget, if any."""
        picture = widget if widget.property(GROUP) else self.outermost(widget)
        if picture is None or picture is self.picture or self._moving:
            return
        self.restore()
        with self._usual_font():
            put_back = taken_out(picture)
            if put_back is None:
                return
            self.picture, self._put_back = picture, put_back
            self.explain(self._sentence)
            self._column.insertWidget(0, picture, 1)
        picture.show()
        self.setCurrentWidget(self.alone)
        picture.setFocus()
        self.changed.emit()

    def restore(self) -> None:
        """Put the large picture back where it was; do nothing if there is none."""
        picture = self.picture
        if picture is None or self._moving:
            return
        focused = self.alone.isAncestorOf(self.focusWidget() or self)
        with self._usual_font():
            self._put_back()
        self.picture = None
        self.setCurrentWidget(self._usual)
        if focused:
            picture.setFocus()
        self.changed.emit()

    def spread_font(self) -> None:
        """Give parts that have come into the large picture the font that it has."""
        with self._usual_font():
            pass

    @contextmanager
    def _usual_font(self) -> Iterator[None]:
        """Move a picture while both places have one font: the large one comes after.

        Meanwhile nothing else is moved; what is drawn may come here again.
        Under a style sheet Qt tells a widget of the font around it when that changes,
        not when it comes there.
        """
        font, moving = QFont(self.alone.font()), self._moving
        self._moving = True
        self.alone.setFont(self.font())
        try:
            yield
        finally:
            self.alone.setFont(font)
            self._moving = moving

    def outermost(self, widget: QWidget) -> QWidget | None:
        """Return the picture in this place that a widget is a part of."""
        if not self.isAncestorOf(widget):
            return None
        found: QWidget | None = None
        at: QWidget | None = widget
        while at is not None and at is not self:
            if at.property(PICTURE):
                found = at
            at = at.parentWidget()
        return found

    def pictures(self) -> list[QWidget]:
        """Return the pictures on screen that can be made large, the largest first."""
        shown = [
            widget
            for widget in self.findChildren(QWidget)
            if widget.property(PICTURE)
            and widget.isVisible()
            and self.outermost(widget) is widget
        ]
        return sorted(shown, key=lambda w: w.width() * w.height(), reverse=True)


def _nothing() -> None:
    """Put nothing back."""


class FirstClick:
    """Remembers what was locked before a click on a picture."""

    def __init__(self, session: Session, large: LargePlace) -> None:
        self._session = session
        self._before: State | None = None
        large.pressed.connect(self._remember)
        large.doubled.connect(self._take_back)

    def _remember(self) -> None:
        self._before = self._session.state

    def _take_back(self) -> None:
        """Lock what was locked, at the step and in the run of before.

        Kind and head that were clicked stay: these are what becomes large.
        """
        before, now = self._before, self._session.state
        if before is None:
            return
        if before.intervention != now.intervention:  # a cell of a mask was switched
            self._session.do(change_run, before.intervention)
        chosen = before.step, before.locked, before.locked_dimensions
        if chosen != (now.step, now.locked, now.locked_dimensions):
            self._session.set(
                step=before.step,
                locked=before.locked,
                locked_dimensions=before.locked_dimensions,
            )


def taken_out(picture: QWidget) -> Callable[[], None] | None:
    """Put a stand-in where a picture stands; return what puts the picture back.

    None where nothing that is known here arranges it.
    """
    parent = picture.parentWidget()
    # seen only where there are two screens
    stand_in = plain_label(_("This picture is on the other screen."), faint=True)
    stand_in.setAlignment(Qt.AlignmentFlag.AlignCenter)
    stand_in.setWordWrap(True)
    stand_in.setSizePolicy(picture.sizePolicy())
    stand_in.setMinimumSize(picture.minimumSizeHint().expandedTo(picture.minimumSize()))
    stand_in.setMaximumSize(picture.maximumSize())
    area = parent.parentWidget() if parent is not None else None
    layout = parent.layout() if parent is not None else None
    if isinstance(parent, QSplitter):
        put_back = _out_of_splitter(parent, picture, stand_in)
    elif isinstance(area, QScrollArea) and area.widget() is picture:
        put_back = _out_of_area(area, stand_in)
    elif layout is not None:
        put_back = _out_of_layout(layout, picture, stand_in)
    else:
        return None

    def restored() -> None:
        hidden = picture.isHidden()  # as its view wants it by now
        put_back()
        picture.setHidden(hidden)
        stand_in.hide()
        stand_in.deleteLater()

    return restored


def _out_of_splitter(
    splitter: QSplitter, picture: QWidget, stand_in: QWidget
) -> Callable[[], None]:
    sizes = splitter.sizes()
    splitter.replaceWidget(splitter.indexOf(picture), stand_in)

    def put_back() -> None:
        splitter.replaceWidget(splitter.indexOf(stand_in), picture)
        splitter.setSizes(sizes)

    return put_back


def _out_of_area(area: QScrollArea, stand_in: QWidget) -> Callable[[], None]:
    picture = area.takeWidget()
    area.setWidget(stand_in)

    def put_back() -> None:
        area.takeWidget()
        area.setWidget(picture)

    return put_back


def _out_of_layout(
    layout: QLayout, picture: QWidget, stand_in: QWidget
) -> Callable[[], None]:
    layout.replaceWidget(picture, stand_in)  # in the layouts inside it too

    def put_back() -> None:
        layout.replaceWidget(stand_in, picture)

    return put_back
