"""The real window on a fake engine: what a user does, what is asked and shown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from tests.bench.windows import attention_of
from tests.states import ran
from tests.traces import fed, make_trace
from tests.window.parts import click, settle, unwrap
from tests.window.windows import Pair, answer, make_window, reply, translate
from visformer.engine.messages import FindTokens, Progressed
from visformer.engine.mirror import Decoded
from visformer.pictures.words.scene import telling_head
from visformer.ui.bars.source_line import HISTORY, SourceLine
from visformer.ui.bars.transport import SPEEDS
from visformer.ui.views import VIEWS
from visformer.ui.window.window import MainWindow
from visformer.values.intervention import parse
from visformer.values.step import Choice, Strategy


@pytest.fixture
def translated(pair: Pair, qtbot: QtBot) -> Pair:
    window, engine = pair
    window.source.setFocus()
    qtbot.keyClicks(window.source, "I have a cat.")
    qtbot.keyClick(window.source, Qt.Key.Key_Return)
    answer(window, engine)
    return pair


def test_enter_shows_the_whole_translation_where_it_says_most(translated: Pair) -> None:
    window, _engine = translated
    trace, words = unwrap(window.session.state.trace), window.sentence.words
    assert window.session.state.step == telling_head(trace).step == 3
    assert words.text() == trace.text
    assert words.rest == trace.text.removeprefix(trace.until(3).text)
    window.sentence.copy.click()
    assert QApplication.clipboard().text() == trace.text
    rows = unwrap(attention_of(window).maps["cross"].matrix)
    assert rows.ahead is not None
    assert len(rows.ahead) == 5
    window.appearance.show_ahead(False)
    assert words.text() == trace.until(3).text
    assert unwrap(attention_of(window).maps["cross"].matrix).ahead is None
    window.appearance.show_ahead(True)


def test_where_nothing_is_shown_ahead_enter_begins_at_step_one(pair: Pair) -> None:
    window, engine = pair
    window.appearance.show_ahead(False)
    translate(window, engine, "I have a cat.")
    assert engine.decodes[0].source == "I have a cat."
    assert window.session.state.step == 1
    assert len(window.strips.target.row.chips) == 2  # <s> and the first choice
    assert not window.session.state.busy
    seen = []
    for steps in (5, 9):  # no room tells how many there will be
        answer(window, engine, make_trace(source=6, target=steps, layers=3))
        window.session.set(step=1)
        QApplication.processEvents()
        canvas = attention_of(window).maps["cross"].canvas
        seen.append((canvas.geometry(), canvas.view, window.transport._where.text()))
    assert seen[0] == seen[1]
    window.appearance.show_ahead(True)


def test_the_status_line_says_where_and_how_fast(translated: Pair) -> None:
    window, _ = translated
    trace = unwrap(window.session.state.visible)
    assert window.status.engine.text() == "cpu | 2.5 ms/step"
    assert window.sentence.words.text().startswith(trace.until(3).text)


def test_stop_while_a_source_is_encoded_leaves_the_finished_run_on_screen(
    translated: Pair, qtbot: QtBot
) -> None:
    window, engine = translated
    QApplication.processEvents()
    trace, before = window.session.state.trace, window.tabs.grab().toImage()
    window.translate("I have a cat. " * 99)
    window.receive(Progressed(number=2, done=40, of=100, part=""))
    assert window.session.state.busy == "decoding: 40% of the source is encoded"
    qtbot.keyClick(window, Qt.Key.Key_Period, Qt.KeyboardModifier.ControlModifier)
    assert engine.stopped == 1
    assert (window.session.state.busy, window.notice.text()) == ("", "Stopped.")
    late = Decoded(number=2, trace=make_trace(source=9), limit=9)
    for event in (Progressed(number=2, done=60, of=100, part=""), late):
        window.receive(event)
    assert window.session.state.trace is trace
    assert window.session.state.busy == ""
    QApplication.processEvents()
    assert (window.tabs.grab().toImage() == before) is True


def test_typing_alone_asks_for_nothing(pair: Pair, qtbot: QtBot) -> None:
    window, engine = pair
    qtbot.keyClicks(window.source, "a 1 2 3 cat")
    assert engine.decodes == []
    assert window.source.text() == "a 1 2 3 cat"


def test_the_arrows_step_after_enter_and_up_or_slash_goes_back_to_the_sentence(
    translated: Pair, qtbot: QtBot
) -> None:
    window, _ = translated
    for back in (Qt.Key.Key_Up, Qt.Key.Key_Slash):
        assert window.focusWidget() is window.tabs.bar
        step = window.session.state.step
        qtbot.keyClick(window.focusWidget(), Qt.Key.Key_Right)
        assert window.session.state.step == step + 1
        qtbot.keyClick(window.focusWidget(), back)
        assert window.focusWidget() is window.source
        qtbot.keyClicks(window.source, "a dog")  # in place of what was there
        assert window.source.text() == "a dog"
        qtbot.keyClick(window.source, Qt.Key.Key_Return)
        answer(*translated)
    window.source.take_focus()
    window.source.clear()
    qtbot.keyClick(window.source, Qt.Key.Key_Return)
    assert window.focusWidget() is window.source  # there is something to correct


def test_page_keys_step_from_the_text_field(translated: Pair, qtbot: QtBot) -> None:
    window, _ = translated
    window.source.setFocus()
    window.session.set(step=1)
    qtbot.keyClick(window.source, Qt.Key.Key_PageDown)
    assert window.session.state.step == 2
    qtbot.keyClick(window.source, Qt.Key.Key_PageUp)
    assert window.session.state.step == 1


def test_stepping_asks_for_nothing(translated: Pair) -> None:
    window, engine = translated
    for _ in range(3):
        window.transport.forward()
        window.transport.back()
    assert len(engine.decodes) == 1


def test_play_goes_to_the_end_and_stops(translated: Pair, qtbot: QtBot) -> None:
    window, _ = translated
    transport, timer = window.transport, window.transport._timer
    transport.speed.setValue(transport.speed.maximum())
    assert timer.interval() == round(1000 / SPEEDS[-1])
    window.session.set(step=1)
    qtbot.keyClick(window.tabs, Qt.Key.Key_Space)
    timer.setInterval(1 << 30)  # the test turns the clock
    seen = []
    while transport.playing:
        timer.timeout.emit()
        seen.append(window.session.state.step)
    assert seen == [2, 3, 4, 5, 5]
    qtbot.keyClick(window.tabs, Qt.Key.Key_Space)  # from the start again
    assert (window.session.state.step, transport.playing) == (0, True)
    qtbot.keyClick(window.tabs, Qt.Key.Key_Space)
    assert not transport.playing


def test_a_row_of_the_table_forces_that_token(translated: Pair, qtbot: QtBot) -> None:
    window, engine = translated
    window.session.set(step=3)
    table = window.candidates.table
    box = table.visualRect(table.model().index(2, 1))
    click(qtbot, table.viewport(), box.center())
    trace = unwrap(window.session.state.trace)
    wanted = trace.steps[2].candidates[2].id
    prefix = engine.decodes[-1].prefix
    assert prefix == (
        Choice(trace.steps[0].id, "model"),
        Choice(trace.steps[1].id, "model"),
        Choice(wanted, "forced"),
    )
    answer(window, engine)
    assert window.session.state.step == 3


def test_a_token_of_the_target_goes_to_its_step(translated: Pair, qtbot: QtBot) -> None:
    window, _ = translated
    window.session.set(step=5)
    row = window.strips.target.row
    click(qtbot, row, row.boxes[2].center())
    assert window.session.state.step == 2


def test_a_reference_is_fed_and_shown_whole(translated: Pair, qtbot: QtBot) -> None:
    window, engine = translated
    qtbot.keyClicks(window.reference, "un chat")
    qtbot.keyClick(window.reference, Qt.Key.Key_Return)
    assert (engine.decodes[-1].source, engine.decodes[-1].reference) == (
        "I have a cat.",
        "un chat",
    )
    trace = make_trace(target=5)
    answer(window, engine, fed(trace, dict.fromkeys(range(5), "reference")))
    window.session.set(step=1)
    chips = window.strips.target.row.chips
    assert [chip.later for chip in chips] == [False, False, True, True, True, True]
    assert all(chip.loss is not None for chip in chips[1:])


def test_history_walks_with_up_and_down(translated: Pair, qtbot: QtBot) -> None:
    window, _ = translated
    window.source.setText("Go home.")
    window.source.submit()
    window.source.setText("draft")
    seen = []
    for key in (Qt.Key.Key_Up, Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_Down):
        qtbot.keyClick(window.source, key)
        seen.append(window.source.text())
    assert seen == ["Go home.", "I have a cat.", "Go home.", "draft"]


def test_of_many_sentences_the_last_ones_are_remembered(qtbot: QtBot) -> None:
    line = SourceLine("name", "hint")
    qtbot.addWidget(line)
    sentences = [f"sentence {at}" for at in range(HISTORY + 2)]
    for sentence in sentences:
        line.remember(sentence)
    assert line.history == sentences[2:]


def test_a_cut_sentence_is_said(pair: Pair) -> None:
    window, engine = pair
    window.source.setText("a " * 2000)
    window.source.submit()
    answer(window, engine, replace(make_trace(), truncated_from=5204))
    assert window.notice.text().startswith(
        "The sentence has 5,204 tokens, the model 4,096 positions"
    )


def test_every_tab_draws_in_every_theme(qtbot: QtBot, translated: Pair) -> None:
    window, _ = translated
    for theme in ("dark", "contrast", "light"):
        window.appearance.set_theme(theme)
        qtbot.waitUntil(window.body.updatesEnabled)
        for name in [view.name for view in VIEWS]:
            window.session.set(tab=name)
            image = window.grab().toImage()
            pixels = {
                image.pixel(QPoint(x, y))
                for x in range(0, image.width(), 7)
                for y in range(0, image.height(), 7)
            }
            assert len(pixels) > 10


def test_zoom_has_bounds(window: MainWindow) -> None:
    window.appearance.zoom_by(1000)
    assert window.appearance.zoom == 300
    window.appearance.zoom_by(0)
    assert window.appearance.zoom == 100


def test_settings_survive(pair: Pair, qtbot: QtBot, tmp_path: Path) -> None:
    window, engine = pair
    window.appearance.set_theme("dark")
    window.source.setText("I have a cat.")
    window.source.submit()
    assert len(engine.decodes) == 1
    window.tabs.middle.moveSplitter(700, 1)
    side = window.candidates.width()
    window.close()
    again, _ = make_window(qtbot, tmp_path)
    assert again.appearance.theme == "dark"
    assert again.source.history == ["I have a cat."]
    line = again.fontMetrics().height()  # it is remembered in lines
    assert abs(again.candidates.width() - side) <= line
    assert side > 500


def test_how_tokens_are_chosen_is_one_with_the_state(translated: Pair) -> None:
    window, engine = translated
    controls = window.strategy
    controls.limit.setValue(9)
    controls.name.setCurrentIndex(1)
    controls.seed.setValue(4)
    wish = window.session.state.wish
    assert (wish.strategy, wish.limit) == (Strategy(name="sample", seed=4), 9)
    assert (engine.decodes[-1].strategy, engine.decodes[-1].limit) == (wish.strategy, 9)
    controls.limit.setValue(0)  # as many as the model allows
    assert engine.decodes[-1].limit is None
    asked = len(engine.decodes)
    window.session.set(wish=replace(wish, strategy=Strategy(), limit=None))
    assert controls.name.currentText() == "greedy"
    assert (controls.limit.value(), controls.seed.value()) == (0, 0)
    assert not controls.seed.isEnabled()
    assert len(engine.decodes) == asked  # drawing asks for nothing


def test_beams_choose_the_tokens(translated: Pair) -> None:
    window, engine = translated
    controls = window.strategy
    assert not controls.beams.isEnabled()
    controls.name.setCurrentIndex(controls.name.findData("beam"))
    assert controls.beams.isEnabled()
    assert engine.decodes[-1].strategy == Strategy("beam")
    assert not controls.seed.isEnabled()
    controls.beams.setValue(6)
    assert engine.decodes[-1].strategy == Strategy("beam", beams=6)
    assert "6 beams" in window.drawer.button.text()


def test_a_typed_token_is_found_and_forced(translated: Pair, qtbot: QtBot) -> None:
    window, engine = translated
    window.session.set(step=3)
    panel = window.candidates
    qtbot.keyClicks(panel.field, "zeb")
    (*_, asked) = engine.of(FindTokens)
    assert asked.text == "zeb"
    found = ((91, "▁zebra"), (92, "zeb"))
    reply(window, FindTokens, found)
    assert [(row.id, row.token) for row in panel.rows] == [(91, "zebra"), (92, "‑zeb")]
    qtbot.keyClick(panel.field, Qt.Key.Key_Return)
    assert engine.decodes[-1].prefix[-1] == Choice(91, "forced")
    assert panel.field.text() == ""


def test_the_table_follows_the_size_of_the_text_at_once(translated: Pair) -> None:
    window, _ = translated
    table = window.candidates.table
    for zoom in (50, 50, -100):
        window.appearance.zoom_by(zoom)
        line = table.fontMetrics().height()
        assert table.rowHeight(0) >= line
        assert table.rowHeight(0) < 2 * line
        box = table.visualRect(table.model().index(1, 0))
        assert table.rowAt(box.center().y()) == 1


def test_nothing_pushes_the_pictures(translated: Pair) -> None:
    window, engine = translated
    window.resize(700, 600)
    window.session.set(step=3)
    QApplication.processEvents()
    place = window.large.geometry()
    for said in ({"notice": "x " * 400}, {"error": "y"}, {"error": "", "notice": ""}):
        window.session.set(**said)  # type: ignore[arg-type]
        settle(3)
        now = window.large.geometry()
        assert (now.topLeft(), now.width()) == (place.topLeft(), place.width())
    assert now == place  # what gave way to the messages is back
    window.change_run(parse(["multiply"]))
    answer(window, engine)
    QApplication.processEvents()
    assert window.modified.isVisible()
    assert window.large.geometry() == place
    status = window.status
    bottom = window.large.mapTo(window, window.large.rect().bottomLeft()).y()
    assert window.modified.mapTo(window, QPoint()).y() > bottom  # nor covers them
    assert window.modified.height() <= status.height()
    for step in (0, 5, 1):  # long strips scroll, and keep their height
        window.session.set(step=step)
        QApplication.processEvents()
        assert window.large.geometry() == place


def test_what_is_folded_stays_folded_until_the_layout_is_reset(
    window: MainWindow, qtbot: QtBot, tmp_path: Path
) -> None:
    window.session.set(**ran(make_trace()), step=2)
    look = window.appearance
    window.side.show(False)
    look.explain(False)
    look.show_ahead(False)
    look.show_tokens(False)
    window.close()
    again, _engine = make_window(qtbot, tmp_path)
    again.session.set(**ran(make_trace()), step=2)
    folded = again.candidates, again.tabs.explanation, again.transport.steps
    parts = *folded, again.strips.target
    assert [part.isVisible() for part in parts] == [False] * 4
    assert again.transport._where.text() == "step 2"
    again.appearance.reset()
    assert [part.isVisible() for part in parts] == [True] * 4
    assert again.transport._where.text() == "step 2 of 4"
    assert again.candidates.shown.rows
