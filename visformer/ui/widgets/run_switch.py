"""One button that runs the sentence without a part of the model, or with it again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from PySide6.QtWidgets import QPushButton

from visformer.language import _
from visformer.pictures.picture import Matrix
from visformer.session.runs import change_run, fixed_words
from visformer.session.state import Session, State
from visformer.ui.widgets.heatmap import HeatMap
from visformer.ui.widgets.plain_label import plain_tip
from visformer.values.intervention import Intervention


class Without(NamedTuple):
    """What is left out, how the button says so, and where it cannot be left out."""

    off: str  # a template: what a click does
    on: str  # a template: what a click does afterwards
    is_off: Callable[[Intervention], bool]
    turned: Callable[[Intervention], Intervention]  # off or on again
    there: Callable[[State], bool]
    looked: Callable[[State], State]  # where its effect is seen


class RunSwitch(QPushButton):
    """Changes the run at once, and shows the effect in the lab of its tab."""

    def __init__(self, session: Session, without: Without, tab: str) -> None:
        super().__init__(_(without.off))
        self._session, self._without, self._tab = session, without, tab
        self.clicked.connect(self._switch)

    def draw(self, state: State) -> None:
        """Say what a click does."""
        without, fixed = self._without, fixed_words(state)
        off = without.is_off(state.intervention)
        self.setText(_(without.on if off else without.off))
        self.setVisible(without.there(state))
        self.setEnabled(state.trace is not None and not fixed)
        self.setToolTip(plain_tip(fixed))

    def _switch(self) -> None:
        session, without = self._session, self._without
        before = session.state.intervention
        if not without.is_off(before):
            session.go(without.looked(session.state).turned(self._tab, "lab"))
        session.do(change_run, without.turned(before))


def attention_maps() -> list[HeatMap]:
    """Return maps of the run on screen and of the baseline."""
    names = _("attention of the run on screen"), _("attention of the original run")
    return [HeatMap(name) for name in names]


def draw_both(maps: Sequence[HeatMap], pictures: Sequence[Matrix]) -> None:
    """Draw as many maps as there are pictures; the first map stays, even if empty."""
    for index, heat_map in enumerate(maps):
        there = index < len(pictures)
        heat_map.setVisible(there or index == 0)
        heat_map.draw(pictures[index] if there else None)
