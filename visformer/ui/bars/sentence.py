"""The translation as a sentence, to read, to copy and to compare."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QSize
from PySide6.QtGui import QGuiApplication, QPalette, QResizeEvent
from PySide6.QtWidgets import QStatusBar, QToolButton, QWidget

from visformer.language import _
from visformer.pictures.translation_text import AGAINST
from visformer.session.comparison import compared
from visformer.session.state import State
from visformer.ui import icons
from visformer.ui.theme import gap
from visformer.ui.widgets.marked_label import MarkedLabel


class Sentence(QWidget):
    """One line; cut where there is no room, copied whole."""

    def __init__(self) -> None:
        super().__init__()
        self._text, self._compared = "", False
        self._at_home = True  # the words stand in this row
        self.words, self.other = MarkedLabel(), MarkedLabel()
        self.words.setAccessibleName(_("the translation"))
        self.other.setAccessibleName(_("what the translation is compared with"))
        self.other.setForegroundRole(QPalette.ColorRole.PlaceholderText)
        self.words.setMinimumWidth(1)  # in the status line it is cut, too
        self.copy = QToolButton()
        self.copy.setAutoRaise(True)
        self.copy.setToolTip(_("Copy the translation"))
        self.copy.setAccessibleName(_("Copy the translation"))
        self.copy.clicked.connect(
            lambda: QGuiApplication.clipboard().setText(self._text)
        )
        for part in (self.words, self.copy, self.other):
            part.setParent(self)
        icons.dress(self.copy, "copy")

    def changeEvent(self, event: QEvent) -> None:
        """Follow palette and font."""
        super().changeEvent(event)
        kinds = QEvent.Type.PaletteChange, QEvent.Type.FontChange
        if event.type() in kinds and "copy" in self.__dict__:
            icons.dress(self.copy, "copy")
            self._place()

    # A layout would arrange the window anew with each word.

    def sizeHint(self) -> QSize:
        """Return the height of a line; its width is what is left over."""
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
        high, size, space, x = self.height(), self.copy.sizeHint(), gap(self), 0
        if self._at_home:
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
        trace = state.trace if said.rest else state.shown
        self._text = trace.text if trace is not None else ""
        self.words.set_parts(said.parts, rest=said.rest)
        if said.against:
            around = _(AGAINST[said.against], text="\0").split("\0")
            self.other.set_parts(said.other, *around)
        self._compared = bool(said.other)
        self.other.setVisible(self._compared and self._at_home)
        self.copy.setEnabled(bool(self._text))
        self._place()

    def stand_in(self, line: QStatusBar | None) -> None:
        """Write the sentence in another line, or beside its button again."""
        if line is None:
            self.words.setParent(self)
        else:
            line.insertWidget(0, self.words)  # as wide as it is, or cut
        self.words.show()
        self._at_home = line is None
        self._place()
        self.other.setVisible(self._compared and self._at_home)
