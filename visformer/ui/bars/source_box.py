"""The source: a line while it is edited, the tokens of its run otherwise."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject
from PySide6.QtWidgets import QHBoxLayout, QWidget

from visformer.language import _
from visformer.pictures.attention.strips import source_line
from visformer.session.state import State
from visformer.ui.bars.source_line import SourceLine
from visformer.ui.bars.strips import Strips
from visformer.ui.layout import fill
from visformer.ui.look import icons, theme
from visformer.ui.look.theme import FONT_PALETTE, Dressed
from visformer.ui.widgets.controls import tool_button


class SourceBox(Dressed, QWidget):
    """Shows the tokens in the line's place once they are those of its text.

    A click beside the tokens, a double click on one, or the pen at their end goes back
    to the line.
    """

    dressed_at = FONT_PALETTE

    def __init__(self, line: SourceLine, strips: Strips) -> None:
        super().__init__()
        self.line, self._strips = line, strips
        self._tokens = strips.source_row
        self._run = ""  # the text whose tokens there are
        self.edit = tool_button(_("Edit the sentence (/)"), line.take_focus)
        self._row = fill(QHBoxLayout(self), (line, 1), (self._tokens, 1), self.edit)
        line.installEventFilter(self)
        line.textChanged.connect(lambda _text: self._settle())
        strips.source.beside.connect(line.take_focus)
        self.dress()

    def draw(self, state: State) -> None:
        """Follow the run on screen."""
        trace = state.trace
        typed = state.wish.sentence  # ids, where the run knows of no text
        self._run = "" if trace is None else source_line(trace) or typed
        self._settle()

    def _settle(self) -> None:
        """Show the tokens, unless the line is edited or says something else."""
        editing = self.line.hasFocus() or self.line.text() != self._run
        shown = self._strips.folded or not self._strips.has_source or editing
        for part in (self._tokens, self.edit):
            part.setHidden(shown)
        self.line.setVisible(shown)
        self.setMinimumHeight(self._tokens.sizeHint().height())  # the line is lower

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() in (QEvent.Type.FocusIn, QEvent.Type.FocusOut):
            self._settle()
        return False

    def _dress(self) -> None:
        icons.dress(self.edit, "edit")
        self._row.setSpacing(theme.gap(self))
