"""The menu of lessons, and lessons that are written in the window."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from PySide6.QtCore import QModelIndex, QSignalBlocker, Qt
from PySide6.QtGui import QAction, QKeySequence, QShortcut, QTextCursor
from PySide6.QtWidgets import (
    QAbstractItemView,
    QDialog,
    QFileDialog,
    QHBoxLayout,
    QListWidget,
    QListWidgetItem,
    QMenu,
    QPlainTextEdit,
    QPushButton,
    QVBoxLayout,
)

from visformer import paths
from visformer.errors import InputError
from visformer.files import save_result
from visformer.language import _, tag
from visformer.session.lesson import Lesson, parsed
from visformer.session.lesson_walk import (
    moved_stop,
    stop_titles,
    written_head,
    written_stop,
)
from visformer.ui.layout import SingleShot, fill
from visformer.ui.look import theme
from visformer.ui.widgets.export import ask_where
from visformer.ui.widgets.plain_label import paragraph
from visformer.ui.window.lessons import LessonWalk
from visformer.ui.window.session_files import NOTHING, SessionFiles
from visformer.ui.window.window_parts import WindowParts

IDLE_MS = 300  # without typing, until the text is read
LINES, LETTERS = 24, 58  # that are in sight, with the list
LESSONS = "lessons"  # a folder of the resources, with one for each language
NEW = "new.lesson.md"  # where no file is known yet


class LessonEditor(QDialog):
    """The text of a lesson; the window beside it stays in use."""

    def __init__(
        self, window: WindowParts, files: SessionFiles, walk: LessonWalk
    ) -> None:
        super().__init__(window)
        self._window, self._files, self._walk = window, files, walk
        self._path = ""
        self.setWindowTitle(_("Write a lesson"))
        self.text = QPlainTextEdit()
        self.text.setAccessibleName(_("text of the lesson"))
        self.text.setTabChangesFocus(True)
        self.stops = self._stop_list()
        self.fault = paragraph(_("what is wrong"))
        self.add = QPushButton(_("&Add this view as a stop"))
        self.preview = QPushButton(_("&Preview"))
        self.save = QPushButton(_("&Save"))
        self._idle = SingleShot(self, self._check, IDLE_MS)
        self.text.textChanged.connect(self._idle.start)
        self.text.textChanged.connect(self._list)
        self.text.cursorPositionChanged.connect(self._list)
        self.add.clicked.connect(self.add_view)
        self.preview.clicked.connect(self.show_stop)
        self.save.clicked.connect(lambda: window.guarded(self._save))
        for button in (self.add, self.preview, self.save):
            button.setAutoDefault(False)
        row = fill(QHBoxLayout(), self.add, None, self.preview, self.save, spacing=6)
        column = QVBoxLayout(self)
        both = fill(QHBoxLayout(), (self.stops, 1), (self.text, 3), spacing=6)
        column.addLayout(both, 1)
        column.addWidget(self.fault)
        column.addLayout(row)
        line = self.fontMetrics().height()
        self.resize(LETTERS * theme.gap(self, 2), LINES * line)

    def _stop_list(self) -> QListWidget:
        """Return the list of the stops' titles, in which they are moved."""
        stops = QListWidget()
        stops.setAccessibleName(_("stops"))
        stops.setToolTip(_("Drag a stop to move it, or press Alt+Up or Alt+Down."))
        stops.setDragDropMode(QAbstractItemView.DragDropMode.InternalMove)
        stops.setWordWrap(True)
        stops.setSpacing(2)
        stops.model().rowsMoved.connect(self._moved)
        stops.currentRowChanged.connect(self._go_to)
        stops.itemClicked.connect(lambda item: self._go_to(stops.row(item)))
        keys = {
            QKeySequence("Alt+Up"): lambda: self._shift(-1),
            QKeySequence("Alt+Down"): lambda: self._shift(1),
            QKeySequence(QKeySequence.StandardKey.Undo): self.text.undo,
            QKeySequence(QKeySequence.StandardKey.Redo): self.text.redo,
        }
        for key, act in keys.items():
            shortcut = QShortcut(key, stops)
            shortcut.setContext(Qt.ShortcutContext.WidgetShortcut)
            shortcut.activated.connect(act)
        return stops

    def begin(self, lesson: Lesson | None) -> None:
        """Add the view on screen to a lesson, or begin a new one with it."""
        if not self.isVisible():
            new = written_head(self._window.session.state, _("A new lesson"))
            self.text.setPlainText(new if lesson is None else lesson.written)
            own = lesson is not None and not _is_bundled(lesson.path)
            self._path = lesson.path if lesson is not None and own else ""
        newer = lesson is not None and lesson.newer
        self.text.setReadOnly(newer)
        for part in (self.add, self.save, self.stops):
            part.setEnabled(not newer)
        if not newer:
            self.add_view()
        self.show()

    def add_view(self) -> None:
        """Write the view on screen as the last stop."""
        state, file = self._window.session.state, self._window.shown_file()
        if state.trace is None:
            self._window.session.set(error=_(NOTHING))
            return
        lesson = self._check()
        before = None if lesson is None else lesson.stops[-1].setting
        stop = written_stop(state, before, _("A new stop"), file)
        words = _("Two or three sentences on what is seen.")
        text = self.text.toPlainText().rstrip("\n")
        self._write(f"{text}\n\n{stop}{words}\n")
        self.text.moveCursor(QTextCursor.MoveOperation.End)
        self._check()

    def show_stop(self) -> None:
        """Set the window as the stop at the cursor says."""
        lesson = self._check()
        if lesson is not None:
            self._walk.begin(lesson, max(0, self.stops.currentRow()))

    # ---- the list of the stops ---------------------------------------------------

    def _list(self) -> None:
        """List the titles of the text, and choose that of the stop at the cursor."""
        found = stop_titles(self.text.toPlainText())
        listed = [self.stops.item(at).text() for at in range(self.stops.count())]
        with QSignalBlocker(self.stops):
            if listed != [title for _line, title in found]:
                self.stops.clear()
                for _line, title in found:
                    item = QListWidgetItem(title, self.stops)
                    # another is dropped before or after it, not on it
                    item.setFlags(item.flags() & ~Qt.ItemFlag.ItemIsDropEnabled)
            line = self.text.textCursor().blockNumber()
            self.stops.setCurrentRow(sum(at <= line for at, _title in found) - 1)

    def _go_to(self, row: int) -> None:
        """Put the cursor on the title of a stop."""
        line, _title = stop_titles(self.text.toPlainText())[row]
        block = self.text.document().findBlockByNumber(line)
        self.text.setTextCursor(QTextCursor(block))
        self.text.centerCursor()

    def _shift(self, by: int) -> None:
        """Move the chosen stop up (-1) or down (1)."""
        row, nowhere = self.stops.currentRow(), QModelIndex()
        self.stops.model().moveRow(nowhere, row, nowhere, row + max(by, 2 * by))

    def _moved(
        self, _from: QModelIndex, row: int, _last: int, _to: QModelIndex, before: int
    ) -> None:
        """Move a stop's text as its title was: to ``before`` what was another row."""
        to = before - (before > row)
        self._write(moved_stop(self.text.toPlainText(), row, to))
        self._go_to(to)

    def _write(self, text: str) -> None:
        """Replace the text, which undo brings back."""
        cursor = QTextCursor(self.text.document())
        cursor.select(QTextCursor.SelectionType.Document)
        cursor.insertText(text)

    def _check(self) -> Lesson | None:
        """Read the text; say what is wrong with it."""
        lesson, fault = None, ""
        try:
            lesson = parsed(self.text.toPlainText(), Path(self._path or NEW))
        except InputError as error:
            fault = str(error)
        self.fault.setText(fault)
        self.preview.setEnabled(lesson is not None)
        return lesson

    def _save(self) -> None:
        """Write the text to its file, also where it is not finished."""
        path = self._path or ask_where(self, _("Save the lesson"), NEW)
        if not path:
            return
        if not path.endswith(paths.LESSON):
            raise InputError("The name of a lesson ends with “.lesson.md”.")
        self._path, text = path, self.text.toPlainText()
        self._files.write(path, lambda: save_result(Path(path), text.encode()))


