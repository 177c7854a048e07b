"""The window's session: saved to a file, kept while it is worked on, offered again."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Qt, Signal, SignalInstance
from PySide6.QtWidgets import QFileDialog

from visformer.errors import InputError, VisformerError, brief, stack_words
from visformer.file_kinds import recognised
from visformer.files import check_suffix, save_result
from visformer.language import N_, _, ngettext
from visformer.session import openings
from visformer.session.kept import (
    Keeper,
    KeptWork,
    Work,
    goes_on_with,
    left_behind,
    looked_at,
    mark,
    recipe_of,
    runs_of,
    session_of,
    settled,
)
from visformer.session.lesson import Lesson, read_lesson
from visformer.session.recipe import Recipe, read_recipe, written
from visformer.session.runs import first_step
from visformer.session.sharing import runs_json, saved
from visformer.session.state import Session, State
from visformer.text import visible
from visformer.trace_file.saved_session import SavedRun, SavedSession
from visformer.trace_file.trace_file import read_session, write_session
from visformer.ui.layout import SingleShot
from visformer.ui.widgets.export import ask_where
from visformer.ui.window.window_parts import WindowParts
from visformer.values.facts import Kind
from visformer.values.memo import same

KEEP_MS = 2000  # after a change, until it is kept
DECODING_S = 8.0  # between two writings while a run grows
MOST_TITLE = 60  # characters of a name in the title
PATTERN = "*.vis"
NOTHING = N_("There is nothing to save yet: translate a sentence first.")


class SessionFiles(QObject):
    """Writes on a thread of its own; nothing is asked when the window closes."""

    _told = Signal(str)  # why the session could not be kept, or ""
    _done = Signal(object)  # what is left to do on the window's thread

    def __init__(self, window: WindowParts, root: Path | None) -> None:
        """Keep the session under ``root``; None keeps nothing."""
        super().__init__(window)
        self._window, self._root = window, root
        self.path = ""  # of the session's file
        self._saved: object = window.session.state.revision
        self._tried: object = None  # the revision of a session opened again
        self._again: KeptWork | None = None  # that session
        self._continues = ""  # its folder, while it goes on here
        self._seen: tuple[object, ...] = ()
        self._kept, self._kept_at, self._failed = False, 0.0, False
        self._closed = False
        self.earlier: list[KeptWork] = []
        self._keeper = Keeper(root or Path(), self._tell)
        self._timer = SingleShot(self, self._keep, KEEP_MS)
        queued = Qt.ConnectionType.QueuedConnection
        self._told.connect(self._hear, queued)
        self._done.connect(lambda action: action(), queued)

    # ---- the title, and what is kept -----------------------------------------------

    @property
    def edited(self) -> bool:
        """Whether there is work that is in no file."""
        return self._window.session.state.revision is not self._saved

    def draw(self, state: State) -> None:
        """Name what is open; keep what has changed, soon."""
        edited = self.edited and state.trace is not None
        title = self._title(state).replace("[*]", "[*][*]")  # of a file's own name
        self._window.setWindowTitle(f"{title}[*]")
        self._window.setWindowModified(edited)
        look = *state.place, state.scale, state.look
        run = state.runs, state.wish, state.intervention, state.history, state.opened
        if not same(self._seen, (*run, *look)):
            self._seen = (*run, *look)
            worked = self.edited or bool(state.trail.back) or self._kept
            if self._root is not None and worked and not self._timer.isActive():
                self._timer.start()

    def _title(self, state: State) -> str:
        file = _brief(Path(self.path).name)
        model = _brief(state.model.name) if state.model is not None else ""
        if model and state.opened is not None and state.opened.guessed_heads:
            model = ngettext(
                "{model} ({n} head assumed)",
                "{model} ({n} heads assumed)",
                state.opened.guessed_heads,
                model=model,
            )
        if file and model:
            return _("{file} - {model} - Visformer", file=file, model=model)
        if file or model:
            return _("{name} - Visformer", name=file or model)
        return "Visformer"

    def _keep(self) -> None:
        """Keep the session; a run that grows is kept less often."""
        state = self._window.session.state
        since = time.monotonic() - self._kept_at
        if state.awaiting.decoding and since < DECODING_S:
            self._timer.start()
            return
        self._give(state, closed=False)

    def _give(self, state: State, *, closed: bool) -> None:
        tried = state.revision is self._tried
        self._kept, self._kept_at = True, time.monotonic()
        self._keeper.keep(
            Work(
                state=state,
                file=self.path,
                closed=closed,
                tries=int(tried),
                continues=self._continued(state),
            )
        )

    def _continued(self, state: State) -> str:
        """Name the folder of a session opened again, until there is other work."""
        again = self._again
        goes_on = again is not None and goes_on_with(state, again.recipe)
        if self._continues and not goes_on:
            self._again = None
        self._continues = again.folder.name if again is not None and goes_on else ""
        return self._continues

    def _tell(self, reason: str) -> None:
        self._emit(self._told, reason)

    def _emit(self, signal: SignalInstance, value: object) -> None:
        try:
            signal.emit(value)
        except RuntimeError:  # the window is gone
            return

    def _hear(self, reason: str) -> None:
        """Say once that nothing can be kept, until it can be again."""
        if reason and not self._failed:
            words = _(
                "The session cannot be kept ({reason}). Save it to a file: Ctrl+S.",
                reason=_brief(reason),
            )
            self._window.session.set(notice=words)
        self._failed = bool(reason)

    def rest(self) -> None:
        """Take what is on screen for no work of the user's: nothing of it is kept."""
        self._saved = self._window.session.state.revision
        self._timer.stop()
        self.draw(self._window.session.state)

    def take_over(self, other: SessionFiles) -> None:
        """Go on with the files of another window on the same State."""
        self.path, self._saved = other.path, other._saved

    def close(self) -> None:
        """Keep the session as it is at the window's end, and end the thread."""
        if self._closed:
            return
        self._closed = True
        self._timer.stop()
        if self._kept or self._timer.isActive() or (self._root and self.edited):
            self._give(self._window.session.state, closed=True)
        offered = self._window.restore.offered
        if offered is not None:
            self._keeper.do(partial(_mark_closed, offered))
        self._keeper.close()

    # ---- files ---------------------------------------------------------------------

    def shown(self, session: SavedSession, path: str) -> None:
        """Take over a session file that was opened, its run being on screen."""
        self.path, self._again = path, None
        self._saved = self._window.session.state.revision
        if session.work:
            whole = not session.missing
            self._window.guarded(
                lambda: self._resume_file(read_recipe(session.work), whole=whole)
            )
        self.draw(self._window.session.state)

    def _resume_file(self, recipe: Recipe, *, whole: bool) -> None:
        """Go on with a file's session where its model is one that the user has used."""
        opened, session = self._window.session.state.opened, self._window.session
        same_model = opened is not None and opened.model.digest == recipe.digest
        if recipe.recorded or not (
            same_model or self._window.memory.knows(recipe.path)
        ):
            return
        session.do(openings.resume, recipe, whole=whole)
        self._saved = session.state.revision
        self._follow(recipe)

    def save(self) -> None:
        """Save to the session's file, or ask for one."""
        if self.path:
            self._write(self.path)
        else:
            self.save_as()

    def save_as(self) -> None:
        """Ask for a file, and save to it."""

        def ask() -> None:
            near = self.path or "session.vis"
            path = ask_where(self._window, _("Save the session"), near)
            if path:
                self._write(path)

        self._window.guarded(ask)

    def _write(self, path: str) -> None:
        state = settled(self._window.session.state)
        runs = runs_of(state)
        session, recipe = session_of(state, runs), recipe_of(state, runs)
        if session is None or recipe is None:
            self._window.session.set(error=_(NOTHING))
            return
        revision = self._window.session.state.revision

        def after() -> None:
            self.path, self._saved = path, revision

        self.write(path, partial(_write_session, session, recipe, path), after)

    def save_runs(self, keys: Sequence[int], suffix: str) -> None:
        """Ask for a file, and write runs: together in one session, or as JSON."""

        def ask() -> None:
            state = self._window.session.state
            runs = saved(state, keys) if suffix == "vis" else []
            path = ask_where(self._window, _("Save the runs"), f"runs.{suffix}")
            if not path:
                return
            check_suffix(Path(path), f".{suffix}")

            def write() -> None:
                if runs:
                    write_session(runs, Path(path))
                else:
                    save_result(Path(path), runs_json(state, keys).encode())

            self.write(path, write)

        self._window.guarded(ask)

    def save_text(self, title: str, near: str, make: Callable[[], str]) -> None:
        """Ask for a file with the suffix of ``near``, and write a text into it."""

        def ask() -> None:
            path = ask_where(self._window, title, near)
            if path:
                check_suffix(Path(path), Path(near).suffix)
                self.write(path, lambda: save_result(Path(path), make().encode()))

        self._window.guarded(ask)

    def write(
        self,
        path: str,
        write: Callable[[], None],
        after: Callable[[], None] = lambda: None,
    ) -> None:
        """Write a file on the keeper's thread, then say so, or why it could not be."""

        def tell(problem: str) -> None:
            if problem:
                self._window.session.set(error=problem)
                return
            after()
            words = _("Saved as {file}.", file=_brief(Path(path).name))
            self._window.session.set(notice=words)

        def job() -> None:
            problem = ""
            try:
                write()
            except VisformerError as error:
                problem = str(error)
            except (OSError, ValueError) as error:  # a name that is no text
                problem = brief(str(error))
            self._emit(self._done, partial(tell, problem))

        self._keeper.do(job)

    # ---- sessions that were kept ---------------------------------------------------

    def offer(self) -> None:
        """Look for what was left behind; offer it if its window ended badly."""
        root = self._root
        if root is None:
            return

        def look() -> None:
            try:
                found = left_behind(root)
            except OSError:
                found = []
            self._emit(self._done, partial(self._found, found))

        self._keeper.do(look)

    def _found(self, found: list[KeptWork]) -> None:
        self.earlier = found
        crashed = next((work for work in found if work.crashed), None)
        if crashed is not None:
            self._window.restore.offer(crashed)

    def dismiss(self, work: KeptWork) -> None:
        """Offer a session no more; it stays among the earlier ones."""
        self._keeper.do(partial(_mark_closed, work))

    def open_again(self, work: KeptWork) -> None:
        """Go on with a session that was kept; noted first, so that it cannot loop."""

        def read() -> None:
            session, problem = None, ""
            try:
                mark(work, tried=True)
                if work.runs is not None:
                    session = read_session(work.runs)
                    read_ahead(session.shown, work.recipe.kind)
            except (OSError, VisformerError) as error:
                problem = str(error)
            again = partial(self._show_again, work, session, problem)
            self._emit(self._done, again)

        self._keeper.do(read)

    def _show_again(
        self, work: KeptWork, session: SavedSession | None, problem: str
    ) -> None:
        window, recipe = self._window, work.recipe
        if session is not None:
            window.show_runs(session)
        elif recipe.recorded:
            if work.facts.file:
                window.open(work.facts.file)
            else:
                lost = _("The run of this session was too large to be kept.")
                window.session.set(error=problem or lost)
            return
        if recipe.recorded:
            if recipe.path:
                window.open(recipe.path)
        else:
            whole = session is not None and not session.missing
            window.session.do(openings.resume, recipe, whole=whole)
        self.path = work.facts.file
        self._saved, self._tried = object(), window.session.state.revision
        self._kept, self._again = True, work
        self._follow(recipe)
        if problem:
            window.session.set(error=problem)

    def _follow(self, recipe: Recipe) -> None:
        window = self._window
        window.source.setText(recipe.wanted.sentence)
        window.reference.setText(recipe.wanted.reference)
        tab = recipe.tab if window.tabs.has(recipe.tab) else "attention"
        window.session.go(replace(looked_at(window.session.state, recipe), tab=tab))


