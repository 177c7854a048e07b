"""Keeper: writes what is worked on, on a thread of its own."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from visformer.errors import VisformerError, stack_words
from visformer.session.kept import OwnFolder, WorkFacts, prune
from visformer.session.recipe import recipe_of
from visformer.session.saved_work import runs_of
from visformer.session.state import State

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
            recipe = recipe_of(work.state)
            if recipe is None:
                return ""
            if self._folder is None:
                self._folder = OwnFolder(self._root)
                prune(self._root)
            self._folder.write(recipe, runs_of(work.state), facts)
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
