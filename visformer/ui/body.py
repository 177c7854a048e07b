"""The body of the window: rows of the frame, the pictures, what lies over these."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QPoint, QRect, QTimer
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QStatusBar, QVBoxLayout, QWidget

from visformer.ui import theme
from visformer.ui.bars.candidates import CandidatesPanel
from visformer.ui.bars.drawer import Drawer
from visformer.ui.bars.message_stack import MessageStack
from visformer.ui.bars.sentence import Sentence
from visformer.ui.bars.strips import Strips
from visformer.ui.large import LargePlace

# In lines of text: below this height, and with this width, the transport stands at the
# target tokens.
LOW, WIDE = 40, 40
MOVES = frozenset(
    (
        QEvent.Type.Resize,
        QEvent.Type.Move,
        QEvent.Type.Show,
        QEvent.Type.Hide,
        QEvent.Type.LayoutRequest,
    )
)


class Body(QWidget):
    """Header, strips and transport; below them the pictures, which nothing pushes.

    Where there is little height the transport shares the row of the target tokens, and
    the sentence that they make stands in the status line.
    """

    def __init__(self) -> None:
        super().__init__()
        self._column = QVBoxLayout(self)
        self.chrome = QWidget()  # all that presenting hides
        self.chrome.setSizePolicy(
            QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed
        )
        self._rows = QVBoxLayout(self.chrome)
        self._rows.setContentsMargins(0, 0, 0, 0)
        self._over: (
            tuple[LargePlace, QWidget, CandidatesPanel, Drawer, MessageStack] | None
        ) = None
        self._play: tuple[Strips, QWidget, Sentence, QStatusBar] | None = None
        self._low = self._sharing = False
        self._said = 0  # the height of what is said below the pictures, in pixels
        self._late = QTimer(self, singleShot=True, interval=0)
        self._late.timeout.connect(self._share_rows)
        self._column.addWidget(self.chrome)
        self._dress()

    def add_rows(
        self,
        header: QWidget,
        strips: Strips,
        play: QWidget,
        sentence: Sentence,
        status: QStatusBar,
    ) -> None:
        """Add the rows above the pictures; the sentence is a part of the last one."""
        self._play = strips, play, sentence, status
        for row in (header, strips, play):
            self._rows.addWidget(row)

    def fill(
        self,
        place: LargePlace,
        titled: QWidget,
        beside: CandidatesPanel,
        drawer: Drawer,
        messages: MessageStack,
    ) -> None:
        """Put the pictures below the rows, and over them what comes and goes.

        ``titled``: what is below the titles, which nothing lies over; ``beside``: what
        may have room below it for the messages, else they are below the pictures.
        """
        self._column.addWidget(place, 1)
        self._over = place, titled, beside, drawer, messages
        for part in (place, beside, drawer):
            part.installEventFilter(self)
        messages.changed.connect(self._settle)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._share_rows()
        self._settle()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Follow the pictures, and the drawer when it opens."""
        if event.type() in MOVES:
            self._settle()
        return False

    def changeEvent(self, event: QEvent) -> None:
        """Follow the font."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange and "_over" in self.__dict__:
            self._dress()

    def _dress(self) -> None:
        space = theme.gap(self)
        self._column.setContentsMargins(space, space, space, self._said)
        self._column.setSpacing(space)
        self._rows.setSpacing(space)
        self._late.start()  # what moves while fonts change would keep the one before

    def show_strips(self, shown: bool) -> None:
        """Show or fold the tokens; the transport stays."""
        if self._play is not None:
            self._play[0].setVisible(shown)
            self._share_rows()

    def _share_rows(self) -> None:
        """Put the transport beside the target tokens, or into a row of its own."""
        if self._play is None:
            return
        line, folded = self.fontMetrics().height(), self._play[0].isHidden()
        low = self.height() < LOW * line and self.width() >= WIDE * line
        low = low and not folded
        if low == self._low:
            return
        if self._sharing:  # what moves now changes the height
            self._late.start()
            return
        self._low, self._sharing = low, True
        self._move(*self._play, low=low)
        self._sharing = False

    def _move(
        self,
        strips: Strips,
        play: QWidget,
        sentence: Sentence,
        status: QStatusBar,
        *,
        low: bool,
    ) -> None:
        focused = self.window().focusWidget()
        sentence.stand_in(status if low else None)
        if low:
            strips.put_beside_target(play)
        else:
            self._rows.addWidget(play)
        if focused is not None and play.isAncestorOf(focused):
            focused.setFocus()  # it was lost on the way

    def _settle(self) -> None:
        if self._over is None:
            return
        place, titled, beside, drawer, messages = self._over
        room, aside = place.geometry(), QRect()
        if beside.isVisible():
            aside = beside.free_room().translated(beside.mapTo(self, QPoint()))
        room.setBottom(self.height() - 1)
        said = messages.settle(room, aside)
        if said != self._said:
            self._said = said
            edges = self._column.contentsMargins()
            edges.setBottom(said)
            self._column.setContentsMargins(edges)
        room.setBottom(self.height() - 1 - said)
        if titled.isVisible():
            room.setTop(titled.mapTo(self, QPoint()).y())
        size = drawer.sizeHint().boundedTo(room.size())
        wide = min(room.width(), max(size.width(), 30 * drawer.fontMetrics().height()))
        left = room.right() + 1 - wide
        drawer.setGeometry(left, room.top(), wide, size.height())
