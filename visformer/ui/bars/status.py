"""The line below: device and speed, layer and head, the cell in words, the colours."""

from __future__ import annotations

from PySide6.QtWidgets import QProgressBar, QStatusBar

from visformer.pictures.attention.cell_words import cell_words
from visformer.pictures.selection import SCALES
from visformer.session.state import State
from visformer.ui.widgets.plain_label import plain_label
from visformer.words import head_words

WORDS = 2  # the label that takes the room: what the engine does, or the cell


class StatusLine(QStatusBar):
    """Four labels, and a bar that moves while the engine works."""

    def __init__(self) -> None:
        super().__init__()
        self.setSizeGripEnabled(False)
        self.labels = tuple(plain_label("") for _ in range(4))
        for index, label in enumerate(self.labels):
            self.addWidget(label, 1 if index == WORDS else 0)
        self._progress = QProgressBar()
        self._progress.setMaximumWidth(120)
        self._progress.setRange(0, 0)
        self._progress.setAccessibleName("The engine is working")
        self.addPermanentWidget(self._progress)

    def draw(self, state: State) -> None:
        """Say what is on screen and what is done."""
        self._progress.setVisible(bool(state.busy))
        device = state.model.device if state.model else "no device"
        recorded = "recorded, " if state.recorded else ""
        speed = f"{state.step_ms:.1f} ms/step" if state.step_ms else "no step timed yet"
        texts = (
            f"{recorded}{device} | {speed}",
            head_words(state.layer, state.head),
            state.busy or cell_words(state.shown, state.selection, state.look),
            f"colour: {SCALES[state.scale]}",
        )
        for label, text in zip(self.labels, texts, strict=True):
            label.setText(text)
