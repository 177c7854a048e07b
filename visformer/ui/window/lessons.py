"""Lessons in the window: walked, left, shown beside the picture; menu and editor."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from PySide6.QtCore import QModelIndex, QObject, QSignalBlocker, Qt, QTimer
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
from visformer.language import _, ngettext, tag
from visformer.pictures.selection import AttentionCell
from visformer.pictures.token_names import word
from visformer.session.lesson import Lesson, LessonStop, Setting, parsed, read_lesson
from visformer.session.lesson_walk import (
    is_done,
    is_there,
    look,
    moved_stop,
    on_rails,
    run_stop,
    stop_titles,
    written_head,
    written_stop,
)
from visformer.session.state import State
from visformer.ui.bars.first_steps import remove_first_steps
from visformer.ui.bars.lesson_panel import LessonPanel, StopWords, Subtitle
from visformer.ui.changed import Changed
from visformer.ui.layout import SingleShot, fill
from visformer.ui.look import theme
from visformer.ui.look.theme import has_motion
from visformer.ui.widgets.export import ask_where
from visformer.ui.widgets.plain_label import paragraph
from visformer.ui.window.presenting import Presentation
from visformer.ui.window.session_files import NOTHING, SessionFiles
from visformer.ui.window.window_parts import WindowParts
from visformer.values.facts import SIDES
from visformer.values.trace import Trace
from visformer.words import probability

FLASH_MS, FLASHES = 220, 6  # the true cell: shown, not shown, ...


class LessonWalk(QObject):
    """The lesson that is open: its stops set the window, the user goes on and back."""

    def __init__(self, window: WindowParts, presentation: Presentation) -> None:
        super().__init__(window)
        self._window, self._presentation = window, presentation
        self.lesson: Lesson | None = None
        self.panel, self.subtitle = LessonPanel(), Subtitle()
        self._walked: Sequence[int] = ()  # numbers of the stops, from 0
        self._at = 0  # in them
        self._setting: Setting | None = None  # the stop's, or that of its task
        self._settled = False  # its run is there, and is looked at as it says
        self._rails: tuple[object, ...] = ()  # of the State as the stop has left it
        self._open = False  # a question is not answered yet
        self._hidden = False  # what is not yet written, as long as that answers it
        # of which run, the true cell and the guess
        self._answer: tuple[Trace, AttentionCell, AttentionCell | None] | None = None
        self._done, self._begun = False, 0  # the task; at which step it began
        self._changed = Changed()
        self._later = SingleShot(self, self._settle)
        self._flash, self._flashes = QTimer(self, interval=FLASH_MS), 0
        self._flash.timeout.connect(self._flash_on)
        self.panel.walked.connect(lambda by: self.forward() if by > 0 else self.back())
        self.panel.returned.connect(lambda: self._go(self._at))
        self.panel.closed.connect(self.close)
        self.panel.planned.connect(self._plan)
        presentation.turned = self._turned

    # ---- opened and closed -------------------------------------------------------

    def begin(self, lesson: Lesson, at: int = 0) -> None:
        """Walk a lesson from a stop on."""
        remove_first_steps(self._window)
        self._name(lesson)
        self._plan(0, at)

    def take_over(self, other: "LessonWalk") -> None:
        """Go on with the lesson of another window, in the language in use by now."""
        before = other.stop
        if other.lesson is None or before is None:
            return
        lesson, minutes = _translated(other.lesson), other.panel.plans.currentData()
        self._name(lesson)
        self.panel.plans.setCurrentIndex(self.panel.plans.findData(minutes))
        self._walked = lesson.plans.get(minutes, range(len(lesson.stops)))
        self._at = min(other._at, len(self._walked) - 1)
        stop = self.stop
        assert stop is not None
        if stop.setting != before.setting:  # the words are of another run
            self._go(self._at, answered=bool(before.ask) and not other._open)
            return
        self._setting, self._settled = other._setting, other._settled
        self._rails, self._begun, self._done = other._rails, other._begun, other._done
        self._open, self._hidden = other._open, other._hidden
        self._answer = other._answer
        self._turned()
        self._later.start()
        if other._flash.isActive():
            self._flashes = other._flashes
            self._flash.start()

    def _name(self, lesson: Lesson) -> None:
        self.lesson = lesson
        minutes = {
            at: ngettext("{n} minute", "{n} minutes", at) for at in sorted(lesson.plans)
        }
        self.panel.name(lesson.title, {0: _("all stops"), **minutes})
        if lesson.newer:
            words = _(
                "This lesson is of a newer version: what is not known here is left out."
            )
            self._window.session.set(notice=words)

    def close(self) -> None:
        """End the lesson; what it has set stays."""
        if self._hidden:
            self._open = False
            self._look()
        self.lesson = self._setting = None
        self._flash.stop()
        self._dress()

    def _plan(self, minutes: int, at: int = 0) -> None:
        assert self.lesson is not None
        whole = range(len(self.lesson.stops))
        self._walked = self.lesson.plans.get(minutes, whole)
        self._go(at)

    @property
    def stop(self) -> LessonStop | None:
        """The stop at which the lesson stands."""
        if self.lesson is None:
            return None
        return self.lesson.stops[self._walked[self._at]]

    @property
    def is_settled(self) -> bool:
        """Whether the stop's run is there, and is looked at as the stop says."""
        return self._settled

    # ---- walked ------------------------------------------------------------------

    def forward(self) -> None:
        """Answer the question, do the task, or go to the next stop."""
        stop = self.stop
        if stop is None:
            self._window.transport.forward()
        elif self._strayed and not self._does:
            self._go(min(self._at + 1, len(self._walked) - 1))
        elif self._open:
            self._reveal(None)
        elif self._does and self._settled:
            self._do()
        elif self._at + 1 < len(self._walked):
            self._go(self._at + 1)

    def back(self) -> None:
        """Go to the stop before."""
        if self.lesson is None:
            self._window.transport.back()
        else:
            self._go(max(0, self._at - 1))

    def _go(self, at: int, *, answered: bool = False) -> None:
        """Set the window as a stop says; its words stand there at once.

        ``answered``: its question is, once the run is there.
        """
        self._at = at
        stop = self.stop
        assert stop is not None
        self._flash.stop()
        self._answer = None
        self._open, self._done = bool(stop.ask) and not answered, False
        self._window.transport.pause()
        self._set(stop.setting)

    def _set(self, setting: Setting) -> None:
        """Begin to set the window; what needs the run follows once that is there."""
        self._setting, self._settled = setting, False
        window = self._window
        if setting.recorded:
            if not is_there(window.session.state, setting, window.shown_file()):
                window.open(setting.path)
        else:
            window.source.setText(setting.run.sentence)
            window.reference.setText(setting.run.reference)
            window.guarded(lambda: window.session.do(run_stop, setting))
        self._look()
        self._dress()
        self._later.start()

    def _look(self) -> None:
        """Look at the run as is said; a question hides the row of its answer."""
        stop, setting = self.stop, self._setting
        assert stop is not None
        assert setting is not None
        steps, answer = setting.looked.steps, stop.answer
        hides = self._open and answer is not None and answer.step is not None
        session = self._window.session
        state = look(session.state, setting, steps - hides if steps else None)
        ahead = state.look.ahead or self._hidden
        self._hidden = hides and ahead
        look_now = replace(state.look, ahead=ahead and not hides)
        session.go(replace(state, look=look_now))
        self._rails = on_rails(session.state)
        self._begun = session.state.step

    def _settle(self) -> None:
        """Look at the run once it is there; then notice what the user does."""
        stop, setting, window = self.stop, self._setting, self._window
        state = window.session.state
        if stop is None or setting is None:
            return
        if not self._settled:
            if not is_there(state, setting, window.shown_file()):
                return
            self._settled = True
            self._done |= stop.do is not None and setting == stop.do.setting
            try:
                setting.looked.fit(state)
            except InputError as error:
                window.session.set(error=str(error))
            self._look()
            self._enlarge(setting)
            if setting == stop.setting and not self._open and self._answer is None:
                self._reveal(None)
        elif self._open and stop.answer is not None and state.locked is not None:
            self._reveal(state.locked)
        elif stop.do is not None and self._does and not self._open:
            self._done = is_done(state, stop.do, self._begun)
            if self._done:
                self._rails = on_rails(state)
        self._dress()

    def _enlarge(self, setting: Setting) -> None:
        window = self._window
        if self._presentation.on:
            return
        view = window.tabs.shown
        if not setting.large or view is None:
            window.large.restore()
            return
        picture = view.main_picture() or next(iter(window.large.pictures()), None)
        if picture is not None:
            window.large.enlarge(picture)

    @property
    def _does(self) -> bool:
        """Whether a task is to be done: in any way, so that none leaves the lesson."""
        stop = self.stop
        return stop is not None and stop.do is not None and not self._done

    @property
    def _strayed(self) -> bool:
        """Whether the window is set otherwise than the lesson has left it."""
        if self.stop is None or not self._settled:
            return False
        return self._rails != on_rails(self._window.session.state)

    # ---- asked and done ----------------------------------------------------------

    def _reveal(self, guess: AttentionCell | None) -> None:
        """Answer the question: the true cell flashes beside the guess, if any."""
        stop, session = self.stop, self._window.session
        assert stop is not None
        self._open = False
        if stop.answer is None or session.state.trace is None or not self._settled:
            self._dress()
            return
        self._look()
        trace = session.state.visible
        assert trace is not None
        try:
            truth = stop.answer.cell(trace)
        except InputError as error:
            session.set(error=str(error))
            return
        assert truth is not None
        guessed = None if guess is None else _guessed(guess, truth)
        self._answer = trace, truth, guessed
        self._flashes = FLASHES if has_motion() else 0
        self._flash.start()
        self._flash_on()

    def _flash_on(self) -> None:
        """Show the true cell and the guess in turn; the true one stays."""
        assert self._answer is not None
        _trace, truth, guess = self._answer
        on = self._flashes % 2 == 0
        self._flashes -= 1
        session = self._window.session
        session.set(locked=truth if on else (None if guess == truth else guess))
        if self._flashes < 0:
            self._flash.stop()
            session.set(locked=truth)
        self._rails = on_rails(session.state)
        self._dress()

    def _do(self) -> None:
        """Do the task for the user."""
        stop, session = self.stop, self._window.session
        assert stop is not None
        assert stop.do is not None
        task = stop.do
        if task.setting is None:
            session.set(step=self._begun + task.steps)
            self._done = True  # also where the run ends before
            self._dress()
        else:
            self._set(task.setting)

    # ---- shown -------------------------------------------------------------------

    def draw(self, state: State) -> None:
        """Follow the State, after it is drawn: it may be what was waited for."""
        if self.lesson is not None:
            self._later.start()

    def _turned(self) -> None:
        """Follow the presentation, which has begun or ended."""
        if self._setting is not None and self._settled:
            self._enlarge(self._setting)
        self._dress()

    def _dress(self) -> None:
        """Show the words where they are seen."""
        stop, presenting = self.stop, self._presentation.on
        elsewhere = presenting and self._presentation.elsewhere
        self.panel.setVisible(stop is not None and (elsewhere or not presenting))
        self.subtitle.setVisible(stop is not None and presenting)
        self._window.large.be_brief(brief=stop is not None and presenting)
        if stop is None:
            return
        words = self._words(stop, notes=elsewhere)
        if self._changed("words", words):
            self.panel.say(words)
            self.subtitle.say(words)

    def _words(self, stop: LessonStop, *, notes: bool) -> StopWords:
        return StopWords(
            title=stop.title,
            text=stop.text,
            question=stop.ask,
            answer=_answer_words(stop, *self._answer) if self._answer else "",
            after="" if self._open else stop.after,
            task="" if stop.do is None or self._open else stop.do.words,
            done=self._done,
            notes=stop.notes if notes else "",
            place=_("stop {n} of {of}", n=self._at + 1, of=len(self._walked)),
            first=self._at == 0,
            last=self._at + 1 == len(self._walked),
            strayed=self._strayed,
            busy=self._does,
        )


