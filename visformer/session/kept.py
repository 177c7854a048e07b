"""Kept sessions on disk: a folder for each window, so that windows meet nowhere.

A folder holds ``work.json`` and, unless they are too large, the runs in a trace file
that it names; written in this order: new runs, facts, old runs away. A kill at any
moment leaves facts and the runs that belong to them. A lock, which the system drops
when its process ends, tells the folders of living windows from those left behind.
"""

import contextlib
import logging
import math
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

import msgspec

from visformer.engine.messages import Open
from visformer.errors import InputError, VisformerError, stack_words
from visformer.files import read_regular, written_whole
from visformer.session.recipe import (
    LOOKED,
    Recipe,
    edits_of,
    read_recipe,
    tree_of,
    wanted_of,
    written,
)
from visformer.session.run import Run, Wish, parent_of
from visformer.session.runs import is_answered
from visformer.session.state import State
from visformer.trace_file.saved_session import SavedRun, SavedSession
from visformer.trace_file.stored_facts import RunSelection
from visformer.trace_file.trace_file import write_session
from visformer.values.memo import same

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

MOST_KEPT = 5  # folders of windows that have ended
MOST_RUN_BYTES = 20_000_000  # of the runs that are kept beside the recipe
MOST_FACTS = 64_000_000  # bytes of work.json
FACTS, LOCK = "work.json", "lock"


def settled(state: State) -> State:
    """Return a State whose wish is that of the run on screen.

    A wish that was refused, or is being made, is left out.
    """
    made = None if state.recorded or state.run is None else state.run.request
    if made is None or is_answered(state):
        return state
    return replace(state, wish=Wish.of(made), intervention=made.intervention)


def runs_of(state: State, most: float = math.inf) -> list[Run]:
    """Return the runs of a session; none while the one on screen is not there.

    Those on screen come first where they take more than ``most`` bytes; without room
    for all of these, none is returned.
    """
    if not is_answered(state):
        return []
    runs = [run for run in state.tree if run.trace is not None]
    kept = [run for run in runs if run.key in (state.shown, state.beside)]
    left = most - sum(run.bytes for run in kept)
    if left < 0:
        return []
    for run in reversed(runs):
        if run not in kept and run.bytes <= left:
            left -= run.bytes
            kept.append(run)
    return [run for run in runs if run in kept]


def session_of(state: State, runs: Sequence[Run]) -> SavedSession | None:
    """Return the runs of ``runs_of`` as a file holds them; None for none."""
    keys = [run.key for run in runs]
    looked = RunSelection(
        kind=state.kind,
        layer=state.layer,
        head=state.head,
        step=state.step,
        tab=state.tab,
    )
    saved = []
    for run in runs:
        assert run.trace is not None
        parent = parent_of(state.runs, run, among=keys)
        one = SavedRun(
            trace=run.trace,
            name=run.name,
            note=run.note,
            selection=looked if run.key == state.shown else run.selection,
            parent=None if parent is None else keys.index(parent.key),
        )
        saved.append(one)
    if not saved:
        return None
    at = keys.index(state.shown) if state.shown in keys else 0
    pinned = keys.index(state.pinned) if state.pinned in keys else None
    return SavedSession(runs=tuple(saved), at=at, baseline=pinned)


def recipe_of(state: State, runs: Sequence[Run] = ()) -> Recipe | None:
    """Return the recipe of what is on screen; None where nothing is.

    Edits name those of ``runs`` that came of them. While a session is being opened
    again, its own recipe is returned.
    """
    going = state.awaiting.newest(Open)
    waits = going is not None and not going.ended
    if waits and state.opening is not None and state.opening.resume is not None:
        return state.opening.resume
    if not state.wish.sentence:
        return None
    opened, keys, tree = state.opened, [run.key for run in runs], state.tree
    numbers = {run.key: at for at, run in enumerate(tree)}
    return Recipe(
        wanted=wanted_of(state.wish, state.intervention, state.step),
        undo=edits_of(state.history.undo, keys),
        redo=edits_of(state.history.redo, keys),
        path=opened.path if opened is not None else "",
        overrides=state.answers.about(opened.path) or () if opened is not None else (),
        digest=opened.model.digest if opened is not None else "",
        # undo may have led to a run of the file from which a session goes on
        recorded=state.recorded
        and not (state.history.undo or state.history.redo)
        and not state.awaiting.decoding,
        tree=tree_of(tree, keys),
        pinned=numbers.get(state.pinned or 0),
        **{name: getattr(state, name) for name in LOOKED},
    )


def looked_at(state: State, recipe: Recipe) -> State:
    """Return a State that is looked at as a recipe says.

    How tokens are written, and whether later ones are shown, is the user's own choice.
    """
    own, looked = state.look, {name: getattr(recipe, name) for name in LOOKED}
    looked["look"] = replace(recipe.look, ahead=own.ahead, pieces=own.pieces)
    return replace(state, **looked)


