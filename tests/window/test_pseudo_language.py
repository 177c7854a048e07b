"""Every tab and page in the pseudo-language: no sentence stays English."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PySide6.QtWidgets import QComboBox, QLineEdit

from tests.general_traces import Shape, any_trace
from tests.pseudo import Unmarked
from tests.states import ran
from tests.tiny_models import tiny_checkpoint
from tests.window.parts import unwrap, view_of
from tests.window.pseudo_reader import Reader
from tests.window.windows import reply
from visformer.core.search import exhausted
from visformer.core.side_runs import run_texts
from visformer.engine.messages import Shuffle
from visformer.pictures.computation.stages import stage_names
from visformer.pictures.selection import (
    FORMS,
    ORDERS,
    SCALES,
    SUMMARIES,
    TOKEN_GROUPS,
    AttentionCell,
    Look,
)
from visformer.session.runs import show_trace
from visformer.ui.views.architecture.architecture import ArchitectureView
from visformer.ui.views.positions.positions import PositionLab
from visformer.ui.views.view import PagedView
from visformer.values.facts import KINDS, Kind
from visformer.values.intervention import parse
from visformer.values.step import Strategy

KIND_SETS: tuple[tuple[Kind, ...], ...] = (
    ("encoder",),
    ("decoder",),
    ("cross",),
    ("encoder", "decoder"),
    ("encoder", "cross"),
    ("decoder", "cross"),
    KINDS,
)
MODELS: dict[str, dict[str, Any]] = {
    "pre-norm": {"norm_first": True, "final_norm": True, "output_bias": True},
    "post-norm": {"positions": "learned", "tied_output": True, "norm": "unbiased"},
    "RMS": {"norm_first": True, "norm": "rms", "norm_bias": False, "gated": True},
    "no positions": {"positions": "none", "embedding_scale": False, "final_norm": True},
    "halves": {"positions": "halves", "softmax_output": True, "activation": "gelu"},
    "by row": {"position_axis": "batch", "masked_value": -np.inf},
    "restarting": {"position_axis": "restart", "shared_embedding": False},
    "small masked value": {"masked_value": -3.0, "encoder_bias": "none"},
}


FEW = 3  # models that are run each time


def test_an_empty_window(reader: Reader, missing: Unmarked) -> None:
    reader.every_tab()
    reader.open()
    reader.every_tab()
    reader.check(missing)


@pytest.mark.parametrize(
    "models",
    [
        pytest.param([*MODELS][:FEW], id="few"),
        pytest.param([*MODELS][FEW:], id="others", marks=pytest.mark.slow),
    ],
)
def test_a_run(reader: Reader, missing: Unmarked, models: list[str]) -> None:
    for model in models:
        reader.checkpoint = tiny_checkpoint(**MODELS[model])
        reader.run()
        reader.every_tab(paint=model == "pre-norm")
        for stage in stage_names():
            reader.window.session.set(tab="computation", stage=stage)
            reader.answer()
            reader.read(reader.window.tabs.view("computation"), paint=False)
        _every_block(reader)
        reader.check(missing, model)


def _every_block(reader: Reader) -> None:
    reader.window.session.set(tab="architecture")
    view = view_of(reader.window, ArchitectureView)
    for layer in ("encoder.0", "decoder.0"):
        view.diagram.go(layer)
        drawing = unwrap(view.diagram.drawing)
        for block in sorted({box.id for box in drawing.boxes if box.id}):
            view.diagram.choose(block)
            reader.read(view.diagram, paint=False)
            for box in unwrap(view.diagram.drawing).boxes:
                reader.note(box.words)
                for text in (box.title, box.detail):
                    reader.note_line(text)


def test_step_0(running: Reader, missing: Unmarked) -> None:
    running.window.session.set(step=0)
    running.every_tab()
    running.check(missing)


def test_attention_in_every_look(running: Reader, missing: Unmarked) -> None:
    session = running.window.session
    for kind in KINDS:
        session.set(kind=kind, locked=AttentionCell(kind, 1, 0))
        for order in ORDERS:
            session.set(look=Look(order=order))
            running.read(paint=False)
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
    running.check(missing)


def test_every_stage_of_the_computation(running: Reader, missing: Unmarked) -> None:
    session = running.window.session
    session.set(tab="computation")
    view = running.window.tabs.view("computation")
    for kind in KINDS:
        session.set(kind=kind, layer=0, locked=AttentionCell(kind, 0, 1))
        session.set(layer=1, locked=AttentionCell(kind, 2, 1))
        for stage in stage_names():
            session.set(stage=stage)
            running.read(view, paint=False)  # without the layer's weights
            running.answer()
            running.read(view)
    running.check(missing)


def test_a_modified_run(running: Reader, missing: Unmarked) -> None:
    for changes in (
        *("causal off", "causal +1", "hide 2", "multiply", "masked score -1e4"),
        *("positions shifted 2", "positions none", "cell cross 3 1 off"),
    ):
        running.window.change_run(parse([changes]))
        running.read(paint=False)
        running.decoded(changes)
        running.every_tab(paint=False)
        running.check(missing, changes)


def test_a_batch(running: Reader, missing: Unmarked) -> None:
    session = running.window.session
    traces = tuple(exhausted(run_texts(running.checkpoint, ("abcde", "ab"))))
    session.set(tab="masks", **ran(batch=traces), intervention=parse(["hide 2"]))
    running.every_tab()
    for box in running.window.tabs.view("masks").findChildren(QComboBox):
        box.setCurrentIndex(box.count() - 1)
    running.every_tab()
    running.check(missing)


def test_a_shuffle(running: Reader, missing: Unmarked) -> None:
    window, session = running.window, running.window.session
    session.set(tab="positions")
    view = window.tabs.view("positions")
    assert isinstance(view, PagedView)
    view.turn("lab")
    view.page(PositionLab).shuffle.click()
    running.read()
    shown = unwrap(session.state.visible)
    same = tuple(range(len(shown.source)))
    for order in (same, same[::-1]):
        reply(window, Shuffle, (order, shown, shown))
        running.read()
        view.page(PositionLab).shuffle.click()
    running.check(missing)


def test_sampling(running: Reader, missing: Unmarked) -> None:
    cuts: tuple[dict[str, Any], ...] = ({}, {"top_k": 5}, {"top_p": 0.9})
    for cut in cuts:
        strategy = Strategy(name="sample", temperature=0.5, **cut)
        running.window.strategy.changed.emit(strategy, None)
        running.decoded()
        running.window.session.set(tab="output")
        running.answer()
        running.every_tab()
        running.check(missing, str(cut))


@pytest.mark.parametrize("bias", ["distance", "full"])
def test_traces_of_any_model(reader: Reader, missing: Unmarked, bias: Any) -> None:
    known = bias != "distance"
    for kinds in KIND_SETS:
        shape = Shape(kinds=kinds, hidden=known, output=known)
        trace = any_trace(shape, steps=known, captured=known, bias=bias, prompt=2)
        if kinds == ("encoder",):
            best = any_trace().steps[0].candidates
            trace = replace(trace, fills={1: best, 2: best})
        reader.window.session.do(show_trace, trace)
        for kind in kinds:
            reader.window.session.set(kind=kind, locked=AttentionCell(kind, 2, 1))
            reader.every_tab(paint=known)
        reader.check(missing, "+".join(kinds))


def test_curves_of_wrong_dimensions(running: Reader, missing: Unmarked) -> None:
    running.window.session.set(tab="positions")
    view = running.window.tabs.view("positions")
    for field in view.findChildren(QLineEdit):
        for text in ("x", "", "99", "5-2", "0-9"):
            field.setText(text)
            field.textEdited.emit(text)
            running.read(view)
    running.check(missing)
