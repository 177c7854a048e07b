"""Texts that nobody types, typed into the window: sent as shown, drawn in every tab."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from tests.monkey.odd_texts import TEXTS
from tests.traces import make_trace
from tests.window.windows import Pair, answer
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


def test_odd_tokens_are_drawn(pair: Pair) -> None:
    """Pieces of such texts, as a tokenizer may cut them, in every tab."""
    window, engine = pair
    odd = [text for text in TEXTS if text]
    for view in VIEWS:
        window.session.set(tab=view.name)
        window.translate(f"abc {view.name}")
        for at in range(0, len(odd) - 4, 4):
            tokens = tuple(odd[at : at + 4])
            made = zip(TRACE.steps, tokens, strict=True)
            steps = [replace(step, token=token) for step, token in made]
            trace = replace(TRACE, source=tokens, target=tokens, steps=steps)
            answer(window, engine, trace)
            window.session.set(step=at % 5)
            QApplication.processEvents()
            assert not window.grab().isNull(), view.name
            window.translate(f"abc {view.name} {at}")
