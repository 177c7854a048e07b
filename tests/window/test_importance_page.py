"""The Importance page of the Diagnosis tab."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from tests.importances import make_importance, over_pairs, with_patches
from tests.opened import opened_model
from tests.traces import make_trace
from tests.window.parts import click, unwrap, view_of
from tests.window.windows import FakeEngine, Pair, answer, number_of, reply, translate
from visformer.engine.messages import Finished, Refused, SwitchOff, SwitchOffOverPairs
from visformer.engine.mirror import Decoded
from visformer.session import tree
from visformer.ui.views.diagnosis import importance_page
from visformer.ui.views.diagnosis.diagnosis import DiagnosisView
from visformer.ui.views.diagnosis.importance_page import ImportancePage
from visformer.ui.window.window import MainWindow

TRACE = make_trace(source=6, target=5)
LAST = TRACE.layers("cross") - 1


Turned = tuple[MainWindow, FakeEngine, ImportancePage]


@pytest.fixture
def turned(pair: Pair) -> Turned:
    window, engine = pair
    window.receive(opened_model(TRACE.model))
    translate(window, engine, "one two", TRACE)
    window.session.go(window.session.state.turned("diagnosis", "importance"))
    window.session.set(tab="diagnosis")
    return window, engine, view_of(window, DiagnosisView).page(ImportancePage)


def test_heads_are_measured_shown_and_looked_at(turned: Turned, qtbot: QtBot) -> None:
    window, engine, page = turned
    assert len(engine.of(SwitchOff)) == 1
    assert "switched off in turn" in page.words.text()
    assert not page.maps[0][0].isVisible()
    made = make_importance(window.session.state.trace or TRACE)
    reply(window, SwitchOff, made)
    assert "It falls most without" in page.words.text()
    exact, estimate, missed = page.maps[2]
    assert exact.isVisible()
    assert missed.isVisible()
    assert "cross 1.00" in page.agreement.text()
    assert page.source.numbers is not None
    where = exact.canvas.box(LAST, 0).center()
    qtbot.mouseMove(exact.canvas, where)
    assert estimate.value.isVisible()  # the same head in both
    click(qtbot, exact.canvas, where)
    state = window.session.state
    assert (state.kind, state.layer, state.head) == ("cross", LAST, 0)
    assert state.tab == "diagnosis"
    other = page.maps[0][0].canvas
    qtbot.mouseDClick(other, Qt.MouseButton.LeftButton, pos=other.box(0, 1).center())
    state = window.session.state
    assert (state.tab, state.kind, state.layer, state.head) == (
        *("attention", "encoder"),
        *(0, 1),
    )
    window.session.set(tab="diagnosis")
    page.maps[0][0].setFocus()
    qtbot.keyClick(page.maps[0][0], Qt.Key.Key_Return)
    assert window.session.state.tab == "attention"


def test_what_cannot_be_measured_says_why(turned: Turned) -> None:
    window, engine, page = turned
    number = number_of(window, SwitchOff)
    window.receive(Refused(number=number, reason="Its heads are out of reach."))
    assert page.words.text() == "Its heads are out of reach."
    assert not page.maps[0][0].isVisible()
    page.again.click()
    assert len(engine.of(SwitchOff)) == 2


def test_a_file_of_pairs_has_its_mean_and_spread(
    turned: Turned, monkeypatch: pytest.MonkeyPatch
) -> None:
    window, engine, page = turned
    reply(window, SwitchOff, make_importance(TRACE))
    monkeypatch.setattr(importance_page, "asked_pairs", lambda _page: "/x/refs.tsv")
    page.over.click()
    assert [one.path for one in engine.of(SwitchOffOverPairs)] == ["/x/refs.tsv"]
    reply(window, SwitchOffOverPairs, over_pairs(TRACE))
    assert page.words.text().startswith("refs.tsv: ")
    mean, spread, nothing = page.maps[2]
    assert mean.isVisible()
    assert "standard deviation" in unwrap(spread.matrix).title
    assert not nothing.isVisible()
    assert not page.layers.isVisible()
    page.back.click()
    assert len(engine.of(SwitchOff)) == 2


def test_streams_of_the_run_beside_are_patched(turned: Turned) -> None:
    window, engine, page = turned
    reply(window, SwitchOff, make_importance(TRACE))
    assert not page.patched[0].isVisible()
    assert "Pin a run" in page.patched_words.text()
    first = window.session.state.shown
    window.translate("one three")
    other = make_trace(source=6, target=5, seed=4)
    answer(window, engine, replace(other, source=other.source[::-1]))
    reply(window, SwitchOff, make_importance(TRACE))
    window.session.do(tree.pin, first)
    asked = engine.of(SwitchOff)[-1]
    assert (asked.source, asked.other) == ("one three", "one two")
    trace = unwrap(window.session.state.trace)
    reply(window, SwitchOff, with_patches(trace))
    assert all(one.isVisible() for one in page.patched)
    assert "“one two”" in page.patched_words.text()
    assert "−6.50" in page.patched_words.text()
    assert unwrap(page.patched[0].matrix).values[0].tolist() == [0, 4, 0, 0, 0, 0]


def test_no_cell_is_marked_of_another_run_than_was_measured(turned: Turned) -> None:
    """Runs with fewer and with more heads and layers follow the one measured."""
    window, engine, page = turned
    reply(window, SwitchOff, make_importance(TRACE))
    shown = page.maps[2][0]
    window.session.set(kind="cross", layer=LAST, head=1)
    assert shown.marks.cell == (LAST, 1)
    for layers, heads in ((1, 2), (4, 4)):
        other = make_trace(source=3, target=2, layers=layers, heads=heads)
        window.receive(opened_model(other.model))
        window.translate("two")
        number = len(engine.decodes)
        window.receive(Decoded(number=number, trace=other.until(1), limit=20))
        window.session.set(layer=layers - 1, head=heads - 1)
        assert not shown.isVisible()  # the run before this one was measured
        assert page.words.text() == ""
        window.receive(Decoded(number=number, trace=other, limit=20))
        window.receive(Finished(number=number, step_ms=2.5))
        reply(window, SwitchOff, make_importance(other))
        assert shown.isVisible()
        assert shown.marks.cell == (layers - 1, heads - 1)


def test_a_file_measured_marks_no_head_of_a_recorded_run(
    turned: Turned, monkeypatch: pytest.MonkeyPatch
) -> None:
    window, _engine, page = turned
    monkeypatch.setattr(importance_page, "asked_pairs", lambda _page: "/x/refs.tsv")
    reply(window, SwitchOff, make_importance(TRACE))
    page.over.click()
    reply(window, SwitchOffOverPairs, over_pairs(TRACE))
    window.session.set(kind="cross", layer=0, head=1)
    assert page.maps[2][0].marks.cell == (0, 1)
    window.show_telling(make_trace(source=6, target=5, layers=4, heads=4))
    window.session.set(tab="diagnosis", kind="cross", layer=3, head=3)
    assert page.maps[2][0].isVisible()
    assert page.maps[2][0].marks.cell is None
