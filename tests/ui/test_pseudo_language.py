"""Every tab and page in the pseudo-language: no sentence stays English."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PySide6.QtCore import QEvent, QPoint
from PySide6.QtGui import QHelpEvent
from PySide6.QtWidgets import QApplication, QDialog, QToolTip, QWidget
from pytestqt.qtbot import QtBot

from tests.formats import layout_models
from tests.general_traces import Shape, any_trace
from tests.models import tiny_checkpoint
from tests.pseudo import WORD, Unmarked, english, painted_english, spoken
from tests.ui.painted import painted
from tests.ui.texts import texts
from tests.ui.windows import FakeEngine, make_window
from visformer import paths
from visformer.core.decoding import Decoding
from visformer.core.layer_export import layer_parameters
from visformer.core.lens_rows import read_streams
from visformer.core.side_runs import run_texts
from visformer.engine.messages import (
    Asked,
    Finished,
    LensDone,
    Opened,
    ParametersDone,
    Shuffled,
)
from visformer.engine.mirror import Decoded
from visformer.formats.loading import checkpoint_files
from visformer.pictures.computation.stages import stage_names
from visformer.pictures.look import FORMS, ORDERS, SUMMARIES, TOKEN_GROUPS, Look
from visformer.pictures.selection import SCALES, AttentionCell
from visformer.session.runs import show_trace
from visformer.ui import actions, views
from visformer.ui.bars.samples import SAMPLES
from visformer.ui.bars.strip import TokenStrip
from visformer.ui.views.architecture import ArchitectureView
from visformer.ui.views.attention import AttentionView
from visformer.ui.views.position_lab import PositionLab
from visformer.ui.views.view import PagedView
from visformer.ui.widgets.canvas import MapCell
from visformer.ui.widgets.heatmap import HeatMap
from visformer.ui.window import MainWindow
from visformer.values.facts import KINDS, Kind
from visformer.values.intervention import parse
from visformer.values.strategy import Strategy
from visformer.values.trace import Trace

CHECKPOINT = tiny_checkpoint(norm_first=True, final_norm=True)
LAYOUTS = "handout", "d2l", "labml", "modular", "around"
TENSORS = [
    name
    for layout in LAYOUTS
    for name in layout_models.state(getattr(layout_models, layout))
]
SENTENCES = "abcde", "I have a cat.", "Thank you."
TOKENS = (
    "pad",
    "unk",
    "abcde",
    *SENTENCES,
    *TENSORS,
    *(sample.text for sample in SAMPLES),
)
ALLOWED = {  # what no translation changes, and what Qt and pyqtgraph say themselves
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
    *(word for token in TOKENS for word in WORD.findall(token)),
    *(word for path in paths.bundled_checkpoints() for word in WORD.findall(path.name)),
    *("cpu", "Scroll", "Left", "Right", "Export"),
}
SYMBOLS = {
    "Q",
    "K",
    "V",
    "QKᵀ",
    "÷ √d",
    "softmax",
    "× V",
    "× Wₒ",
    "× W₁",
    "× W₂",
}  # titles of stages


@pytest.fixture
def missing() -> Iterator[Unmarked]:
    with spoken() as unmarked:
        yield unmarked


class Reader:
    """Reads all that a window says, and remembers what is English."""

    def __init__(self, window: MainWindow, engine: FakeEngine) -> None:
        self.window, self.engine = window, engine
        self.found: dict[str, list[str]] = {}

    def read(self, widget: QWidget | None = None) -> None:
        root = widget or self.window
        for text in texts(root):
            self._note(text, english(text, ALLOWED))
        for word in painted(root).words:
            self._note(word.text, painted_english(word.text, ALLOWED))

    def _note(self, text: str, words: list[str]) -> None:
        if words:
            self.found[text] = words

    def answer(self) -> None:
        """Give the weights and lenses that the window asks for."""
        while self.window.session.state.awaiting.side_requests:
            if self.window.session.state.tab == "computation":
                stack, layer = self.engine.asked[-1]
                made = layer_parameters(CHECKPOINT, stack, layer)
                number = len(self.engine.asked)
                self.window.receive(ParametersDone(number=number, parameters=made))
            else:
                hidden, chosen, heat = self.engine.lenses[-1]
                rows = read_streams(CHECKPOINT, hidden, chosen, temperature=heat)
                number = len(self.engine.lenses)
                self.window.receive(LensDone(number=number, rows=rows))

    def decoded(self, trace: Trace) -> None:
        """Answer the last decode."""
        number = len(self.engine.decodes)
        self.window.receive(Decoded(number=number, trace=trace, limit=20))
        self.window.receive(Finished(number=number, step_ms=2.5))

    def every_tab(self) -> None:
        for kind in views.VIEWS:
            self.window.session.set(tab=kind.name)
            self.answer()
            view = self.window.tabs.view(kind.name)
            for page in kind.pages:
                assert isinstance(view, PagedView)
                view.turn(page.name)
                self.read()
            if not kind.pages:
                self.read()
            for heat_map in view.findChildren(HeatMap):
                if heat_map.isVisible():
                    heat_map.hovered.emit(MapCell(0, 0))
            self.read()


@pytest.fixture
def reader(missing: Unmarked, qtbot: QtBot, tmp_path: Path) -> Reader:
    return Reader(*make_window(qtbot, tmp_path))


def trace_of(changes: str = "") -> Trace:
    intervention = parse([changes] if changes else [])
    return Decoding(CHECKPOINT, "abcde", limit=6, intervention=intervention).finish()


def opened() -> Opened:
    return Opened(
        number=1,
        path="/m",
        model=CHECKPOINT.facts,
        positions=CHECKPOINT.model.position_table("source").numpy(),
        devices=("cpu",),
        findings=(),
    )


def check(reader: Reader, missing: Unmarked) -> None:
    found = (f"{words}: {text!r}" for text, words in reader.found.items())
    assert "\n".join(found) == ""
    assert missing.templates <= SYMBOLS


def test_an_empty_window(reader: Reader, missing: Unmarked) -> None:
    reader.every_tab()
    check(reader, missing)


@pytest.fixture
def running(reader: Reader) -> Reader:
    """Return a window at step 3 of a sentence, with a cell locked."""
    reader.window.receive(opened())
    reader.window.translate("abcde")
    reader.decoded(trace_of())
    reader.window.session.set(step=3, locked=AttentionCell("decoder", 2, 1))
    return reader


def test_a_run(running: Reader, missing: Unmarked) -> None:
    running.every_tab()
    check(running, missing)


def test_attention_in_every_look(running: Reader, missing: Unmarked) -> None:
    session = running.window.session
    for kind in KINDS:
        session.set(kind=kind, locked=AttentionCell(kind, 1, 0))
        for order in ORDERS:
            session.set(look=Look(order=order))
            running.read()
        for summary in SUMMARIES:
            session.set(look=Look(summary=summary, words=True))
            running.read()
    for form in FORMS:
        session.set(look=Look(form=form))
        running.read()
        session.set(look=Look(form=form, by="key", hide=frozenset(TOKEN_GROUPS)))
        running.read()
    for scale in SCALES:
        session.set(look=Look(renormalise=True, hide=frozenset(["pad"])), scale=scale)
        running.read()
    check(running, missing)


def test_every_stage_of_the_computation(running: Reader, missing: Unmarked) -> None:
    session = running.window.session
    session.set(tab="computation")
    for kind in KINDS:
        session.set(kind=kind, locked=AttentionCell(kind, 2, 1))
        for stage in stage_names():
            session.set(stage=stage)
            running.read()  # without the layer's weights
            running.answer()
            running.read()
    check(running, missing)


def test_every_block_of_the_architecture(running: Reader, missing: Unmarked) -> None:
    running.window.session.set(tab="architecture")
    view = running.window.tabs.view("architecture")
    assert isinstance(view, ArchitectureView)
    drawing = view.diagram.drawing
    assert drawing is not None
    for block in {box.id for box in drawing.boxes if box.id}:
        view.diagram.choose(block)
        running.read()
    check(running, missing)


@pytest.mark.parametrize(
    "changes",
    ["causal off", "hide 2", "multiply", "masked score -1e4", "positions shifted 2"],
)
def test_a_modified_run(running: Reader, missing: Unmarked, changes: str) -> None:
    running.window.change_run(parse([changes]))
    running.read()
    running.decoded(replace(trace_of(changes), source_text="abcde"))
    running.every_tab()
    check(running, missing)


def test_a_batch_and_a_shuffle(running: Reader, missing: Unmarked) -> None:
    window, session = running.window, running.window.session
    session.set(tab="masks", batch=tuple(run_texts(CHECKPOINT, ("abcde", "ab"))))
    running.read()
    session.set(batch=())
    view = window.tabs.view("positions")
    assert isinstance(view, PagedView)
    session.set(tab="positions")
    view.turn("lab")
    view.page(PositionLab).shuffle.click()
    running.read()
    shown = session.state.shown
    assert shown is not None
    order = tuple(reversed(range(len(shown.source))))
    moved = replace(shown, source=shown.source[::-1])
    window.receive(Shuffled(number=1, order=order, baseline=shown, shuffled=moved))
    running.read()
    check(running, missing)


def test_sampling(running: Reader, missing: Unmarked) -> None:
    strategy = Strategy(name="sample", temperature=0.5, top_k=5, top_p=0.9)
    running.window.strategy.changed.emit(strategy, None)
    running.decoded(replace(trace_of(), source_text="abcde"))
    running.every_tab()
    check(running, missing)


@pytest.mark.parametrize("kinds", [("encoder",), ("decoder",), ("encoder", "decoder")])
@pytest.mark.parametrize("steps", [True, False])
def test_models_without_all_kinds(
    reader: Reader, missing: Unmarked, kinds: tuple[Kind, ...], steps: bool
) -> None:
    trace = any_trace(Shape(kinds=kinds), steps=steps, captured=steps, prompt=2)
    reader.window.session.do(show_trace, trace)
    for kind in kinds:
        reader.window.session.set(kind=kind, locked=AttentionCell(kind, 2, 1))
        reader.every_tab()
    check(reader, missing)


def test_tool_tips_that_follow_the_mouse(
    running: Reader, missing: Unmarked, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(QToolTip, "showText", lambda at, text, *_: said.append(text))
    window = running.window
    window.session.set(tab="attention", look=Look(order="entropy", words=True))
    view = window.tabs.view("attention")
    assert isinstance(view, AttentionView)
    middle = QPoint(40, 60)
    event = QHelpEvent(QEvent.Type.ToolTip, middle, view.overview.mapToGlobal(middle))
    QApplication.sendEvent(view.overview, event)
    for strip in window.findChildren(TokenStrip):
        for x in (5, 15):
            qtbot.mouseMove(strip.widget(), QPoint(x, strip.height() // 3))
    assert len(said) >= 3
    assert [english(text, ALLOWED) for text in said] == [[]] * len(said)


def test_dialogs_and_menus(running: Reader, missing: Unmarked) -> None:
    window = running.window
    window.about.click()
    actions._show_keys(window)
    actions._show_limits(window)
    menu = window.findChildren(HeatMap)[0].export.menu()
    for dialog in (*window.findChildren(QDialog), menu):
        running.read(dialog)
        dialog.close()
    menu.deleteLater()
    check(running, missing)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_form_of_a_file(
    reader: Reader, missing: Unmarked, tmp_path: Path, layout: str
) -> None:
    path = tmp_path / "5.pt"
    torch.save(layout_models.state(getattr(layout_models, layout)), path)
    form = checkpoint_files(str(path), ()).questionnaire(every=True)
    assert form is not None
    reader.window.open(str(path))
    reader.window.receive(Asked(number=-1, path=str(path), form=form))
    reader.read()
    reader.read(reader.window.form)
    reader.window.form.reject()
    check(reader, missing)
