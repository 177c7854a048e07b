"""What can be chosen for single stages: the norms' numbers, dropout's rate and draw."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import QSignalBlocker
from PySide6.QtWidgets import (
    QDoubleSpinBox,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QWidget,
)

from visformer.language import _
from visformer.pictures.computation.dropout import own_rate
from visformer.pictures.selection import StageOptions
from visformer.session.state import Session, State
from visformer.ui.widgets.combo_box import ComboBox

MOST_RATE = 0.9  # of dropout


class StageFields(QWidget):
    """The fields of the stage that is shown; hidden for a stage that has none."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self.numbers = ComboBox()
        self.numbers.addItems([_("this layer's numbers"), _("the tutorial's example")])
        self.numbers.setAccessibleName(_("numbers that are normalised"))
        self.numbers.setToolTip(
            _("Normalise this layer's numbers, or 1, 2, 2 and 3 to check by hand.")
        )
        self.numbers.activated.connect(self._choose_numbers)
        self.rate = QDoubleSpinBox()
        self.rate.setRange(0, MOST_RATE)
        self.rate.setSingleStep(0.05)
        self.rate.setKeyboardTracking(False)  # one picture per number, not per digit
        self.rate.setAccessibleName(_("rate of dropout, p"))
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
        title = QLabel(_("dropout &rate p"))
        title.setBuddy(self.rate)
        self._of = {
            "norms": (self.numbers,),
            "dropout": (title, self.rate, self.again, self.seed),
        }
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        for part in (part for parts in self._of.values() for part in parts):
            layout.addWidget(part)
        layout.addStretch(1)

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