def goes_on_with(state: State, recipe: Recipe) -> bool:
    """Tell whether all that a recipe was kept of is open again, and is worked on."""
    if recipe.recorded:
        return state.wish.sentence == recipe.wanted.sentence
    opened = state.opened
    same_model = opened is not None and opened.model.digest == recipe.digest
    return same_model and state.opening is None


class WorkFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What ``work.json`` says."""

    recipe: msgspec.Raw
    saved: float  # seconds since 1970
    runs: str = ""  # the trace file beside it; "" for none
    file: str = ""  # the session file that the user saved it to, or opened
    closed: bool = False  # its window ended well, or the user does not want it
    tries: int = 0  # how often it was opened again without any edit since
    continues: str = ""  # the folder of the session that goes on in this one


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptWork:
    """What a window that has ended left behind."""

    folder: Path
    recipe: Recipe
    facts: WorkFacts

    @property
    def runs(self) -> Path | None:
        """The trace file with its runs; None where only the recipe was kept."""
        return self.folder / self.facts.runs if self.facts.runs else None

    @property
    def crashed(self) -> bool:
        """Whether it is to be offered: what ended badly twice is not."""
        return not self.facts.closed and not self.facts.tries


class OwnFolder:
    """The folder of a living window."""

    def __init__(self, root: Path) -> None:
        """Make and lock it; OSError where that cannot be."""
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _turn(root):
            newest = max(map(_order, _folders(root)), default=(0, ""))
            self.path = root / f"{newest[0] + 1}-{os.getpid()}-{os.urandom(2).hex()}"
            self.path.mkdir(mode=0o700)
            self._lock = _locked(self.path / LOCK, wait=True)
        self._number, self._name = 0, ""
        self._runs: tuple[object, ...] = ()

    def write(
        self, recipe: Recipe, session: SavedSession | None, facts: WorkFacts
    ) -> None:
        """Keep a recipe, and the runs of a session if they are new.

        Raises OSError or InputError where it cannot be written.
        """
        before = self._name
        runs = () if session is None else (session.shown.trace, *session.traces)
        if not same(runs, self._runs):
            self._runs, self._name = (), ""
            if session is not None:
                self._number += 1
                path = self.path / f"runs-{self._number}.vis"
                try:
                    write_session(
                        session.runs,
                        path,
                        session.at,
                        baseline=session.baseline,
                        private=True,
                    )
                except InputError:
                    # the recipe is small: it may fit where the runs do not
                    self._write_facts(recipe, facts, "")
                    raise
                self._runs, self._name = runs, path.name
        try:
            self._write_facts(recipe, facts, self._name)
        except OSError:
            if self._name == before:
                raise
            self._give_up_runs()
            self._write_facts(recipe, facts, "")
            raise
        if before and before != self._name:
            with contextlib.suppress(OSError):
                (self.path / before).unlink()

    def _give_up_runs(self) -> None:
        """Delete the runs just written, which leave no room for the recipe."""
        with contextlib.suppress(OSError):
            (self.path / self._name).unlink()
        self._runs, self._name = (), ""

    def _write_facts(self, recipe: Recipe, facts: WorkFacts, runs: str) -> None:
        raw = msgspec.Raw(written(recipe))
        whole = msgspec.structs.replace(facts, recipe=raw, runs=runs)
        _write(self.path / FACTS, whole)

    def close(self) -> None:
        """Give the folder up; it stays."""
        self._lock.close()


def left_behind(root: Path) -> list[KeptWork]:
    """Return what windows that have ended left behind, the newest first.

    What cannot be read is passed over, and what has gone on in another window.
    """
    found, continued = [], set()
    for folder in _folders(root):
        with _turn(root), _ended(folder) as ended:
            work = _read(folder)
        if work is not None:
            continued.add(work.facts.continues)
            found += [work] if ended else []
    stands = (work for work in found if work.folder.name not in continued)
    return sorted(stands, key=lambda work: -work.facts.saved)


def mark(work: KeptWork, *, tried: bool = False, closed: bool = False) -> KeptWork:
    """Note that it is opened again, or not wanted; OSError where that cannot be."""
    tries = work.facts.tries + tried
    facts = msgspec.structs.replace(
        work.facts, tries=tries, closed=closed or work.facts.closed
    )
    _write(work.folder / FACTS, facts)
    return KeptWork(folder=work.folder, recipe=work.recipe, facts=facts)


def prune(root: Path) -> None:
    """Delete all but the newest folders of windows that have ended.

    One that has gone on in another window stays only while that window lives, which may
    yet turn to other work.
    """
    with _turn(root):
        ended, continued = {}, set()
        for folder in sorted(_folders(root), key=_order):
            with _ended(folder) as has_ended:
                work = _read(folder)
            if has_ended:
                ended[folder] = work
            elif work is not None:
                continued.add(work.facts.continues)
        over = {work.facts.continues for work in ended.values() if work is not None}
        stands = [f for f in ended if f.name not in over | continued]
        whole = [folder for folder in stands if (folder / FACTS).is_file()]
        kept = {*whole[-MOST_KEPT:], *(f for f in ended if f.name in continued - over)}
        for folder in ended.keys() - kept:
            shutil.rmtree(folder, ignore_errors=True)


def _order(folder: Path) -> tuple[int, str]:
    """Return a key that sorts folders as they were made, however clocks were set."""
    number = folder.name.partition("-")[0]
    return int(number) if number.isascii() and number.isdigit() else 0, folder.name


def _folders(root: Path) -> list[Path]:
    try:
        return [path for path in root.iterdir() if path.is_dir()]
    except OSError:
        return []


def _read(folder: Path) -> KeptWork | None:
    try:
        data = read_regular(folder / FACTS, MOST_FACTS)
        facts = msgspec.json.decode(data, type=WorkFacts)
        recipe = read_recipe(bytes(facts.recipe))
        inside = facts.runs in ("", Path(facts.runs).name)
    except (ValueError, VisformerError):
        return None
    if not inside:
        return None
    return KeptWork(folder=folder, recipe=recipe, facts=facts)


def _write(path: Path, facts: WorkFacts) -> None:
    with written_whole(path, private=True) as file:
        file.write(msgspec.json.encode(facts))


# ---- locks -----------------------------------------------------------------------


@contextlib.contextmanager
def _turn(root: Path) -> Iterator[None]:
    """Wait until no other window makes, reads or deletes folders."""
    with _locked(root / LOCK, wait=True):
        yield


@contextlib.contextmanager
def _ended(folder: Path) -> Iterator[bool]:
    """Tell whether the window of a folder has ended; it is held meanwhile."""
    try:
        lock = _locked(folder / LOCK, wait=False)
    except OSError:  # held, or not to be locked: it is left alone
        yield False
        return
    with lock:
        yield True


def _locked(path: Path, *, wait: bool) -> IO[bytes]:
    """Return an open file that no other process has locked; closing it gives it up."""
    file = open(  # noqa: SIM115 - it is held as long as the lock
        path, "ab", opener=lambda name, flags: os.open(name, flags, 0o600)
    )
    try:
        if sys.platform == "win32":
            file.seek(0)
            msvcrt.locking(
                file.fileno(), msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1
            )
        else:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        file.close()
        raise
    return file


log = logging.getLogger(__name__)
CLOSING_S = 5.0  # that a window's end may wait for the disk


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Work:
    """A State that is to be kept, and what is said of it."""

    state: State
    file: str = ""
    closed: bool = False
    tries: int = 0
    continues: str = ""


class Keeper:
    """Keeps the newest of what it is given; jobs are done in between, in order."""

    def __init__(self, root: Path, told: Callable[[str], None]) -> None:
        """Keep in a folder of ``root``; ``told`` hears of each writing: "" or why not.

        It is called on the keeper's thread, which starts with the first work.
        """
        self._root, self._told = root, told
        self._change = threading.Condition()
        self._work: Work | None = None
        self._jobs: list[Callable[[], None]] = []
        self._ending = False
        self._thread: threading.Thread | None = None
        self._folder: OwnFolder | None = None

    def keep(self, work: Work) -> None:
        """Write this soon, in place of what still waits to be written."""
        with self._change:
            self._work = work
            self._wake()

    def do(self, job: Callable[[], None]) -> None:
        """Do something on the keeper's thread; what it raises is only logged."""
        with self._change:
            self._jobs.append(job)
            self._wake()

    def close(self) -> None:
        """Write what waits, and end; a disk that hangs holds nobody for long."""
        with self._change:
            self._ending = True
            self._change.notify()
        if self._thread is not None:
            self._thread.join(CLOSING_S)

    def _wake(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._serve, name="keeper", daemon=True
            )
            self._thread.start()
        self._change.notify()

    def _serve(self) -> None:
        while True:
            with self._change:
                self._change.wait_for(lambda: self._work or self._jobs or self._ending)
                jobs, work = self._jobs, self._work
                self._jobs, self._work = [], None
                if not jobs and work is None:
                    break
            for job in jobs:
                _contained(job)
            if work is not None:
                self._told(self._write(work))
        if self._folder is not None:
            self._folder.close()

    def _write(self, work: Work) -> str:
        """Write; return why it could not be, or ""."""
        facts = WorkFacts(
            recipe=msgspec.Raw(b"{}"),
            saved=time.time(),
            file=work.file,
            closed=work.closed,
            tries=work.tries,
            continues=work.continues,
        )
        try:
            runs = runs_of(work.state, MOST_RUN_BYTES)
            recipe = recipe_of(work.state, runs)
            if recipe is None:
                return ""
            if self._folder is None:
                self._folder = OwnFolder(self._root)
                prune(self._root)
            self._folder.write(recipe, session_of(work.state, runs), facts)
        except OSError as error:
            return error.strerror or str(error)
        except VisformerError as error:
            return str(error)
        except Exception as error:  # the thread goes on: the next work may be kept
            log.error("the session was not kept: %s", stack_words(error))
            return type(error).__name__
        return ""


def _contained(job: Callable[[], None]) -> None:
    try:
        job()
    except Exception as error:
        log.error("a job of the keeper: %s", stack_words(error))
