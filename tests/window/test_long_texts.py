"""Very long texts in the source line: the loop goes on, what is cut is said."""

from __future__ import annotations

import time
from dataclasses import replace

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication, QLineEdit
from pytestqt.qtbot import QtBot

from tests.monkey.odd_texts import TEXTS
from tests.traces import make_trace
from tests.window.windows import Pair, answer
from visformer.text import MAX_CHARACTERS
from visformer.ui.bars.source_line import SHOWN, SourceLine
from visformer.ui.views import VIEWS

MEGABYTE = "word " * 200_000


def test_a_megabyte_does_not_hold_the_loop(pair: Pair, qtbot: QtBot) -> None:
    """Processor time, which other programs do not lengthen."""
    window, engine = pair
    QGuiApplication.clipboard().setText(MEGABYTE)
    window.source.setFocus()
    began = time.thread_time()
    qtbot.keyClick(
        window.source, Qt.Key.Key_V, modifier=Qt.KeyboardModifier.ControlModifier
    )
    QApplication.processEvents()
    pasted = time.thread_time() - began
    qtbot.keyClick(window.source, Qt.Key.Key_Return)
    QApplication.processEvents()
    submitted = time.thread_time() - began - pasted
    assert engine.decodes[-1].source == MEGABYTE
    assert "All 1,000,000 characters are read" in window.notice.text()
    answer(window, engine)
    assert max(pasted, submitted) < 0.05
    assert window.source.history == []  # it would fill the settings


def test_a_text_over_a_million_characters_is_cut_with_a_notice(pair: Pair) -> None:
    window, engine = pair
    window.translate(MEGABYTE + "more")
    assert len(engine.decodes[-1].source) == MAX_CHARACTERS
    assert "of its 1,000,004 characters the first 1,000,000" in window.notice.text()


def test_a_text_from_elsewhere_is_shown_from_its_beginning(qtbot: QtBot) -> None:
    line = SourceLine("name", "hint")
    qtbot.addWidget(line)
    line.take("word " * 100)
    assert line.cursorPosition() == 0
    line.setText("other " * 100)
    assert line.cursorPosition() == 0


def test_editing_what_is_shown_drops_the_rest(qtbot: QtBot) -> None:
    line = SourceLine("name", "hint")
    qtbot.addWidget(line)
    told: list[str] = []
    line.told.connect(told.append)
    line.setText(MEGABYTE)
    assert line.text() == MEGABYTE
    assert QLineEdit.text(line) == MEGABYTE[:SHOWN]
    assert len(told) == 1
    line.end(False)
    line.backspace()
    assert line.text() == MEGABYTE[: SHOWN - 1]
    assert not line.note
    line.setText(MEGABYTE)
    line.clear()
    assert line.text() == ""


def test_what_is_pasted_or_typed_has_no_control_characters(qtbot: QtBot) -> None:
    line = SourceLine("name", "hint")
    qtbot.addWidget(line)
    for length in (1, SHOWN):
        QGuiApplication.clipboard().setText("a\x03b\x1b" * length)
        line.setText("")
        line.paste()
        assert line.text() == "a b " * length
    line.setText("")
    line.insert("a\x03b\tc")  # as what is dropped there
    assert line.text() == "a b\tc"


def test_a_long_paste_goes_to_the_cursor(qtbot: QtBot) -> None:
    line = SourceLine("name", "hint")
    qtbot.addWidget(line)
    line.setText("head tail")
    line.setSelection(5, 4)
    QGuiApplication.clipboard().setText("x\n" * SHOWN)
    line.paste()
    assert line.text() == "head " + " ".join("x" * SHOWN)
    QGuiApplication.clipboard().setText("short")
    line.setText("")
    line.paste()
    assert line.text() == "short"


# ---- texts that nobody types ------------------------------------------------------


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
