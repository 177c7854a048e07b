"""Terms are explained where the mouse rests, with the numbers of that moment."""

from __future__ import annotations

import html
from dataclasses import replace

import pytest
from PySide6.QtCore import QEvent, QPoint
from PySide6.QtGui import QHelpEvent
from PySide6.QtWidgets import QApplication, QToolTip, QWidget

from tests.window.windows import Pair, translate
from visformer.pictures.words.terms import term_words
from visformer.ui.widgets.term_tips import TermTip
from visformer.ui.window.window import MainWindow
from visformer.values.step import Strategy


def tip(widget: QWidget) -> str:
    return next(found for found in widget.findChildren(TermTip)).words


def test_tips_follow_the_step(pair: Pair) -> None:
    window, engine = pair
    trace = translate(window, engine, "one two")
    for step in (2, 4):
        window.session.set(step=step)
        bits = trace.steps[step - 1].entropy
        assert f"now {bits:.2f} bits" in tip(window.candidates.summary)
    assert f"S = {len(trace.source)}" in tip(window.strategy.limit)


def test_what_sampling_does_is_told_with_its_numbers(window: MainWindow) -> None:
    strategy = Strategy("sample", temperature=0.5, top_k=12, top_p=0.9, seed=7)
    window.session.set(wish=replace(window.session.state.wish, strategy=strategy))
    fields = window.strategy
    assert "T = 0.50" in tip(fields.temperature)
    assert "now 12" in tip(fields.top_k)
    assert "p = 0.90" in tip(fields.top_p)
    assert "now 7" in tip(fields.seed)


@pytest.mark.parametrize("tab", ["attention", "output"])
def test_tabs_have_tips(tab: str, pair: Pair) -> None:
    window, engine = pair
    translate(window, engine, "one two")
    window.session.set(tab=tab)
    tips = window.tabs.view(tab).findChildren(TermTip)
    assert len(tips) == 2
    assert all(len(found.words) > 30 for found in tips)


def test_the_tip_is_shown_as_plain_text(
    window: MainWindow, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []
    monkeypatch.setattr(QToolTip, "showText", lambda _at, text, _on: shown.append(text))
    at = QPoint(1, 1)
    event = QHelpEvent(QEvent.Type.ToolTip, at, at)
    QApplication.sendEvent(window.strategy.limit, event)
    words = term_words("limit", window.session.state.scene)
    assert shown == [f"<qt>{html.escape(words)}</qt>"]