# ---- the menu --------------------------------------------------------------------


def build_lessons_menu(
    window: WindowParts, files: SessionFiles, walk: LessonWalk, menu: QMenu
) -> None:
    """Offer the lessons that are bundled, in the language in use, and any other."""
    opened = menu.addAction(_("&Open a lesson…"))
    opened.triggered.connect(lambda _checked=False: choose_lesson(window))
    added = menu.addAction(_("&Add this view as a stop…"))

    def write() -> None:
        editor = window.findChild(LessonEditor) or LessonEditor(window, files, walk)
        editor.begin(walk.lesson)

    added.triggered.connect(lambda _checked=False: write())
    closed = menu.addAction(_("&Close the lesson"))
    closed.triggered.connect(lambda _checked=False: walk.close())
    first = menu.insertSeparator(opened)
    bundled: list[QAction] = []

    def show() -> None:
        closed.setEnabled(walk.lesson is not None)
        for entry in bundled:
            menu.removeAction(entry)
        bundled[:] = []
        for path in bundled_lessons():
            entry = QAction(_title(path).replace("&", "&&"), menu)
            act = partial(window.open, str(path))
            entry.triggered.connect(lambda _checked=False, act=act: act())
            menu.insertAction(first, entry)
            bundled.append(entry)

    menu.aboutToShow.connect(show)


def bundled_lessons() -> list[Path]:
    """Return the bundled lessons of the language in use, or the English ones."""
    folder, language = paths.resource(LESSONS), tag().partition("-")[0]
    found = sorted((folder / language).glob(f"*{paths.LESSON}"))
    return found or sorted((folder / "en").glob(f"*{paths.LESSON}"))


def _is_bundled(path: str) -> bool:
    return Path(path).is_relative_to(paths.resource(LESSONS))


def _title(path: Path) -> str:
    """Return a lesson's title without reading all of it."""
    with path.open(encoding="utf-8") as file:
        for line, _at in zip(file, range(10), strict=False):
            if line.startswith("title:"):
                return line.partition(":")[2].strip()
    return path.name


def choose_lesson(window: WindowParts) -> None:
    """Ask for a lesson, and open it."""
    path, _kind = QFileDialog.getOpenFileName(
        window, _("Open a lesson"), "", f"*{paths.LESSON}"
    )
    if path:
        window.open(path)
