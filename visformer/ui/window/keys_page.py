"""The page of keys: groups in columns, each key in a box."""

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QVBoxLayout,
    QWidget,
)

from visformer.language import N_, _, p_
from visformer.ui.layout import LeastColumn, LeastRow, LeastSize
from visformer.ui.look import theme
from visformer.ui.look.theme import Dressed
from visformer.ui.widgets.plain_label import PlainLabel, paragraph, plain_label

# keys, separated by ", ", as Qt names them or in words; what they do
KeyEntry = tuple[str, str]
WIDEST = 88  # lines of text
COLUMNS: tuple[tuple[tuple[str, tuple[KeyEntry, ...]], ...], ...] = (
    (
        (
            # i18n: the heading of the keys that step through the tokens
            N_("Steps"),
            (
                ("Enter", N_("in the source line: translate")),
                ("/", N_("to the source line, as Up from the pictures")),
                ("Up, Down", N_("in the source line: earlier sentences")),
                ("Right, Page Down", N_("one step forward")),
                ("Left, Page Up", N_("one step back")),
                ("Page Down, Page Up", N_("in a lesson: on, and to the stop before")),
                ("Home, End", N_("before the first step, to the last step")),
                ("Space", N_("play or pause")),
                ("Ctrl+.", N_("stop what the engine is doing")),
            ),
        ),
        (
            N_("Changes and files"),
            (
                (
                    "Ctrl+Z, Ctrl+Y",
                    N_(
                        "undo and redo what you changed: sentence, reference, chosen "
                        "tokens, changes of the run"
                    ),
                ),
                ("Ctrl+O", N_("open a checkpoint")),
                ("Ctrl+S", N_("save the session; Ctrl+Shift+S: under a name")),
                ("Ctrl+D", N_("reference, sampling, limit, speed")),
                ("F10, F1", N_("the menu; these keys")),
            ),
        ),
        (
            N_("Clicks"),
            (
                (N_("a cell"), N_("locks it")),
                (N_("a next token"), N_("chooses it instead")),
                (
                    N_("a source token"),
                    N_(
                        "what it reads, then which head reads another one from it; "
                        "by keyboard with Tab, arrows and Enter"
                    ),
                ),
            ),
        ),
    ),
    (
        (
            N_("What is looked at"),
            (
                (N_("Ctrl+1 to 8"), N_("the tabs, from Architecture to Diagnosis")),
                ("1, 2, 3", N_("encoder self, decoder self, cross attention")),
                ("M, A, T", N_("attention as a map, as arcs, as tinted text")),
                (N_("Ctrl+arrows"), N_("move through heads and layers")),
                (N_("Shift+arrows"), N_("move the locked cell")),
                ("[, ]", N_("previous and next stage of the Computation tab")),
                (N_("Alt+arrows"), N_("back to where you looked, and forward again")),
                ("Ctrl+T", N_("show or fold the next token")),
                ("Ctrl+B", N_("the run that this one is compared with beside it")),
            ),
        ),
        (
            # i18n: the heading of the keys for larger text
            N_("Size"),
            (
                (N_("F, double click"), N_("make a picture large, and put it back")),
                (
                    N_("Wheel, +, −, 0"),
                    N_(
                        "on a map: larger or smaller cells, 0 for all of them; "
                        "Ctrl+Wheel where the page scrolls"
                    ),
                ),
                (
                    N_("Ctrl+plus"),
                    N_("larger text; Ctrl+minus: smaller; Ctrl+0: usual"),
                ),
                ("F11", N_("full screen")),
            ),
        ),
        (
            N_("Presenting"),
            (
                ("F5", N_("present one picture alone")),
                ("B, .", N_("while presenting: black, and the picture again")),
                (
                    "Esc",
                    N_(
                        "end the presentation, put the large picture back, unlock the "
                        "cell, close a message"
                    ),
                ),
            ),
        ),
    ),
)


class KeyCap(PlainLabel):
    """A key, in a box that the style sheet paints."""


class KeysPage(Dressed, QDialog):
    """Lists the keys in two columns; scrolls where there is little room."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(p_("keyboard", "Keys"))
        page, self._titles = QWidget(), list[QLabel]()
        self._columns = LeastRow(page)
        for groups in COLUMNS:
            column = LeastColumn()
            column.setSpacing(theme.gap(self))
            for at, (title, entries) in enumerate(groups):
                column.addSpacing(theme.gap(self, 2) if at else 0)
                column.addWidget(self._title(_(title)))
                column.addLayout(self._entries(entries))
            column.addStretch(1)
            self._columns.addLayout(column, 1)
        self._area = LeastSize()
        self._area.setWidget(page)
        self._area.setFocusPolicy(Qt.FocusPolicy.StrongFocus)  # arrows scroll it
        close = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        close.rejected.connect(self.reject)
        close.button(QDialogButtonBox.StandardButton.Close).setText(_("Close"))
        layout = QVBoxLayout(self)
        layout.addWidget(self._area, 1)
        layout.addWidget(close)
        self.dress()
        self.resize(self.sizeHint())

    def _title(self, text: str) -> QLabel:
        title = plain_label(text)
        self._titles.append(title)
        return title

    def _entries(self, entries: tuple[KeyEntry, ...]) -> QGridLayout:
        grid, top = QGridLayout(), Qt.AlignmentFlag.AlignTop
        grid.setColumnStretch(1, 1)
        grid.setVerticalSpacing(theme.gap(self) // 2)
        grid.setHorizontalSpacing(theme.gap(self, 2))
        for row, (keys, what) in enumerate(entries):
            caps = QHBoxLayout()
            caps.setSpacing(theme.gap(self) // 2)
            names = _names(keys)
            for name in names:
                cap = KeyCap(self)
                cap.setTextFormat(Qt.TextFormat.PlainText)
                cap.setText(name)
                caps.addWidget(cap, 0, top)
            caps.addStretch(1)
            words = paragraph(", ".join(names), _(what))
            words.setAlignment(top)
            grid.addLayout(caps, row, 0)
            grid.addWidget(words, row, 1)
        return grid

    def sizeHint(self) -> QSize:
        parent, line = self.parentWidget(), self.fontMetrics().height()
        most = QSize(WIDEST * line, 10_000)
        if parent is not None:
            most = most.boundedTo(parent.size() - QSize(2 * line, 2 * line))
        page = self._area.widget()
        layout = page.layout() if page is not None else None
        inside = most.width() - 3 * line
        high = layout.totalMinimumHeightForWidth(inside) if layout is not None else 0
        return QSize(most.width(), min(most.height(), high + 5 * line))

    def _dress(self) -> None:
        for title in self._titles:
            title.setFont(theme.sized(self.font(), theme.TITLE, bold=True))
        self._columns.setSpacing(theme.gap(self, 6))


def _names(keys: str) -> list[str]:
    """Return what is written for keys: their names in Qt, or our own words."""
    form = QKeySequence.SequenceFormat.NativeText
    known = [QKeySequence(key).toString(form) for key in keys.split(", ")]
    return known if all(known) else _(keys).split(", ")
