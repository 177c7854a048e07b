"""Texts that nobody types, typed into the window: sent as shown, drawn in every tab."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from tests.monkey.odd_texts import TEXTS
from tests.traces import make_trace
from tests.ui.windows import Pair, answer
from visformer.ui.views import VIEWS

TRACE = make_trace(source=4, target=4, layers=2)


def paste(pair: Pair, qtbot: QtBot, text: str) -> None:
    window, _engine = pair
    QGuiApplication.clipboard().setText(text)
    window.source.setFocus()
    window.source.clear()
    qtbot.keyClick(window.source, Qt.Key.Key_V, Qt.KeyboardModifier.ControlModifier)
    qtbot.keyClick(window.source, Qt.Key.Key_Return)


def test_what_is_pasted_is_what_is_asked(pair: Pair, qtbot: QtBot) -> None:
    window, engine = pair
    for text in TEXTS:
        asked = len(engine.decodes)
        paste(pair, qtbot, text)
        held = window.source.text()
        if not held.strip():
            assert len(engine.decodes) == asked
            assert "type a sentence" in window.session.state.error
            continue
        assert engine.decodes[-1].source == held
        held.encode("utf-8")  # no half of a character goes on
        answer(window, engine, replace(TRACE, source_text=held))


@pytest.mark.parametrize("view", [view.name for view in VIEWS])
def test_odd_tokens_are_drawn(view: str, pair: Pair) -> None:
    """Pieces of such texts, as a tokenizer may cut them, at every step."""
    window, engine = pair
    window.session.set(tab=view)
    window.translate("abc")
    odd = [text for text in TEXTS if text]
    for at in range(0, len(odd) - 4, 4):
        tokens = tuple(odd[at : at + 4])
        steps = [replace(s, token=t) for s, t in zip(TRACE.steps, tokens, strict=True)]
        made = replace(TRACE, source=tokens, target=tokens, steps=steps)
        answer(window, engine, made)
        window.session.set(step=at % 5)
        QApplication.processEvents()
        assert not window.grab().isNull()
        window.translate(f"abc {at}")
