"""The status bar: the translation, what is changed, the cell in words, the speed."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import (
    QProgressBar,
    QPushButton,
    QSizePolicy,
    QStatusBar,
    QWidget,
)

from visformer.language import _
from visformer.pictures.attention.cell_words import cell_words
from visformer.session.state import State
from visformer.ui.layout import Still
from visformer.ui.look.theme import Dressed, gap
from visformer.ui.widgets.plain_label import plain_label


class StatusLine(Dressed, QStatusBar):
    """The translation first; a bar moves while the engine works, with Stop beside it.

    Its height is that of all it may ever hold, so that nothing pushes the pictures.
    """

    stopped = Signal()

    def __init__(self, modified: QWidget, sentence: QWidget) -> None:
        """Take in the translation, and what says how the run is modified, if it is."""
        super().__init__()
        self.setSizeGripEnabled(False)
        self.addWidget(sentence, 4)
        self.addWidget(modified, 8)
        self.words, self.engine = plain_label(""), plain_label("")  # words: of the cell
        self._gaps = QWidget(), QWidget()
        places = Still(self.words), Still(self.engine)
        for space, place in zip(self._gaps, places, strict=True):
            self.addWidget(space)
            place.setMinimumWidth(1)  # it is cut; a tooltip has all of it
            self.addWidget(place, 2 if place is places[0] else 0)
        policy = QSizePolicy.Policy
        places[0].setSizePolicy(policy.Ignored, policy.Preferred)
        self._progress = QProgressBar()
        self._progress.setMaximumWidth(120)
        self._progress.setRange(0, 0)
        self._progress.setAccessibleName(_("The engine is working"))
        self.addPermanentWidget(self._progress)
        self.stop = QPushButton(_("Stop"))
        self.stop.setToolTip(_("Stop what the engine is doing (Ctrl+.)"))
        self.stop.clicked.connect(self.stopped)
        self.addPermanentWidget(self.stop)
        self.dress()

    def _dress(self) -> None:
        """Keep the texts apart, which would read as one, and off the window's edges."""
        self.setContentsMargins(gap(self), 0, gap(self), 0)
        for space in self._gaps:
            space.setFixedWidth(gap(self, 2))

    def draw(self, state: State) -> None:
        """Say what is on screen and what the engine is doing."""
        self._progress.setVisible(bool(state.busy))
        self.stop.setVisible(bool(state.busy))
        cell = cell_words(state.visible, state.selection, state.look)
        self.words.setText(state.busy or cell)
        self.engine.setText(_engine_words(state))


def _engine_words(state: State) -> str:
    device = state.model.device if state.model else _("no device")
    speed = _("no step timed yet")
    if state.step_ms:
        speed = _("{time} ms/step", time=f"{state.step_ms:.1f}")
    if state.recorded:
        return _("recorded, {device} | {speed}", device=device, speed=speed)
    return _("{device} | {speed}", device=device, speed=speed)
