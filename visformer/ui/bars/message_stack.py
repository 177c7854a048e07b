"""What there is to say: beside the pictures, or below them, never over them."""

from PySide6.QtCore import QEvent, QObject, QRect, Qt, Signal, SignalInstance
from PySide6.QtGui import QPalette, QShowEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QPushButton,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from visformer.language import _
from visformer.pictures.words.modified_run import modified_words, report_words
from visformer.session.kept import KeptWork
from visformer.session.state import State
from visformer.text import visible
from visformer.ui.layout import fill
from visformer.ui.look import icons, theme
from visformer.ui.look.theme import FONT_PALETTE, Dressed
from visformer.ui.widgets.controls import tool_button, word_button
from visformer.ui.widgets.plain_label import plain_label, plain_tip

LEAST_WIDTH, MOST = 10, 16  # of what stands aside, and its height, in lines of text
SHARE = 0.5  # of the height, that may be taken from the pictures


class MessageStack(QFrame):
    """Lines below one another, as high as they need to be; hidden without any."""

    changed = Signal()  # its lines, or their height

    def __init__(self, parent: QWidget, *lines: QWidget) -> None:
        super().__init__(parent)
        self.setAutoFillBackground(True)
        self._column = fill(QVBoxLayout(self))
        for line in lines:
            self.add(line)
        self.hide()

    def add(self, line: QWidget) -> None:
        """Put a line below the others; it comes and goes by itself."""
        self._column.addWidget(line)
        line.installEventFilter(self)
        self.changed.emit()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.raise_()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() in (QEvent.Type.ShowToParent, QEvent.Type.HideToParent):
            self.changed.emit()
        return False

    def event(self, event: QEvent) -> bool:
        """Take another place when a line's text is longer or shorter."""
        done = super().event(event)
        if event.type() == QEvent.Type.LayoutRequest:
            self.changed.emit()
        return done

    def settle(self, room: QRect, aside: QRect) -> int:
        """Stand ``aside``, or at the lower edge of ``room``; both in the parent.

        ``aside`` is where nothing is, if anywhere; there may be too little of it.
        Returns the height in pixels that the rest of ``room`` is to leave.
        """
        self.setVisible(not self._column.isEmpty())
        if self.isHidden():
            return 0
        edge, least = theme.gap(self), self.minimumSizeHint()
        if self._column.spacing() != edge:  # else each layout would ask for another
            self._column.setSpacing(edge)
        inside = aside.adjusted(edge, edge, -edge, -edge)
        line = self.fontMetrics().height()
        stands = inside.width() >= max(least.width(), LEAST_WIDTH * line)
        most = min(inside.height(), MOST * line)
        stands = stands and self._high(inside.width()) <= most
        inside = inside if stands else room.adjusted(0, edge, 0, -edge)
        high = self._high(inside.width())
        if not stands:
            high = min(high, int(SHARE * room.height()))
        top = inside.bottom() + 1 - high
        self.setGeometry(inside.x(), top, inside.width(), high)
        return 0 if stands else room.bottom() + 1 - top

    def _high(self, width: int) -> int:
        return max(
            self._column.totalHeightForWidth(width), self.minimumSizeHint().height()
        )


class Notice(Dressed, QWidget):
    """Wraps its sentence; a long word in it never widens the window."""

    dressed_at = FONT_PALETTE

    closed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.words = plain_label("")
        self.words.setMargin(4)
        self.words.setWordWrap(True)
        self.words.setMinimumWidth(1)  # otherwise that of the longest word
        flags = Qt.TextInteractionFlag
        self.words.setTextInteractionFlags(flags.TextSelectableByMouse)
        self._close = tool_button(_("Close the message (Esc)"), self.closed)
        fill(QHBoxLayout(self), (self.words, 1), self._close, spacing=6)
        self.dress()
        self.hide()

    def _dress(self) -> None:
        icons.dress(self._close, "close")

    def text(self) -> str:
        return self.words.text()

    def draw(self, state: State, damage: str = "") -> None:
        """Show the error, or else what the engine or the run has to say.

        ``damage`` says why something could not be drawn.
        """
        sentence = state.error or damage or state.silence or state.notice
        if sentence != self.words.text() or self.isHidden() == bool(sentence):
            self.words.setText(sentence)
            self.setVisible(bool(sentence))


