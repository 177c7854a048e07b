"""The status bar: device and speed, layer and head, the cell in words, the colours.

During a modified run it says what is changed instead, and the cell.
"""

from __future__ import annotations

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
from visformer.pictures.selection import SCALES
from visformer.session.state import State
from visformer.ui.dress import Dressed
from visformer.ui.theme import gap
from visformer.ui.widgets.arranging import Still
from visformer.ui.widgets.plain_label import plain_label
from visformer.words import head_words

WORDS = 2  # the label that takes the free width: what the engine does, or the cell


class StatusLine(Dressed, QStatusBar):
    """Four labels, and a bar that moves while the engine works, with Stop beside it.

    Its height is that of all it may ever hold, so that nothing pushes the pictures.
    """

    stopped = Signal()

    def __init__(self, modified: QWidget) -> None:
        """Take in what says how the run is modified, hidden where it is not."""
        super().__init__()
        self._modified = modified
        self.addWidget(modified, 4)
        self.setSizeGripEnabled(False)
        self.labels = tuple(plain_label("") for _ in range(4))
        self._places = tuple(map(Still, self.labels))
        self._gaps = tuple(QWidget() for _ in self.labels)
        for index, (space, place) in enumerate(
            zip(self._gaps, self._places, strict=True)
        ):
            self.addWidget(space)
            place.setMinimumWidth(1)  # it is cut; a tooltip has all of it
            self.addWidget(place, 1 if index == WORDS else 0)
        policy = QSizePolicy.Policy
        self._places[WORDS].setSizePolicy(policy.Ignored, policy.Preferred)
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
        cell = cell_words(state.shown, state.selection, state.look)
        modified = not self._modified.isHidden()
        for index, parts in enumerate(zip(self._gaps, self._places, strict=True)):
            for part in parts:
                part.setVisible(index == WORDS or not modified)
        texts = (
            _engine_words(state),
            "" if cell else head_words(state.layer, state.head),  # it says it too
            state.busy or cell,
            _("colour: {scale}", scale=_(SCALES[state.scale])),
        )
        for label, text in zip(self.labels, texts, strict=True):
            label.setText(text)


def _engine_words(state: State) -> str:
    device = state.model.device if state.model else _("no device")
    speed = _("no step timed yet")
    if state.step_ms:
        speed = _("{time} ms/step", time=f"{state.step_ms:.1f}")
    if state.recorded:
        return _("recorded, {device} | {speed}", device=device, speed=speed)
    return _("{device} | {speed}", device=device, speed=speed)
