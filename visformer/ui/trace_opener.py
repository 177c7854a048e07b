"""Opens trace files off the window's thread; until then the run on screen stays."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, Qt, Signal

from visformer.errors import InputError, VisformerError, stack_words
from visformer.language import _
from visformer.session.runs import first_step
from visformer.session.state import Session
from visformer.values.facts import Kind
from visformer.values.storage.saved_session import SavedRun, SavedSession
from visformer.values.trace_file import read_session

log = logging.getLogger(__name__)


class TraceOpener(QObject):
    """Opens one file after another; only the newest is shown.

    A thread reads what the first picture needs; one that a slow disk holds up does not
    keep the program from ending.
    """

    _done = Signal(int, str, object)  # number, path; its session or its error

    def __init__(
        self,
        session: Session,
        show: Callable[[SavedSession, str], None],
        parent: QObject,
    ) -> None:
        """``show`` takes each file's session and path, on the window's thread."""
        super().__init__(parent)
        self._session, self._show = session, show
        self._newest = 0
        self._busy = ""
        self._done.connect(self._finish, Qt.ConnectionType.QueuedConnection)

    def open(self, path: str) -> None:
        """Open a file, and show the run that was shown when it was saved."""
        self._newest += 1
        self._busy = _("opening {file}", file=Path(path).name)
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
        found: SavedSession | VisformerError
        try:
            found = read_session(Path(path))
            read_ahead(found.shown, kind)
        except VisformerError as error:
            found = error
        except Exception as error:  # the window must not wait for ever
            log.error("%s", stack_words(error))
            found = InputError(
                _(
                    "{file} cannot be opened: {error}",
                    file=Path(path).name,
                    error=error,
                )
            )
        try:
            self._done.emit(number, path, found)
        except RuntimeError:  # the window was closed
            return

    def _finish(
        self, number: int, path: str, found: SavedSession | VisformerError
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