LEAST_SAID = 27  # characters that stay in sight where there is little width


class ModifiedBar(Dressed, QWidget):
    """One line of the status bar, hidden during the original run."""

    undone = Signal()
    redone = Signal()
    restored = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setAutoFillBackground(True)
        self.setBackgroundRole(QPalette.ColorRole.ToolTipBase)
        self.setForegroundRole(QPalette.ColorRole.ToolTipText)
        row = QHBoxLayout(self)
        row.setContentsMargins(6, 0, 0, 0)
        row.setSpacing(2)
        self.words = plain_label("")
        self.words.setForegroundRole(QPalette.ColorRole.ToolTipText)
        row.addWidget(self.words, 1)
        self.buttons: list[QToolButton] = []
        for title, tip, signal in (
            (_("Undo"), _("Undo the last change (Ctrl+Z)"), self.undone),
            (_("Redo"), _("Redo the change (Ctrl+Shift+Z)"), self.redone),
            (_("Restore"), _("Go back to the original run"), self.restored),
        ):
            button = word_button(title, tip, signal)
            row.addWidget(button)
            self.buttons.append(button)
        self.hide()

    def draw(self, state: State) -> None:
        """Say what is changed, and how the text differs."""
        baseline = None if state.busy else state.baseline  # known when all is run
        known = state.intervention, state.trace, baseline, state.step
        words = modified_words(*known)
        self.words.setText(words)
        proof = report_words(state.report, state.visible)
        self.words.setToolTip(plain_tip(f"{words}\n{proof}") if proof else "")
        self.dress()
        self.setVisible(bool(words))
        undo, redo, _restore = self.buttons
        undo.setEnabled(bool(state.history.undo))
        redo.setEnabled(bool(state.history.redo))

    def _dress(self) -> None:
        """Keep what is changed in sight; the rest is cut, a tooltip has all of it."""
        begins = self.words.text()[:LEAST_SAID]
        self.words.setMinimumWidth(self.fontMetrics().horizontalAdvance(begins + "…"))


MOST_SAID = 80  # characters of its sentence


class RestoreBar(QWidget):
    """One line, hidden unless there is something to offer."""

    wanted = Signal(object)  # the KeptWork
    unwanted = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.setAutoFillBackground(True)
        self.setBackgroundRole(QPalette.ColorRole.AlternateBase)
        self._work: KeptWork | None = None
        self.words = plain_label("")
        self.words.setWordWrap(True)
        self.open = QPushButton(_("Open it again"))
        self.open.clicked.connect(lambda: self._end(self.wanted))
        self.dismiss = QPushButton(_("Dismiss"))
        self.dismiss.setToolTip(_("It stays in the menu File, Earlier sessions"))
        self.dismiss.clicked.connect(lambda: self._end(self.unwanted))
        row = fill(QHBoxLayout(self), (self.words, 1), self.open, self.dismiss)
        row.setContentsMargins(6, 2, 6, 2)
        self.hide()

    @property
    def offered(self) -> KeptWork | None:
        """What is offered and not yet answered."""
        return self._work

    def offer(self, work: KeptWork) -> None:
        """Offer to open a session again."""
        self._work = work
        self.words.setText(
            _(
                "Visformer ended unexpectedly. The session “{sentence}” was kept.",
                sentence=title_of(work),
            )
        )
        self.show()

    def _end(self, signal: SignalInstance) -> None:
        work, self._work = self._work, None
        self.hide()
        if work is not None:
            signal.emit(work)


def title_of(work: KeptWork) -> str:
    """Return what a kept session is called by: its sentence, cut."""
    text = visible(work.recipe.wanted.sentence[: MOST_SAID + 1])
    return text if len(text) <= MOST_SAID else f"{text[:MOST_SAID]}…"
