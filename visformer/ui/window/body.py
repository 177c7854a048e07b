"""The body of the window: rows of the frame, the pictures, what lies over these."""

from PySide6.QtCore import QEvent, QObject, QPoint, QRect
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QVBoxLayout, QWidget

from visformer.language import _
from visformer.program.memory import Memory
from visformer.session.state import State
from visformer.ui.bars.candidates import CandidatesPanel
from visformer.ui.bars.lesson_panel import LessonPanel
from visformer.ui.bars.message_stack import MessageStack
from visformer.ui.bars.transport import Drawer
from visformer.ui.layout import fill
from visformer.ui.look import icons, theme
from visformer.ui.look.theme import Dressed
from visformer.ui.widgets.controls import tool_button
from visformer.ui.window.large import LargePlace
from visformer.ui.window.tabs import Tabs

MOVES = frozenset(
    (
        QEvent.Type.Resize,
        QEvent.Type.Move,
        QEvent.Type.Show,
        QEvent.Type.Hide,
        QEvent.Type.LayoutRequest,
    )
)


class Body(Dressed, QWidget):
    """Header and target; below them the pictures, which nothing pushes."""

    def __init__(self) -> None:
        super().__init__()
        self._column = QVBoxLayout(self)
        self.chrome = QWidget()  # all that presenting hides
        self.chrome.setSizePolicy(
            QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed
        )
        self._rows = fill(QVBoxLayout(self.chrome))
        self._over: (
            tuple[LargePlace, QWidget, CandidatesPanel, Drawer, MessageStack] | None
        ) = None
        self._said = 0  # the height of what is said below the pictures, in pixels
        self._column.addWidget(self.chrome)
        self._row = QHBoxLayout()  # a lesson, and the pictures
        self._column.addLayout(self._row, 1)
        self._lesson: LessonPanel | None = None
        self.dress()

    def add_rows(self, *rows: QWidget) -> None:
        """Add the rows above the pictures."""
        for row in rows:
            self._rows.addWidget(row)

    def put_left(self, lesson: LessonPanel) -> None:
        """Put what a lesson says left of the pictures."""
        self._lesson = lesson
        self._row.insertWidget(0, lesson)

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
        self._row.addWidget(place, 1)
        self._over = place, titled, beside, drawer, messages
        for part in (place, beside, drawer):
            part.installEventFilter(self)
        messages.changed.connect(self._settle)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self._lesson is not None:
            self._lesson.fit(self.width())
        self._settle()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() in MOVES:
            self._settle()
        return False

    def _dress(self) -> None:
        space = theme.gap(self)
        self._column.setContentsMargins(space, space, space, self._said)
        self._column.setSpacing(space)
        self._row.setSpacing(space)
        self._rows.setSpacing(space)

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


# Widths in lines of text, so that they follow its size.
SIDE_WIDE, SHARE = 18, 0.2  # of the side; and of the pictures' and its width at most
ALONE = 50  # of both, below which the pictures need all of it
WISH, WIDTH = "next token", "width of the next token"  # in the settings


class Side(QObject):
    """Folds the next token where there is little room, unless the user wants it.

    Its width in lines stays what the user made it. ``button`` shows it again.
    """

    def __init__(self, tabs: Tabs, panel: CandidatesPanel, memory: Memory) -> None:
        super().__init__(tabs)
        self._tabs, self._panel, self._memory = tabs, panel, memory
        self._middle = tabs.middle
        self._fills = False
        self.button = tool_button(
            _("Show the next token (Ctrl+T)"), lambda: self.show(True)
        )
        tabs.add_corner(self.button)
        self._middle.addWidget(panel)
        self._middle.splitterMoved.connect(self._moved)
        self._middle.installEventFilter(self)
        self.settle()

    def draw(self, state: State) -> None:
        """Make room for a view that shows the next token itself."""
        fills = self._tabs.view(state.tab).fills
        if fills != self._fills:
            self._fills = fills
            self.settle()

    def show(self, shown: bool) -> None:
        """Show or fold it; this is remembered only where it was the user's choice."""
        wish = "shown always" if shown else "hidden"
        self._memory.keep(WISH, None if shown == self._has_room() else wish)
        self.settle()

    def reset(self) -> None:
        """Follow the room again."""
        self._memory.keep(WISH, None)
        self._memory.keep(WIDTH, None)
        self.settle()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        kinds = QEvent.Type.Resize, QEvent.Type.FontChange, QEvent.Type.PaletteChange
        if event.type() in kinds:
            self.settle()
        return False

    def settle(self) -> None:
        """Show or fold it, and give it its width."""
        wish = self._memory.text(WISH, "")
        shown = wish == "shown always" or (wish != "hidden" and self._has_room())
        if shown == self._panel.folded:
            self._panel.fold(not shown)
        self.button.setVisible(not shown)
        if not shown:
            icons.dress(self.button, "unfold")
        both, wanted = self._middle.width(), self._memory.number(WIDTH, 0)
        side = min(SIDE_WIDE * self._line(), round(SHARE * both))
        if wanted:
            side = min(wanted * self._line(), both // 2)
        sizes = [both - side - self._middle.handleWidth(), side]
        if shown and sizes != self._middle.sizes():  # else all is laid out in vain
            self._middle.setSizes(sizes)

    def _moved(self) -> None:
        self._memory.keep(WIDTH, round(self._panel.width() / self._line()))

    def _has_room(self) -> bool:
        return not self._fills and self._middle.width() >= ALONE * self._line()

    def _line(self) -> int:
        return self._middle.fontMetrics().height()
