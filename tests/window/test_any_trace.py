"""Traces of any model in a real window: every tab draws its own numbers."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PySide6.QtWidgets import QComboBox, QPushButton, QSpinBox, QWidget
from pytestqt.qtbot import QtBot

from tests.general_traces import Shape, any_trace
from tests.importances import make_importance
from tests.opened import opened_model
from tests.traces import make_trace
from tests.unit.pictures.test_beam_tree import searched
from tests.window.any_traces import (
    SUBSETS,
    Case,
    Subsets,
    each,
    every,
    scaled,
    show_in,
    shown,
    view,
    weights,
)
from tests.window.parts import pages, unwrap
from tests.window.windows import Pair, make_view, translate
from visformer.core.checkpoint_series import point
from visformer.engine.messages import Finished
from visformer.engine.mirror import Decoded
from visformer.pictures.computation.stages import STAGES
from visformer.pictures.selection import FORMS, SUMMARIES, Look, TokenGroup
from visformer.pictures.words.absent import missing_kinds_words
from visformer.session.runs import show_trace
from visformer.session.searches import wanted_search
from visformer.session.state import Series
from visformer.ui.views.attention.attention import AttentionView
from visformer.ui.views.computation.computation import ComputationView
from visformer.ui.views.masks.mask_lab import MaskLab
from visformer.ui.views.masks.masks import MasksPage, MasksView
from visformer.ui.views.output.output import NextToken, OutputView
from visformer.ui.views.positions.positions import PositionLab, PositionsView
from visformer.ui.widgets.cell_value import is_inside
from visformer.ui.widgets.heatmap import HeatMap
from visformer.ui.window.window import MainWindow
from visformer.values.attention_heads import bias_rows
from visformer.values.facts import KINDS, Kind
from visformer.values.finding import CheckResult, EvidencePlace
from visformer.values.heads_of_pairs import MEASURES, HeadsOfPairs
from visformer.values.measured import (
    Attribution,
    AttributionPlace,
    Attributions,
)
from visformer.values.reply import Reply
from visformer.words import number


@pytest.mark.parametrize("subsets", SUBSETS)
def test_every_tab_and_page_draws(window: MainWindow, subsets: Subsets) -> None:
    """A page is painted at the first step of a Trace or the last, by turns."""
    for turn, (kinds, case) in enumerate(each(subsets)):
        show_in(window, case.trace)
        for at, _page in enumerate(pages(window)):
            steps = 0, len(case.trace)
            for step in steps if (at + turn) % 2 else steps[::-1]:
                window.session.set(step=step)
            window.grab()
            for kind in KINDS:
                window.choose_kind(kind)
                assert window.session.state.kind in kinds
        assert window.session.state.error == "", case.name


@pytest.mark.parametrize("subsets", SUBSETS)
def test_every_stage_draws(qtbot: QtBot, subsets: Subsets) -> None:
    computation = make_view(qtbot, ComputationView, 1280, 600)
    for kinds, case in each(subsets):
        computation.session.do(show_trace, case.trace)
        for kind in kinds:
            computation.session.set(kind=kind)
            for stage in STAGES:
                computation.session.set(stage=stage.name)
                said = computation._words.text()
                assert said, (case.name, stage.name)
                if stage.weighs and case.trace.tokens(kind)[0]:
                    assert "only the attention of “any” is known" in said


@pytest.mark.parametrize("subsets", SUBSETS)
def test_every_form_and_summary_draws(window: MainWindow, subsets: Subsets) -> None:
    """Each summary is painted as it is and of words alone, by turns of the Traces."""
    for turn, (_, case) in enumerate(each(subsets)):
        show_in(window, case.trace)
        window.session.set(tab="attention")
        for at, (summary, form) in enumerate(
            zip(SUMMARIES, cycle(FORMS), strict=False)
        ):
            look = Look(form=form, summary=summary)
            hide: frozenset[TokenGroup] = frozenset({"special", "punctuation"})
            fewer = replace(look, words=True, hide=hide)
            for drawn in (look, fewer) if (at + turn) % 2 else (fewer, look):
                window.session.set(look=drawn)
            window.grab()
        window.session.set(look=Look())


@pytest.mark.parametrize("subsets", SUBSETS)
def test_the_numbers_are_the_models_own(window: MainWindow, subsets: Subsets) -> None:
    for kinds, case in every(subsets):
        show_in(window, case.trace)
        for layer, head in ((0, 3), (1, 1)):
            window.session.set(tab="attention", layer=layer, head=head)
            trace = shown(window)
            maps = view(window, AttentionView, "attention").maps
            for kind in kinds:
                want = weights(case, trace, kind, layer, head)
                got = maps[kind].matrix.values
                assert np.allclose(got, want, atol=1e-5), (case.name, kind)
                if want.size:
                    check_stages(window, case, kind, (layer, head))
        check_masks(window, kinds)
        check_output(window)


@pytest.mark.parametrize("subsets", SUBSETS)
def test_a_file_holds_the_same_numbers(
    window: MainWindow, qtbot: QtBot, tmp_path: Path, subsets: Subsets
) -> None:
    """Pages of all that a file may hold; of the same numbers they show the same."""
    for kinds, case in each(subsets):
        path = tmp_path / f"{case.name}.vis"
        case.trace.save(path)
        window.open(str(path))
        qtbot.waitUntil(lambda: not window.session.state.busy, timeout=30_000)
        assert window.notice.text() == "", case.name
        trace = shown(window)
        maps = view(window, AttentionView, "attention").maps
        for kind in kinds:
            layer, head = window.session.state.layer, window.session.state.head
            want = weights(case, case.trace, kind, layer, head)
            assert np.allclose(maps[kind].matrix.values, want, atol=1e-5), case.name
            assert trace.model.attention == case.trace.model.attention
        for _page in (
            pages(window) if case.name.startswith(("bias per", "captured")) else ()
        ):
            window.grab()


def check_stages(
    window: MainWindow, case: Case, kind: Kind, at: tuple[int, int]
) -> None:
    """The scale and the softmax stage hold the same numbers, step by step."""
    computation = view(window, ComputationView, "computation")
    window.session.set(kind=kind, stage="scale", locked=None)
    trace = shown(window)
    want = scaled(case, trace, kind, *at)
    numbers = computation._picture.table.values
    assert np.allclose(numbers[1], want[-1], atol=1e-4), (case.name, kind)
    cell = computation._subject
    score = number(float(want[cell.query, cell.key]))
    assert f"= {score}" in computation._words.text()
    biased = bool(trace.biases)
    own = 0 if trace.is_captured(kind, at[0]) else 2  # weights without and with scale
    assert len(numbers) == (4 if biased else 2) + own
    if own:
        made = weights(case, trace, kind, *at)[cell.query]
        assert np.allclose(numbers[-1], made, atol=1e-5)
    assert ("bias" in computation._formula.text()) == biased
    assert computation.stages["attention"].tabText(6) == (
        "× scale, + b" if biased else "× scale"
    )
    if biased:
        bias = bias_rows(trace.biases[kind][at[0]], slice(None), want.shape)
        row = bias[at[1] if len(bias) > 1 else 0][-1]
        assert np.allclose(numbers[2], row)
        assert np.allclose(numbers[3], want[-1] + row, atol=1e-4)
    window.session.set(stage="weighted")
    values = computation._picture.maps[1].make().values
    assert values.shape[1] == case.shape.value_size
    z = computation._picture.maps[2].make().values
    assert np.allclose(z, weights(case, trace, kind, *at) @ values, atol=1e-4)


def check_masks(window: MainWindow, kinds: tuple[Kind, ...]) -> None:
    masks, trace = view(window, MasksView, "masks"), shown(window)
    masks.turn("masks")
    maps = masks.page(MasksPage)._maps
    for (kind, part), thumb in maps.thumbs.items():
        there = kind in kinds and part == "combined"  # no rule is known
        assert thumb.isVisibleTo(masks) == there
        if there:
            thumb.click()
            mask = trace.mask(kind, window.session.state.layer)
            assert np.array_equal(maps.map.matrix.values, mask)


def check_output(window: MainWindow) -> None:
    output = view(window, OutputView, "output").page(NextToken)
    trace = shown(window)
    there = "decoder" in trace.model.stacks and trace.model.stacks["decoder"].output
    assert output._output.isVisibleTo(output) == there
    if there and len(trace):
        assert np.array_equal(output._output.matrix.values, trace.decoder_output)
    assert not output._steps_map.isVisibleTo(output)
    if "decoder" in trace.kinds:
        assert "There is no logit lens" in output._how.text()


@pytest.mark.parametrize("subsets", SUBSETS)
def test_what_is_not_there_is_said_and_not_offered(
    window: MainWindow, subsets: Subsets
) -> None:
    for kinds, case in each(subsets):
        show_in(window, case.trace)
        missing = missing_kinds_words(case.trace.model)
        attention = view(window, AttentionView, "attention")
        panels = {k: p.isVisibleTo(attention) for k, p in attention.panels.items()}
        assert panels == {kind: kind in kinds for kind in KINDS}
        assert attention._absent.text() == missing
        computation = view(window, ComputationView, "computation")
        assert _kinds(computation.choosers[0]) == [*kinds]
        assert computation._absent.text() == missing
        masks = view(window, MasksView, "masks")
        masks.turn("masks")
        assert missing in masks.page(MasksPage)._maps._legend.text()
        masks.turn("lab")
        assert _kinds(masks.page(MaskLab).fields.kind) == [*kinds]
        target = {"decoder", "cross"} & set(kinds)
        assert window.transport.isVisibleTo(window) == bool(target)
        assert window.strips.target.isVisibleTo(window) == bool(target)
        assert window.candidates.isVisibleTo(window) == bool(target)


def _kinds(box: QComboBox) -> list[Kind]:
    return [box.itemData(index) for index in range(box.count())]


@pytest.mark.parametrize("subsets", SUBSETS)
def test_labs_are_off_where_no_model_is_behind_the_trace(
    window: MainWindow, subsets: Subsets
) -> None:
    for kinds in subsets:
        show_in(window, any_trace(Shape(kinds=kinds)))
        check_labs(window)


def check_labs(window: MainWindow) -> None:
    positions = view(window, PositionsView, "positions")
    positions.turn("lab")
    masks = view(window, MasksView, "masks")
    masks.turn("lab")
    lab, places = masks.page(MaskLab), positions.page(PositionLab)
    own = lab.fields
    fields = own.causal, own.offset, own.masked_value, own.scaling, own.hide_button
    for field in (*fields, places.form, places.amount, places.seed, places.shuffle):
        assert not field.isEnabled()
    reason = "the model that made it is not open"
    assert reason in lab.text.text()
    assert reason in lab.fields.causal.toolTip()
    assert reason in places._fixed.text()
    for control in lab.findChildren(QWidget):
        field = isinstance(control, QComboBox | QSpinBox | QPushButton)
        if field and control.isEnabled() and control.isVisibleTo(lab):
            assert control in (lab.fields.kind, lab.fields.layers)
    before = window.session.state.intervention
    if lab.mask_map.matrix is not None and lab.mask_map.matrix.values.size:
        lab.mask_map.clicked.emit((0, 0))
    assert window.session.state.intervention == before


def test_no_page_marks_a_cell_of_another_run_than_was_measured(pair: Pair) -> None:
    """Sentence and model change under every page, with what was measured before."""
    window, engine = pair
    first = make_trace(source=6, target=5, layers=3, heads=4)
    window.receive(opened_model(first.model))
    translate(window, engine, "a b c d e f", first)
    for layers, heads in ((1, 2), (5, 8)):
        other = make_trace(source=3, target=2, layers=layers, heads=heads)
        for page in pages(window):
            window.session.set(**measured(window))
            window.receive(opened_model(other.model))
            window.translate(f"for {page} {layers}")
            number = len(engine.decodes)
            for step in (1, 2):
                window.receive(Decoded(number=number, trace=other.until(step), limit=9))
                window.session.set(step=step, layer=layers - 1, head=heads - 1)
                window.grab()
                assert_marks_are_inside(window)
            window.receive(Finished(number=number, step_ms=1))
            window.receive(opened_model(first.model))
            translate(window, engine, f"before {page} {layers}", first)
            window.session.set(step=4, layer=2, head=3)
            window.grab()
            assert_marks_are_inside(window)


def measured(window: MainWindow) -> dict[str, Any]:
    """Return what the pages may have measured of the run on screen."""
    state = window.session.state
    trace, opened, wanted = (
        unwrap(state.trace),
        unwrap(state.opened),
        unwrap(wanted_search(state)),
    )
    of = trace.storage
    fault = CheckResult("no-key", "Keys", "fault", at=EvidencePlace("cross", 2, 3, 4))
    names: tuple[str, ...] = KINDS
    ones = dict.fromkeys(names, np.ones((len(MEASURES), 3, 4)))
    along = point(trace, Path("step-1"), 0, recorded=True, importance={})
    places = [AttributionPlace("norms", kind, at) for kind in KINDS for at in range(3)]
    shares = dict.fromkeys(places, Attribution(values=np.ones((6, 6), np.float32)))
    return {
        "look": Look(summary="norms"),
        "importance": Reply(of=of, value=make_importance(trace)),
        "checks": Reply(of=of, value=(fault,)),
        "attributions": Attributions(of=of, known=shares),
        "search": Reply(of=(opened,), about=wanted, value=searched()),
        "heads": HeadsOfPairs(path="/x.tsv", model="m", sums=ones, counts=ones),
        "series": Series(folder="/steps", points=(along,), keys=(state.shown,)),
    }


def assert_marks_are_inside(window: MainWindow) -> None:
    """Look at every map in sight."""
    for one in window.tabs.findChildren(HeatMap):
        if one.isVisible() and one.matrix is not None and one.marks.cell is not None:
            assert is_inside(one.matrix, one.marks.cell), one.accessibleName()