def choose_session(window: WindowParts, files: SessionFiles) -> None:
    """Ask for a session file, and open it."""
    path, _kind = QFileDialog.getOpenFileName(
        window, _("Open a session or a trace"), files.path, PATTERN
    )
    if path:
        window.open(path)


def _write_session(session: SavedSession, recipe: Recipe, path: str) -> None:
    write_session(
        session.runs,
        Path(path),
        session.at,
        baseline=session.baseline,
        work=written(recipe),
    )


def _mark_closed(work: KeptWork) -> None:
    try:
        mark(work, closed=True)
    except (OSError, InputError):
        return  # it is offered once more


def _brief(name: str) -> str:
    text = visible(name)
    return text if len(text) <= MOST_TITLE else f"{text[:MOST_TITLE]}…"


log = logging.getLogger(__name__)


class TraceOpener(QObject):
    """Opens one trace or lesson after another; only the newest is shown.

    A thread reads what the first picture needs; one that a slow disk holds up does not
    keep the program from ending.
    """

    _done = Signal(int, str, object)  # number, path; its session or its error

    def __init__(
        self,
        session: Session,
        show: Callable[[SavedSession | Lesson, str], None],
        parent: QObject,
    ) -> None:
        """``show`` takes what each file has, and its path, on the window's thread."""
        super().__init__(parent)
        self._session, self._show = session, show
        self._newest = 0
        self._busy = ""
        self._done.connect(self._finish, Qt.ConnectionType.QueuedConnection)

    def open(self, path: str) -> None:
        """Open a file, and show the run that was shown when it was saved."""
        self._newest += 1
        self._busy = _("opening {file}", file=_brief(Path(path).name))
        self._session.set(busy=self._busy, error="", notice="")
        state = self._session.state
        reading = threading.Thread(
            target=self._read, args=(self._newest, path, state.kind), daemon=True
        )
        reading.start()

    def abandon(self) -> None:
        """Show nothing of what is being opened."""
        self._newest += 1

    def _read(self, number: int, path: str, kind: Kind) -> None:
        found: SavedSession | Lesson | VisformerError
        try:
            if recognised(Path(path)).kind == "lesson":
                found = read_lesson(Path(path))
            else:
                found = read_session(Path(path))
                read_ahead(found.shown, kind)
        except VisformerError as error:
            found = error
        except Exception as error:  # the window must not wait for ever
            log.error("%s", stack_words(error))
            found = InputError(
                "{file} cannot be opened: {error}", file=Path(path).name, error=error
            )
        try:
            self._done.emit(number, path, found)
        except RuntimeError:  # the window was closed
            return

    def _finish(
        self, number: int, path: str, found: SavedSession | Lesson | VisformerError
    ) -> None:
        if number != self._newest:
            return
        if self._session.state.busy == self._busy:
            self._session.set(busy="")
        if isinstance(found, VisformerError):
            self._session.set(error=str(found))
        else:
            self._show(found, path)


def read_ahead(run: SavedRun, kind: Kind) -> None:
    """Read what the first picture is made of: all layers of ``kind``, one of others.

    Raises InputError where some of it is damaged.
    """
    trace, chosen = run.trace, run.selection
    shown = trace.until(first_step(trace, chosen))
    tuple(shown.steps)
    focused, at = (kind, 0) if chosen is None else (chosen.kind, chosen.layer)
    for one in shown.kinds:
        layers = range(shown.layers(one))
        for layer in layers if one == focused else layers[at : at + 1]:
            shown.attention_heads(one, layer)
