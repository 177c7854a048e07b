"""The first click of two: what it did is taken back, for two only make large."""

from __future__ import annotations

from visformer.session.runs import change_run
from visformer.session.state import Session, State
from visformer.ui.large import LargePlace


class FirstClick:
    """Remembers what was locked before a click on a picture."""

    def __init__(self, session: Session, large: LargePlace) -> None:
        self._session = session
        self._before: State | None = None
        large.pressed.connect(self._remember)
        large.doubled.connect(self._take_back)

    def _remember(self) -> None:
        self._before = self._session.state

    def _take_back(self) -> None:
        """Lock what was locked, at the step and in the run of before.

        Kind and head that were clicked stay: these are what becomes large.
        """
        before, now = self._before, self._session.state
        if before is None:
            return
        if before.intervention != now.intervention:  # a cell of a mask was switched
            self._session.do(change_run, before.intervention)
        chosen = before.step, before.locked, before.locked_dimensions
        if chosen != (now.step, now.locked, now.locked_dimensions):
            self._session.set(
                step=before.step,
                locked=before.locked,
                locked_dimensions=before.locked_dimensions,
            )
