"""Reads all that a window says in the pseudo-language, and finds what stays English."""

from __future__ import annotations

import html
import re

from PySide6.QtWidgets import QLabel, QWidget

from tests.opened import opened_model
from tests.pseudo import WORD, Unmarked, english, painted_english
from tests.system.formats import layout_models
from tests.window.painted import painted
from tests.window.texts import texts
from tests.window.windows import FakeEngine
from visformer import paths
from visformer.core.checkpoint import Checkpoint
from visformer.core.decoding import Decoding
from visformer.core.lens_rows import read_streams
from visformer.core.side_runs import layer_parameters
from visformer.engine.messages import (
    Done,
    Effect,
    Finished,
    Lens,
    Nearest,
    Parameters,
    SideRequest,
)
from visformer.engine.mirror import Decoded
from visformer.engine.process import effect, nearest
from visformer.pictures.selection import AttentionCell
from visformer.session.pending import Sent
from visformer.ui import views
from visformer.ui.bars.samples import SAMPLES
from visformer.ui.views.view import PagedView, View
from visformer.ui.widgets.canvas import MapCell
from visformer.ui.widgets.heatmap import HeatMap
from visformer.ui.window.window import MainWindow
from visformer.values.intervention import parse
from visformer.values.trace import Trace

CELLS = MapCell(0, 0), MapCell(0, 1)
LAYOUTS = "handout", "d2l", "labml", "modular", "around"
TENSORS = [
    name
    for layout in LAYOUTS
    for name in layout_models.state(getattr(layout_models, layout))
]
SENTENCES = "abcde", "abc"  # and what its batch begins with
SAMPLED = (sample.text for sample in SAMPLES)
TOKENS = ("pad", "unk", "abcde", *SENTENCES, *TENSORS, *SAMPLED)
ALLOWED = {  # what no translation changes, and what Qt and pyqtgraph say themselves
    *("Ctrl", "Enter", "Esc", "Space", "Home", "End", "Up", "Down", "Left", "Right"),
    *("PgUp", "PgDown"),
    "English",  # as the language names itself in the menu
    *(
        "Visformer",
        "softmax",
        "LSE",
        "NaN",
        "QK",
        "True",
        "False",
        "Norm",
        "ReLU",
        "OK",
    ),
    *("sublayer", "FFN", "cos", "any", "relu", "gelu", "silu", "tanh"),
    *("GELU", "SiLU"),
    *(word for token in TOKENS for word in WORD.findall(token)),
    *(word for path in paths.bundled_checkpoints() for word in WORD.findall(path.name)),
    *("cpu", "Scroll", "Left", "Right", "Export"),
}
SYMBOLS = {  # titles of stages
    *("Q, K, V", "Q", "K", "V", "QKᵀ", "÷ √d", "softmax"),
    *("× V", "× Wₒ", "× W₁", "× W₂"),
}


class Reader:
    """A window on a fake engine that answers with a checkpoint's numbers."""

    def __init__(
        self, window: MainWindow, engine: FakeEngine, checkpoint: Checkpoint
    ) -> None:
        self.window, self.engine, self.checkpoint = window, engine, checkpoint
        self.read_texts: set[str] = set()
        self.own: set[str] = set()  # words of a model's name, and its translations

    def read(self, widget: QWidget | None = None, *, paint: bool = True) -> None:
        """Read the window, or a widget; ``paint``: also as it is painted."""
        root = widget or self.window
        sentence = self.window.sentence
        for part in (*sentence.words.parts, *sentence.other.parts):
            self.own.update(WORD.findall(part.text))
        for text in (sentence.words.text(), sentence.words.rest):
            self.own.update(WORD.findall(text))
        self.own.update(WORD.findall(self.window.header.model.text()))
        for text in texts(root):
            self.note(text)
        for word in painted(root).words if paint else ():
            self.note_line(word.text)

    def note(self, text: str) -> None:
        """Read one text."""
        plain = re.sub("</?(qt|br)>", " ", text)  # tool tips are rich text
        self.read_texts.add(html.unescape(plain))

    def note_line(self, text: str) -> None:
        """Read a line that may be a part of a text, cut off at its end."""
        for word in painted_english(text, ALLOWED):
            self.note(word)

    def check(self, missing: Unmarked, case: str = "") -> None:
        """Fail where something was English, in a ``case`` of several; read on anew."""
        allowed = ALLOWED | self.own
        found = [text for text in self.read_texts if english(text, allowed)]
        assert not found, f"these stayed English: {found} {case}"
        self.read_texts.clear()
        unmarked = missing.templates - SYMBOLS
        assert not unmarked, f"these are not in the catalogue: {unmarked}"

    def open(self) -> None:
        """Answer that the model is open."""
        table = self.checkpoint.model.position_table("source").detach().numpy()
        self.window.receive(
            opened_model(
                self.checkpoint.facts,
                table,
                path="/m",
                findings=self.checkpoint.findings,
                assumed=self.checkpoint.assumed,
            )
        )

    def run(self) -> None:
        """Decode a sentence, go to step 3, lock a cell."""
        self.open()
        self.window.translate("abcde")
        self.decoded()
        self.window.session.set(step=3, locked=AttentionCell("decoder", 2, 1))

    def decoded(self, changes: str = "") -> None:
        """Answer the last decode: the checkpoint's own run, or a modified one."""
        intervention = parse([changes] if changes else [])
        run = Decoding(self.checkpoint, "abcde", limit=6, intervention=intervention)
        self.give(run.finish())

    def give(self, trace: Trace) -> None:
        """Answer the last decode with a Trace."""
        number = len(self.engine.decodes)
        self.window.receive(Decoded(number=number, trace=trace, limit=20))
        self.window.receive(Finished(number=number, step_ms=2.5))

    def answer(self) -> None:
        """Give the weights, lenses and nearest tokens that the window asks for."""
        while waiting := self._waiting():
            number, request = waiting[0].number, waiting[0].request
            made: object
            if isinstance(request, Parameters):
                made = layer_parameters(self.checkpoint, request.stack, request.layer)
            elif isinstance(request, Lens):
                heat, wanted = request.temperature, (request.hidden, request.chosen)
                made = read_streams(self.checkpoint, *wanted, temperature=heat)
            elif isinstance(request, Effect):
                made = effect(self.checkpoint, request)
            else:
                assert isinstance(request, Nearest)
                made = nearest(self.checkpoint, request)
            self.window.receive(Done(number=number, value=made))

    def _waiting(self) -> list[Sent]:
        sent = self.window.session.state.awaiting.sent
        return [s for s in sent if isinstance(s.request, SideRequest) and not s.ended]

    def every_tab(self, *, paint: bool = True) -> None:
        """Read every tab and page, with the mouse on their maps too."""
        for kind in views.VIEWS:
            self.window.session.set(tab=kind.name)
            self.answer()
            view = self.window.tabs.view(kind.name)
            for page in kind.pages:
                assert isinstance(view, PagedView)
                view.turn(page.name)
                self._point(view)
                self.read(view, paint=paint)
            if not kind.pages:
                self._point(view)
                self.read(view, paint=paint)
        self.read(paint=paint)

    def _point(self, view: View) -> None:
        """Read what a view says of some cells."""
        for heat_map in view.findChildren(HeatMap):
            matrix = heat_map.matrix
            if matrix is None or not heat_map.isVisible():
                continue
            for cell in CELLS:
                if cell.row < len(matrix.rows) and cell.column < len(matrix.columns):
                    heat_map.hovered.emit(cell)
                    for text in {label.text() for label in view.findChildren(QLabel)}:
                        self.note(text)
            heat_map.hovered.emit(None)
