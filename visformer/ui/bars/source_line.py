"""The source: a line while it is edited, the tokens of its run otherwise.

Enter translates; Up and Down walk earlier sentences.
"""

from PySide6.QtCore import QEvent, QObject, QSize, Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QGuiApplication, QKeyEvent, QKeySequence
from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QWidget

from visformer.language import _
from visformer.pictures.attention.strips import source_line
from visformer.session.state import State
from visformer.text import MAX_CHARACTERS, without_controls
from visformer.ui.bars.strips import Strips
from visformer.ui.layout import fill
from visformer.ui.look import icons, theme
from visformer.ui.look.theme import FONT_PALETTE, Dressed
from visformer.ui.widgets.controls import tool_button

HISTORY = 200
SHOWN = 10_000  # characters: laying many more out would hold the window


class SourceLine(QLineEdit):
    """A line of text with a memory.

    Of a very long text the beginning is shown; all of it is kept, and submitted, until
    what is shown is edited.
    """

    submitted = Signal(str)
    told = Signal(str)  # what was cut, as a sentence

    def __init__(self, name: str, hint: str) -> None:
        super().__init__()
        self.history: list[str] = []
        self._at = 0  # place in the history; its length: the line being typed
        self._typed = ""
        self._whole = ""  # the text of which the beginning is shown
        self.note = ""  # what was told of it
        self.setMaxLength(SHOWN)
        self.inputRejected.connect(self._reject)
        self.textChanged.connect(self._change)
        self.setAccessibleName(name)
        self.setPlaceholderText(hint)
        self.setClearButtonEnabled(True)
        self.returnPressed.connect(self.submit)

    # ---- long texts ------------------------------------------------------------

    def text(self) -> str:
        """Return the text, what is not shown of it included."""
        return self._whole or without_controls(super().text())

    def setText(self, text: str | None) -> None:
        """Show a text, of a long one the beginning.

        What has no room is its end, unless the user is writing.
        """
        given = without_controls(text or "")
        whole = given[:MAX_CHARACTERS]
        self._whole = whole if len(whole) > SHOWN else ""
        super().setText(whole[:SHOWN])
        if not self.hasFocus():
            self.setCursorPosition(0)
        self.note = _cut_words(len(given))
        if self.note:
            self.told.emit(self.note)

    def paste(self) -> None:
        """Put the clipboard's text at the cursor, however long it is."""
        text = " ".join(QGuiApplication.clipboard().text().splitlines())
        if len(text) <= SHOWN:
            super().paste()
            return
        line, at = super().text(), self.cursorPosition()
        end = at
        if self.hasSelectedText():
            at, end = self.selectionStart(), self.selectionEnd()
        self.setText(line[:at] + text + line[end:])

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """Let the menu paste long texts too."""
        menu = self.createStandardContextMenu()
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        for action in menu.actions():
            if action.objectName() == "edit-paste":
                action.triggered.disconnect()
                action.triggered.connect(self.paste)
        menu.popup(event.globalPos())

    def _reject(self) -> None:
        self.told.emit(
            _(
                "You can type up to {shown:,} characters; paste longer texts.",
                shown=SHOWN,
            )
        )

    def _change(self, shown: str) -> None:
        """Drop what is not shown once what is shown is another."""
        if self._whole and shown != self._whole[:SHOWN]:
            self._whole = self.note = ""

    # ---- memory ----------------------------------------------------------------

    def submit(self) -> None:
        """Emit the text and remember it."""
        text = self.text()
        self.remember(text)
        self.submitted.emit(text)

    def take(self, text: str) -> str:
        """Show a text from elsewhere, and remember it; return it cleaned."""
        self.setText(text)
        self.setCursorPosition(0)
        self.remember(self.text())
        return self.text()

    def take_focus(self) -> None:
        """Begin to edit the text: what is typed next replaces it."""
        self.show()  # the tokens may stand in its place
        self.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.selectAll()

    def remember(self, text: str) -> None:
        """Put a sentence at the end of the history, once."""
        if len(text) <= SHOWN and text.strip():
            self.history = [*(t for t in self.history if t != text), text][-HISTORY:]
        self._at = len(self.history)

    def event(self, event: QEvent) -> bool:
        """Leave Undo and Redo to the window where there is no typing to undo."""
        if event.type() == QEvent.Type.ShortcutOverride and isinstance(
            event, QKeyEvent
        ):
            keys = QKeySequence.StandardKey
            undo = event.matches(keys.Undo) and not self.isUndoAvailable()
            redo = event.matches(keys.Redo) and not self.isRedoAvailable()
            if undo or redo:
                event.ignore()
                return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.matches(QKeySequence.StandardKey.Paste):
            self.paste()
        elif event.key() == Qt.Key.Key_Up:
            self._walk(-1)
        elif event.key() == Qt.Key.Key_Down:
            self._walk(1)
        else:
            super().keyPressEvent(event)

    def _walk(self, step: int) -> None:
        if self._at >= len(self.history):
            self._typed = self.text()
        self._at = max(0, min(len(self.history), self._at + step))
        end = self._at == len(self.history)
        self.setText(self._typed if end else self.history[self._at])


def _cut_words(count: int) -> str:
    """Say what becomes of a text of so many characters; "" if it is simply shown."""
    if count > MAX_CHARACTERS:
        return _(
            "The text is cut: of its {n:,} characters the first {most:,} are read.",
            n=count,
            most=MAX_CHARACTERS,
        )
    if count > SHOWN:
        return _(
            "All {n:,} characters are read; the first {shown:,} are shown, and editing "
            "them drops the rest.",
            n=count,
            shown=SHOWN,
        )
    return ""


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

    def minimumSizeHint(self) -> QSize:
        """Return the least size: as high as the tokens, also where the line stands."""
        least = QSize(0, self._tokens.sizeHint().height())
        return super().minimumSizeHint().expandedTo(least)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() in (QEvent.Type.FocusIn, QEvent.Type.FocusOut):
            self._settle()
        return False

    def _dress(self) -> None:
        icons.dress(self.edit, "edit")
        self._row.setSpacing(theme.gap(self))
