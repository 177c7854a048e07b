"""The next tokens unfolded: every token of the vocabulary, asked for when listed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from tests.opened import opened_model
from tests.traces import make_trace
from tests.window.painted import painted
from tests.window.parts import click
from tests.window.windows import Pair, reply, translate
from visformer.engine.messages import AllTokens
from visformer.ui.bars.candidates import CandidatesPanel
from visformer.values.measured import WholeDistribution
from visformer.values.step import Choice
from visformer.values.trace import Trace

SIZE = 3000


def whole(trace: Trace, row: int) -> WholeDistribution:
    """Return a distribution that goes on where the candidates of a row end."""
    known = [c.id for c in trace.steps[row].candidates]
    ids = [*known, *(id for id in range(SIZE) if id not in known)]
    tokens = tuple(f"w{id}" for id in ids)
    shares = np.linspace(0.5, 0, SIZE, dtype=np.float32)
    return WholeDistribution(ids=np.array(ids), tokens=tokens, probabilities=shares)


def seen(panel: CandidatesPanel) -> list[str]:
    """Return the texts that stand in the table."""
    QApplication.processEvents()
    return [word.text for word in painted(panel.table, panel.table.viewport()).words]


def test_all_are_listed_scrolled_and_forced(pair: Pair, qtbot: QtBot) -> None:
    window, engine = pair
    trace = make_trace(source=6, target=5, layers=3)
    window.receive(opened_model(trace.model))
    trace = translate(window, engine, "a b c", trace)
    window.session.set(step=3)
    panel = window.candidates
    few = len(panel.rows)
    click(qtbot, panel.others)
    (request,) = engine.of(AllTokens)
    assert request.row == 2
    assert len(panel.rows) == few  # what is known stands there meanwhile
    made = whole(trace, 2)
    reply(window, AllTokens, made)
    assert len(panel.rows) == SIZE
    assert panel.others.text() == "the best alone"
    bar = panel.table.verticalScrollBar()
    bar.setValue(bar.maximum())
    texts = seen(panel)
    assert {str(SIZE), f"w{made.ids[-1]}"} <= set(texts)
    assert f"w{made.ids[0]}" not in texts
    index = panel.table.model().index(SIZE - 1, 0)
    view, middle = panel.table.viewport(), panel.table.visualRect(index).center()
    before = panel.table.currentIndex()
    qtbot.mouseClick(view, Qt.MouseButton.RightButton, pos=middle)  # opens the menu
    assert panel.table.currentIndex() == before
    click(qtbot, view, middle)
    assert engine.decodes[-1].prefix[2] == Choice(int(made.ids[-1]), "forced")
    click(qtbot, panel.others)
    assert len(panel.rows) == few


def test_the_chosen_token_is_in_sight_however_far_down(pair: Pair) -> None:
    window, engine = pair
    trace = make_trace(source=6, target=5, layers=3)
    made = whole(trace, 2)
    last = int(made.ids[-1])
    rare = replace(trace.steps[2], id=last, token="z", rank=SIZE, origin="forced")
    trace = replace(trace, steps=(*trace.steps[:2], rare, *trace.steps[3:]))
    window.receive(opened_model(trace.model))
    translate(window, engine, "a b c", trace)
    window.session.set(step=3, unfolded=True)
    reply(window, AllTokens, made)
    assert {str(SIZE), f"w{last}"} <= set(seen(window.candidates))
