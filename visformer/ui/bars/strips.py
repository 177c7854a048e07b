"""The two strips of tokens: what is read, and what is written."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QVBoxLayout, QWidget

from visformer.language import _
from visformer.pictures.attention.strips import first_chip, source_strip, target_strip
from visformer.pictures.candidates import masked_token
from visformer.pictures.words.absent import has_source, has_target
from visformer.session.navigation import reading_kind
from visformer.session.state import State
from visformer.ui.bars.strip import TokenStrip
from visformer.ui.layout import fill
from visformer.ui.widgets.plain_label import plain_label
from visformer.values.facts import SentenceSide
from visformer.values.trace import Trace


class Strips(QWidget):
    """Source and target, or prompt and continuation; a side that is not there hides."""

    step_chosen = Signal(int)  # the one that chose the token clicked
    source_chosen = Signal(int)  # a source token

    def __init__(self) -> None:
        super().__init__()
        self._trace: Trace | None = None
        self.source = TokenStrip(_("Source tokens"), _("source tokens appear here"))
        self.target = TokenStrip(
            _("Target tokens"), _("nothing decoded yet: step forward"), tall=True
        )
        self.sides: dict[SentenceSide, TokenStrip] = {
            "source": self.source,
            "target": self.target,
        }
        self.target.explain_clicks(_("Click: go to the step that wrote it."))
        self._source_name = plain_label("", faint=True)
        self._target_name = plain_label(_("target"), faint=True)
        self.folded = False  # the tokens are not wanted
        self.has_source = True  # or a prompt
        self.source_row = _row(self._source_name, self.source)  # may stand elsewhere
        self._target_row = _row(self._target_name, self.target)
        fill(QVBoxLayout(self), self.source_row, self._target_row, spacing=3)
        self.source.clicked.connect(self.source_chosen)
        self.target.clicked.connect(self._choose_step)
        self._name(None)

    def draw(self, state: State) -> None:
        """Show what is read and written up to the current step."""
        self._trace = trace = state.visible
        looked = trace, state.selection, state.look
        self.source.draw(source_strip(*looked, masked_token(trace, state.locked)))
        self.target.draw(target_strip(*looked, state.ahead))
        self._name(trace)

    def put_beside_target(self, play: QWidget) -> None:
        """Put a widget at the end of the target's row."""
        layout = self._target_row.layout()
        assert layout is not None
        layout.addWidget(play)

    def _name(self, trace: Trace | None) -> None:
        alone = trace is not None and not has_source(trace)
        self._source_name.setText(_("prompt") if alone else _("source"))
        asked = _(
            "Click: see what it reads. Then click another one: which head reads that "
            "from it?"
        )
        self.source.explain_clicks(asked if trace and reading_kind(trace) else "")
        self.has_source = trace is None or has_source(trace) or trace.prompt > 0
        if self.isAncestorOf(self.source_row):
            self.source_row.setVisible(self.has_source)
        for part in (self._target_name, self.target):
            part.setVisible(not self.folded and (trace is None or has_target(trace)))

    def _choose_step(self, index: int) -> None:
        if self._trace is not None:
            self.step_chosen.emit(index + first_chip(self._trace))


def _row(name: QLabel, strip: TokenStrip) -> QWidget:
    row = QWidget()
    fill(QHBoxLayout(row), name, (strip, 1), spacing=6)
    return row
