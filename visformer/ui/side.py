"""The side: the next token beside the pictures, as far as there is room for it."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject
from PySide6.QtWidgets import QToolButton

from visformer.language import _
from visformer.session.state import State
from visformer.ui import icons
from visformer.ui.bars.candidates import CandidatesPanel
from visformer.ui.memory import Memory
from visformer.ui.tabs import Tabs

# Widths in lines of text, so that they follow its size.
WIDE, SHARE = 18, 0.2  # of the side; and of the pictures' and its width at most
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
        self.button = QToolButton()
        self.button.setAutoRaise(True)
        self.button.setToolTip(_("Show the next token (Ctrl+T)"))
        self.button.setAccessibleName(_("Show the next token (Ctrl+T)"))
        self.button.clicked.connect(lambda: self.show(True))
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
        """Follow the width that there is, and the size of the text."""
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
        side = min(WIDE * self._line(), round(SHARE * both))
        if wanted:
            side = min(wanted * self._line(), both // 2)
        sizes = [both - side - self._middle.handleWidth(), side]
        if shown and sizes != self._middle.sizes():  # else all is laid out in vain
            self._middle.setSizes(sizes)

    def _moved(self) -> None:
        """Remember the width that the user gave it, in lines."""
        self._memory.keep(WIDTH, round(self._panel.width() / self._line()))

    def _has_room(self) -> bool:
        return not self._fills and self._middle.width() >= ALONE * self._line()

    def _line(self) -> int:
        return self._middle.fontMetrics().height()
