"""Changes of the run: made, taken back, made again; what each asks to be decoded."""

from __future__ import annotations

from typing import Protocol

from visformer.session.state import Session
from visformer.values.intervention import Intervention


class Runs(Protocol):
    """Who decodes: the window's requests."""

    @property
    def decoding(self) -> bool:
        """Whether a decode has not come to its end."""

    def run_again(self, step: int) -> None:
        """Decode the sentence under the State's intervention."""

    def drop(self) -> None:
        """Take no more of the decode that is going on."""


class Alterations:
    """The interventions so far, for undo and redo; the newest is in the State."""

    def __init__(self, session: Session, runs: Runs) -> None:
        self._session, self._runs = session, runs
        self._done: list[Intervention] = []  # to undo, the latest last
        self._undone: list[Intervention] = []  # to redo

    def make(self, intervention: Intervention) -> None:
        """Run the sentence again as altered; nothing changed brings the plain run."""
        now = self._session.state.intervention
        if intervention != now:
            self._done.append(now)
            self._undone.clear()
            self._alter(intervention)

    def undo(self) -> None:
        """Take the last change back."""
        self._exchange(self._done, self._undone)

    def redo(self) -> None:
        """Make the change again that was taken back last."""
        self._exchange(self._undone, self._done)

    def forget(self) -> None:
        """Forget all of them: another model is open."""
        self._done.clear()
        self._undone.clear()

    def _exchange(self, source: list[Intervention], target: list[Intervention]) -> None:
        if source:
            target.append(self._session.state.intervention)
            self._alter(source.pop())

    def _alter(self, intervention: Intervention) -> None:
        state = self._session.state
        self._session.set(intervention=intervention, error="")
        if state.plain is None:
            if self._runs.decoding or state.trace is None:
                return  # the altered run follows the plain one
            if not state.recorded:
                self._session.set(plain=state.trace)
        if intervention:
            self._runs.run_again(state.step)
        elif state.plain is not None:
            self._runs.drop()
            self._session.set(trace=state.plain, plain=None, passes=(), busy="")
