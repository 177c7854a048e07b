"""The window on modified runs: undo, redo, the unchanged run beside them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from pytestqt.qtbot import QtBot

from tests.traces import make_trace
from tests.window.exports import csv_of
from tests.window.painted import painted
from tests.window.parts import settle, unwrap, view_of
from tests.window.windows import Opened, answer
from visformer.engine.messages import Finished, Refused
from visformer.engine.mirror import Decoded
from visformer.pictures.attention.weights import head_weights
from visformer.ui.views.attention.attention import AttentionView
from visformer.ui.widgets.export import SHARPNESS, picture
from visformer.values.changes.mask_changes import Causal, HideSource
from visformer.values.intervention import NO_CHANGES, Intervention
from visformer.values.memo import same
from visformer.values.trace import Trace

OPEN = Intervention(masks=(Causal(None),))
HIDDEN = Intervention(masks=(HideSource(2),))


def altered(trace: Trace, intervention: Intervention, seed: int = 7) -> Trace:
    made = make_trace(source=6, target=len(trace), layers=3, seed=seed)
    return replace(made, source_text=trace.source_text, intervention=intervention)


def test_a_change_runs_the_sentence_again(opened: Opened) -> None:
    window, engine, plain = opened
    window.session.set(step=3)
    window.change_run(HIDDEN)
    assert engine.decodes[-1].intervention == HIDDEN
    assert engine.decodes[-1].source == "one two"
    assert "slow" in window.session.state.busy
    made = answer(window, engine, altered(plain, HIDDEN))
    state = window.session.state
    assert unwrap(state.trace).target == made.target
    assert state.baseline is plain
    assert state.step == 3
    assert window.modified.isVisible()
    assert window.modified.words.text().startswith("Modified run: hide 3")


def test_the_change_is_in_sight_beside_a_long_translation(opened: Opened) -> None:
    window, engine, _plain = opened
    window.change_run(OPEN)
    made = answer(window, engine, replace(make_trace(6, 30), intervention=OPEN))
    window.session.set(step=len(made))
    window.appearance.zoom_by(50)
    settle(3)
    seen = [word.text for word in painted(window, window.status).words]
    assert any(text.startswith("Modified run: causal off") for text in seen), seen


def test_each_step_shows_its_own_pass(opened: Opened) -> None:
    window, engine, plain = opened
    window.change_run(OPEN)
    passes = tuple(
        replace(altered(plain, OPEN, seed=n).until(n), source_text="one two")
        for n in range(6)
    )
    number = len(engine.decodes)
    window.receive(Decoded(number=number, trace=passes[-1], limit=9, passes=passes))
    window.receive(Finished(number=number, step_ms=1.0))
    for step in (2, 5, 1):
        window.session.set(step=step, tab="attention")
        assert window.session.state.visible is passes[step]
        found = head_weights(passes[step], "decoder", 0, 0)
        np.testing.assert_array_equal(found, passes[step].attention("decoder", 0, 0))


def test_the_baselines_text_is_said_once_the_changed_run_has_ended(
    opened: Opened, qtbot: QtBot
) -> None:
    window, engine, plain = opened
    window.change_run(HIDDEN)
    number = len(engine.decodes)
    half = altered(plain, HIDDEN).until(2)
    window.receive(Decoded(number=number, trace=half, limit=9))
    words = window.modified.words
    qtbot.waitUntil(lambda: words.text() == "Modified run: hide 3")
    window.receive(Finished(number=number, step_ms=1.0))
    said = f"Modified run: hide 3. Original text, without its end: “{plain.text}”"
    assert words.text() == said


def test_a_change_that_does_not_fit_is_said(opened: Opened) -> None:
    window, engine, plain = opened
    window.change_run(HIDDEN)
    number = len(engine.decodes)
    window.receive(Refused(number=number, reason="“hide 3”: the source has 2 tokens."))
    state = window.session.state
    assert state.error
    assert state.trace is plain
    assert "Requested change: hide 3" in window.modified.words.text()
    window.ways.undo()
    assert same(unwrap(window.session.state.trace).storage, plain.storage)
    assert not window.modified.isVisible()


def test_exports_say_what_altered_the_run(opened: Opened) -> None:
    window, engine, plain = opened
    heat_map = view_of(window, AttentionView).maps["cross"]
    export, before = heat_map.export, csv_of(heat_map.export)
    assert picture(heat_map).height() == SHARPNESS * heat_map.height()
    window.change_run(HIDDEN)
    answer(window, engine, replace(plain, intervention=HIDDEN))
    header, rows = csv_of(export).split("\n", 1)
    assert header.startswith('"modified run: hide 3",')
    assert rows == before.split("\n", 1)[1]
    assert picture(heat_map).height() > SHARPNESS * heat_map.height()
    window.change_run(NO_CHANGES)
    assert csv_of(export) == before


def test_an_audience_is_told_below_the_picture(opened: Opened) -> None:
    window, engine, plain = opened
    window.change_run(HIDDEN)
    answer(window, engine, altered(plain, HIDDEN))
    window.presentation.toggle()
    assert not window.modified.isVisible()
    mark = window.large._mark
    assert (mark.isVisible(), mark.text()) == (True, "modified run: hide 3")
    window.change_run(NO_CHANGES)
    assert not mark.isVisible()
    window.presentation.toggle()
