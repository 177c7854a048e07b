"""What can be chosen for single stages: the norms' numbers, dropout's rate and draw."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

from PySide6.QtCore import QSignalBlocker
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QPushButton,
    QWidget,
)

from visformer.language import N_, _
from visformer.pictures.computation.dropout import own_rate
from visformer.pictures.selection import StageOptions
from visformer.session.state import Session, State
from visformer.ui.layout import fill
from visformer.ui.widgets.controls import chooser, number_field, titled

NUMBERS = {False: N_("this layer's numbers"), True: N_("the tutorial's example")}
MOST_RATE = 0.9  # of dropout


class StageFields(QWidget):
    """The fields of the stage that is shown; hidden for a stage that has none."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self.numbers = chooser(_("numbers that are normalised"), NUMBERS)
        self.numbers.setToolTip(
            _("Normalise this layer's numbers, or 1, 2, 2 and 3 to check by hand.")
        )
        self.numbers.activated.connect(self._choose_numbers)
        self.rate = number_field(_("rate of dropout, p"), 0, MOST_RATE)
        self.rate.setSingleStep(0.05)
        self.rate.setToolTip(
            _(
                "p: the probability that training drops a number. The numbers kept are "
                "divided by 1 − p, so that the mean stays as it is in evaluation."
            )
        )
        self.rate.valueChanged.connect(self._choose_rate)
        self.seed = QLabel()
        self.again = QPushButton(_("&Another draw"))
        self.again.setToolTip(_("Draw another mask: the next seed."))
        self.again.clicked.connect(self._draw_again)
        title = titled(_("dropout &rate p"), self.rate)
        self._of = {
            "norms": (self.numbers,),
            "dropout": (title, self.rate, self.again, self.seed),
        }
        fill(QHBoxLayout(self), *chain(*self._of.values()), (None, 1))

    def draw(self, state: State) -> None:
        """Show what is chosen."""
        options, shown = state.stage_options, self._of.get(state.stage, ())
        for parts in self._of.values():
            for part in parts:
                part.setVisible(part in shown)
        self.setVisible(bool(shown))
        rate = options.rate
        if rate is None:
            rate = own_rate(state.dropout)
        self.numbers.setCurrentIndex(options.example)
        with QSignalBlocker(self.rate):
            self.rate.setValue(rate)
        self.seed.setText(_("seed {seed}", seed=options.seed))

    def _choose_numbers(self, index: int) -> None:
        self._set(replace(self._options, example=bool(index)))

    def _choose_rate(self, rate: float) -> None:
        self._set(replace(self._options, rate=round(rate, 2)))

    def _draw_again(self) -> None:
        self._set(replace(self._options, seed=self._options.seed + 1))

    @property
    def _options(self) -> StageOptions:
        return self._session.state.stage_options

    def _set(self, options: StageOptions) -> None:
        self._session.set(stage_options=options)
