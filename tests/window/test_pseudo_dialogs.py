"""Dialogs, menus, tool tips and notices in the pseudo-language."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PySide6.QtCore import QEvent, QPoint
from PySide6.QtGui import QHelpEvent
from PySide6.QtWidgets import QApplication, QDialog, QFileDialog, QToolTip
from pytestqt.qtbot import QtBot

from tests.pseudo import Unmarked
from tests.states import ran
from tests.system.formats import layout_models
from tests.tiny_models import tiny_checkpoint
from tests.traces import fed, make_trace
from tests.window.parts import unwrap, view_of
from tests.window.pseudo_reader import LAYOUTS, Reader
from visformer import app
from visformer.core.decoding import Decoding
from visformer.engine.messages import Asked, Open
from visformer.errors import VisformerError
from visformer.formats.loading import checkpoint_files
from visformer.pictures.selection import ORDERS, SUMMARIES, Look
from visformer.pictures.words.run_notices import end_notice, source_notice
from visformer.session import runs
from visformer.text import MAX_CHARACTERS
from visformer.ui.bars.first_steps import FirstSteps
from visformer.ui.bars.strips import TokenStrip, chip_words
from visformer.ui.views.attention.attention import AttentionView
from visformer.ui.widgets.export import FORMATS
from visformer.ui.widgets.heatmap import HeatMap
from visformer.ui.widgets.term_tips import TermTip
from visformer.ui.window import actions
from visformer.values.facts import KINDS
from visformer.values.step import Origin
from visformer.values.trace import Trace


def test_tool_tips_that_follow_the_mouse(
    running: Reader, missing: Unmarked, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(QToolTip, "showText", lambda at, text, *_: said.append(text))
    window = running.window
    view = view_of(window, AttentionView)
    for look in (Look(), Look(order="entropy", words=True)):
        window.session.set(tab="attention", look=look)
        middle = QPoint(40, 60)
        place = view.overview.mapToGlobal(middle)
        help_event = QHelpEvent(QEvent.Type.ToolTip, middle, place)
        QApplication.sendEvent(view.overview, help_event)
        for strip in window.findChildren(TokenStrip):
            for x in (5, 15):
                qtbot.mouseMove(strip.widget(), QPoint(x, strip.height() // 3))
    assert len(said) >= 6
    for text in said:
        running.note(text)
    running.check(missing)


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
    running.check(missing)


def test_file_dialogs(
    running: Reader, missing: Unmarked, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(dialog: QFileDialog) -> None:
        running.note(dialog.windowTitle())
        for pattern in dialog.nameFilters():
            if pattern != "All Files (*)":  # Qt's own, for a folder
                running.note(pattern.split("(*")[0])
        asked.append(dialog.windowTitle())
        dialog.setParent(None)  # Qt's own words in it are not ours to translate
        dialog.deleteLater()

    def saved(_parent: object, title: str, *_names: str) -> tuple[str, str]:
        running.note(title)
        asked.append(title)
        return "/no/such/folder/x", ""

    asked: list[str] = []
    monkeypatch.setattr(QFileDialog, "open", opened)
    monkeypatch.setattr(QFileDialog, "getSaveFileName", saved)
    window = running.window
    actions.choose_folder(window)
    actions.choose_files(window)
    actions.choose_tokenizer(window)
    actions._save_trace(window)
    running.read()
    actions._save_window(window)
    running.read()
    window.session.set(tab="attention")
    for form in FORMATS:
        window.findChildren(HeatMap)[0].export.save(form)
        running.read()
    assert len(asked) == 7
    running.check(missing)


def test_the_form_of_a_file(reader: Reader, missing: Unmarked, tmp_path: Path) -> None:
    window = reader.window
    for layout in LAYOUTS:
        path = tmp_path / layout / "5.pt"
        path.parent.mkdir()
        torch.save(layout_models.state(getattr(layout_models, layout)), path)
        form = checkpoint_files(str(path), ()).questionnaire(every=True)
        assert form is not None, layout
        window.open(str(path))
        number = -len(reader.engine.of(Open))
        window.receive(Asked(number=number, path=str(path), form=form))
        assert window.form.isVisible(), layout
        reader.read()
        reader.read(window.form)
        window.session.set(busy="", error="")
        window.form.accept()
        reader.read(window.form)
        window.form.reject()
        reader.check(missing, layout)


def test_what_is_known_of_a_file(
    reader: Reader, missing: Unmarked, tmp_path: Path
) -> None:
    for layout in LAYOUTS:
        path = tmp_path / layout / "5.pt"
        path.parent.mkdir()
        torch.save(layout_models.state(getattr(layout_models, layout)), path)
        given = (("heads", 2),)
        reader.checkpoint = checkpoint_files(str(path), given).load(torch.device("cpu"))
        reader.open()
        reader.window.about.click()
        (dialog,) = (d for d in reader.window.findChildren(QDialog) if d.isVisible())
        reader.read(dialog)
        dialog.close()
        reader.read()
        reader.check(missing, layout)


def test_notices_and_errors(running: Reader, missing: Unmarked) -> None:
    window = running.window
    window.transport.toggle()
    running.read()
    window.transport.pause()
    for text in ("", "a" * (MAX_CHARACTERS + 1)):
        window._submit(text)
        running.read()
    window.translate("abcde")
    running.give(replace(make_trace(), truncated_from=600))
    running.read()
    window.guarded(lambda: actions.open_together(window, ["a.model"] * 3))
    running.read()
    window.session.set(**ran(None), error="")
    actions._save_trace(window)
    running.read()
    running.check(missing)


def test_a_choice_of_the_users(running: Reader, missing: Unmarked) -> None:
    window = running.window
    window.candidates.chosen.emit(9)
    trace = unwrap(window.session.state.trace)
    steps = [replace(step, origin="forced") for step in trace.steps]
    running.give(replace(trace, steps=tuple(steps)))
    running.every_tab()
    running.check(missing)


def test_numbers_that_are_not(running: Reader, missing: Unmarked) -> None:
    trace = unwrap(running.window.session.state.trace)
    rows = np.full_like(trace.decoder_rows, np.nan)
    steps = [replace(step, probability=float("nan")) for step in trace.steps]
    running.window.translate("abcde")
    running.give(replace(trace, decoder_rows=rows, steps=tuple(steps)))
    running.window.session.set(step=3)
    running.every_tab()
    running.check(missing)


def test_a_window_without_an_engine(missing: Unmarked) -> None:
    engine: Any = app.NoEngine()
    said = []
    for ask in (engine.open, engine.ask):
        with pytest.raises(VisformerError) as raised:
            ask(Open(path="/m"))
        said.append(str(raised.value))
    assert all(text.startswith("⟦") for text in said)


def test_ids_instead_of_text(reader: Reader, missing: Unmarked) -> None:
    reader.checkpoint = tiny_checkpoint()
    reader.open()
    opened = unwrap(reader.window.session.state.opened)
    reader.window.receive(replace(opened, numbers=30))
    reader.read()
    reader.window.about.click()
    (dialog,) = (d for d in reader.window.findChildren(QDialog) if d.isVisible())
    reader.read(dialog)
    dialog.close()
    reader.check(missing)


# ---- teacher forcing and forced tokens --------------------------------------------


def of(reader: Reader, origin: Origin, wrong: tuple[int, ...]) -> Trace:
    trace = Decoding(reader.checkpoint, "abcde", limit=6).finish()
    return fed(trace, dict.fromkeys(range(len(trace)), origin), wrong, id=1)


@pytest.mark.parametrize("origin", ["reference", "forced"])
def test_tokens_that_were_not_chosen(
    running: Reader, missing: Unmarked, origin: Origin
) -> None:
    window = running.window
    window.reference.setText("abcde")
    window.reference.submit()
    running.give(of(running, origin, (1, 2)))
    for step in (1, 2, 3):  # as the model says, and not
        window.session.set(step=step)
        running.every_tab(paint=step == 3)
        for chip in window.strips.target.row.chips:
            running.note(chip_words(chip))
    window.session.do(runs.teach, fed=False)
    running.decoded()
    running.every_tab(paint=False)
    running.check(missing)


def test_what_terms_mean(running: Reader, missing: Unmarked) -> None:
    session = running.window.session
    for tab in ("attention", "output"):
        session.set(tab=tab)
        running.answer()
    for kind in KINDS:
        looks = [Look(order=order) for order in ORDERS]
        looks += [Look(summary=summary) for summary in SUMMARIES]
        for look in looks:
            session.set(kind=kind, look=look)
            for tip in running.window.findChildren(TermTip):
                running.note(tip.words)
    running.check(missing)


def test_the_first_card_and_notices(running: Reader, missing: Unmarked) -> None:
    running.read(FirstSteps(running.window))
    trace = unwrap(running.window.session.state.trace)
    running.note(source_notice(trace))
    running.note(end_notice(trace, len(trace)))
    running.check(missing)