def _guessed(guess: AttentionCell, truth: AttentionCell) -> AttentionCell:
    """Return the guess in the row that was asked about.

    A click on a source token is on a row of the encoder: the token is meant.
    """
    other = guess.kind == "encoder" != truth.kind
    return truth._replace(key=guess.query if other else guess.key)


def _answer_words(
    stop: LessonStop, trace: Trace, truth: AttentionCell, guess: AttentionCell | None
) -> str:
    looked = stop.answer
    assert looked is not None
    layer, head = int(looked.given["layer"]) - 1, int(looked.given["head"]) - 1
    weights = trace.attention(truth.kind, layer, head)[truth.query]
    side = SIDES[truth.kind][1]

    def said(cell: AttentionCell) -> tuple[str, str]:
        return word(trace, side, cell.key), probability(float(weights[cell.key]))

    token, weight = said(truth)
    if guess is None or guess == truth:
        return _("“{token}”: {weight}.", token=token, weight=weight)
    other, less = said(guess)
    return _(
        "“{token}”: {weight}. The guess, “{other}”: {less}.",
        token=token,
        weight=weight,
        other=other,
        less=less,
    )


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


def _translated(lesson: Lesson) -> Lesson:
    """Return a bundled lesson in the language in use, any other as it is."""
    path = Path(lesson.path)
    if not _is_bundled(lesson.path):
        return lesson
    return next(
        (read_lesson(one) for one in bundled_lessons() if one.name == path.name), lesson
    )


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
