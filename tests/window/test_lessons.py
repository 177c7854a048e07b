"""A lesson in the window: walked with the page keys, left, asked, done, presented."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtWidgets import QApplication, QLabel, QMenu, QScrollArea
from pytestqt.qtbot import QtBot

from tests.opened import opened_model
from tests.traces import make_trace
from tests.window.painted import painted
from tests.window.parts import click, drop, settle, unwrap
from tests.window.windows import Pair, answer, named
from visformer import paths
from visformer.app import App
from visformer.pictures.selection import AttentionCell
from visformer.session.lesson import parsed
from visformer.ui.bars.first_steps import show_first_steps
from visformer.ui.look.theme import set_motion
from visformer.ui.window import lessons, presenting
from visformer.ui.window.lessons import LessonEditor
from visformer.ui.window.window import MainWindow
from visformer.values.trace import Trace

KEY = Qt.Key
TRACE = make_trace(source=6, target=5, layers=3, sharpness=4.0)
HEAD = """---
visformer-lesson: 1
title: Heads
sentence: a b c d e f
plan-45: 1, 3
---
"""
BODY = """## One
<!-- view: attention; kind cross; head L2H1; step 3; large -->
<!-- expect: darkest cross L2H1 step 3 = a -->
A **bold** word and `<s>`.
<!-- ask: Which is darkest? -->
That one.
<!-- do: press Right 2 times -->
<!-- notes: Wait. -->
## Two
<!-- view: masks -->
Only masks.
<!-- do: Turn to the numbers -> computation; stage scale -->
## Three
<!-- view: output; text other words -->
The end.
"""


def best(trace: Trace = TRACE) -> int:
    return int(trace.attention("cross", 1, 0)[2].argmax())


@pytest.fixture
def window(pair: Pair) -> MainWindow:
    """Return a window on the lesson's first stop, whose run is there."""
    made, engine = pair
    set_motion(wanted=False)
    made.receive(opened_model(TRACE.model, path=str(paths.checkpoint())))
    open_lesson(made)
    assert engine.decodes[-1].source == "a b c d e f"
    answer(made, engine, TRACE)
    QApplication.processEvents()
    return made


def open_lesson(window: MainWindow, text: str = HEAD + BODY) -> None:
    window.lessons.begin(parsed(text, Path("/nowhere/x.lesson.md")))
    QApplication.processEvents()


def label(window: MainWindow, name: str) -> QLabel:
    return named(window.lessons.panel, QLabel, name)


def test_page_keys_answer_do_and_go_on(window: MainWindow, qtbot: QtBot) -> None:
    state, panel = window.session.state, window.lessons.panel
    assert panel.isVisible()
    assert panel.width() * 3 <= window.width()
    assert (state.kind, state.layer, state.head) == ("cross", 1, 0)
    assert state.step == 2  # the row that answers the question is not there yet
    assert not state.look.ahead
    assert window.large.picture is not None
    assert label(window, "title of the stop").text() == "One"
    assert "Which is darkest?" in [w.text for w in painted(panel).words]
    assert not label(window, "text after the question").isVisible()
    assert panel.place.text() == "stop 1 of 3"
    walk(window, qtbot)
    state = window.session.state
    assert (state.step, state.look.ahead) == (3, True)
    assert state.locked == AttentionCell("cross", 2, best())
    weight = TRACE.attention("cross", 1, 0)[2, best()]
    assert f"{weight:.4f}" in label(window, "answer").text()
    assert label(window, "text after the question").isVisible()
    assert label(window, "task").text() == "☐ Press Right 2 times"
    walk(window, qtbot)
    assert window.session.state.step == 5
    assert label(window, "task").text() == "☑ Press Right 2 times"
    walk(window, qtbot)
    assert (window.session.state.tab, panel.place.text()) == ("masks", "stop 2 of 3")
    assert window.large.picture is None
    walk(window, qtbot, key=KEY.Key_PageUp)
    assert (window.session.state.tab, window.session.state.step) == ("attention", 2)


def walk(
    window: MainWindow, qtbot: QtBot, pages: int = 1, key: Qt.Key = KEY.Key_PageDown
) -> None:
    for _page in range(pages):
        qtbot.keyClick(window, key)
        settle()


def test_a_lesson_leads_alone(window: MainWindow) -> None:
    card = unwrap(show_first_steps(window))
    assert card.isVisible()
    open_lesson(window)
    assert not card.isVisible()
    assert show_first_steps(window)  # at another start it is there again


def test_a_click_is_the_guess(window: MainWindow, qtbot: QtBot) -> None:
    other = (best() + 1) % 6
    window.session.set(locked=AttentionCell("cross", 1, other))
    QApplication.processEvents()
    weights = TRACE.attention("cross", 1, 0)[2]
    qtbot.waitUntil(lambda: label(window, "answer").isVisible())
    said = label(window, "answer").text()
    assert f"{weights[best()]:.4f}" in said
    assert "guess" in said
    assert window.session.state.locked == AttentionCell("cross", 2, best())
    assert not window.lessons.panel.left.isVisible()


def test_a_click_on_a_source_token_is_a_guess_too(
    window: MainWindow, qtbot: QtBot
) -> None:
    window.strips.source_chosen.emit((best() + 1) % 6)
    qtbot.waitUntil(lambda: label(window, "answer").isVisible())
    assert "guess" in label(window, "answer").text()
    assert window.session.state.kind == "cross"


def test_the_true_cell_flashes_beside_the_guess(
    window: MainWindow, qtbot: QtBot
) -> None:
    set_motion(wanted=True)
    guess, seen = AttentionCell("cross", 1, (best() + 1) % 6), set()
    window.session.set(locked=guess)
    qtbot.waitUntil(lambda: label(window, "answer").isVisible())

    def over() -> bool:
        seen.add(window.session.state.locked)
        return not window.lessons._flash.isActive()

    qtbot.waitUntil(over, timeout=5000)
    truth = AttentionCell("cross", 2, best())
    assert seen == {truth, guess._replace(query=2)}
    assert window.session.state.locked == truth


def test_the_user_does_the_task(window: MainWindow, qtbot: QtBot) -> None:
    walk(window, qtbot)
    for _press in range(2):
        qtbot.keyClick(window, KEY.Key_Right)
        QApplication.processEvents()
    assert window.session.state.step == 5
    assert window.lessons.panel.task.text().startswith("☑")
    walk(window, qtbot)
    walk(window, qtbot)  # Page Down does what is reached in any way
    state = window.session.state
    assert (state.tab, state.stage) == ("computation", "scale")
    assert window.lessons.panel.task.text().startswith("☑")
    assert not window.lessons.panel.left.isVisible()


def test_another_action_leaves_the_lesson_and_a_button_leads_back(
    window: MainWindow, qtbot: QtBot
) -> None:
    panel = window.lessons.panel
    walk(window, qtbot, 4)
    assert not panel.back_to_it.isVisible()
    qtbot.keyClick(window, KEY.Key_Left)  # steps are walked as ever
    QApplication.processEvents()
    assert not panel.back_to_it.isVisible()
    window.session.set(tab="masks", layer=2)
    QApplication.processEvents()
    QApplication.processEvents()
    assert panel.left.isVisible()
    before = window.session.state.runs
    click(qtbot, panel.back_to_it)
    QApplication.processEvents()
    assert window.session.state.tab == "masks"  # the stop's own
    assert window.session.state.layer == 1
    assert window.session.state.runs == before
    assert not panel.left.isVisible()


def test_a_stop_has_its_own_sentence_and_the_way_back_decodes_nothing(
    window: MainWindow, pair: Pair, qtbot: QtBot
) -> None:
    _window, engine = pair
    panel = window.lessons.panel
    panel.plans.activated.emit(panel.plans.findText("45 minutes"))
    assert panel.place.text() == "stop 1 of 2"
    walk(window, qtbot, 3)
    assert engine.decodes[-1].source == "other words"
    assert panel.title.text() == "Three"  # at once, before the run is there
    answer(window, engine, make_trace(source=3, target=3, layers=3))
    QApplication.processEvents()
    assert window.session.state.tab == "output"
    asked = len(engine.decodes)
    walk(window, qtbot, key=KEY.Key_PageUp)
    assert len(engine.decodes) == asked
    assert window.session.state.trace is TRACE or (
        window.session.state.trace is not None
        and window.session.state.trace.source == TRACE.source
    )
    assert window.source.text() == "a b c d e f"
    assert window.session.state.history.undo  # and undo leads back


def test_words_stand_there_while_the_model_opens(pair: Pair) -> None:
    window, engine = pair
    open_lesson(window)
    assert window.lessons.panel.isVisible()
    assert label(window, "title of the stop").text() == "One"
    assert engine.opened[-1][0] == str(paths.checkpoint())
    opened = opened_model(TRACE.model, path=str(paths.checkpoint()))
    window.receive(replace(opened, number=-1))
    assert engine.decodes[-1].source == "a b c d e f"
    answer(window, engine, TRACE)
    QApplication.processEvents()
    assert window.session.state.step == 2


def test_presented_the_words_stand_under_the_picture(
    window: MainWindow, qtbot: QtBot
) -> None:
    qtbot.keyClick(window, KEY.Key_F5)
    QApplication.processEvents()
    lessons = window.lessons
    assert not lessons.panel.isVisible()
    assert lessons.subtitle.isVisible()
    assert window.large.isAncestorOf(lessons.subtitle)
    picture = unwrap(window.large.picture)
    below = lessons.subtitle.mapTo(window, lessons.subtitle.rect().topLeft()).y()
    assert below >= picture.mapTo(window, picture.rect().bottomLeft()).y()
    words = [word.text for word in painted(lessons.subtitle).words]
    assert "Which is darkest?" in words
    assert not any("Wait." in word for word in words)
    walk(window, qtbot, 3)
    assert window.session.state.tab == "masks"
    assert "Two" in [word.text for word in painted(lessons.subtitle).words]
    qtbot.keyClick(window, KEY.Key_Escape)
    QApplication.processEvents()
    assert lessons.panel.isVisible()
    assert not lessons.subtitle.isVisible()
    assert window.large.picture is None  # as the stop is set


def test_notes_are_on_the_first_screen_of_two(
    window: MainWindow, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = window.screen()
    monkeypatch.setattr(presenting, "other_screen", lambda *_: here)
    notes, lessons = label(window, "notes for the lecturer"), window.lessons
    assert not notes.isVisible()
    window.presentation.begin()
    assert lessons.panel.isVisible()
    assert notes.isVisible()
    assert notes.text() == "Wait."
    assert lessons.subtitle.isVisible()
    assert lessons.subtitle.window() is window.large.alone
    window.presentation.end()
    assert not notes.isVisible()


def test_a_task_that_the_run_is_too_short_for_is_done_and_left(
    window: MainWindow, qtbot: QtBot
) -> None:
    body = BODY.replace("press Right 2 times", "press Right 99 times")
    open_lesson(window, HEAD + body)
    walk(window, qtbot, 3)
    assert window.session.state.tab == "masks"


def test_a_task_with_another_run_is_looked_at_once_that_is_there(
    window: MainWindow, pair: Pair, qtbot: QtBot
) -> None:
    _window, engine = pair
    body = "## A\n<!-- view: masks; step 4 -->\n"
    task = "<!-- do: Say it -> output; text other words; step 2 -->\n"
    open_lesson(window, HEAD.replace("plan-45: 1, 3\n", "") + body + task)
    walk(window, qtbot)
    assert engine.decodes[-1].source == "other words"
    assert not window.lessons.panel.left.isVisible()
    answer(window, engine, make_trace(source=3, target=4, layers=3))
    settle(5)
    state = window.session.state
    assert (state.tab, state.step, state.wish.sentence) == ("output", 2, "other words")
    assert window.lessons.panel.task.text() == "☑ Say it"
    assert not window.lessons.panel.left.isVisible()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_bundled_lesson_is_walked_with_page_down_alone(
    language: str, app: App, qtbot: QtBot
) -> None:
    window, lessons = app.window, app.window.lessons
    window.resize(1280, 800)
    files = sorted(paths.resource("lessons").joinpath(language).glob("*.lesson.md"))
    assert files
    for path in files:
        window.open(str(path))
        qtbot.waitUntil(partial(is_open, window, path), timeout=10_000)
        stops = unwrap(lessons.lesson).stops
        walked: list[str] = []
        for _page in range(3 * len(stops)):
            qtbot.waitUntil(lambda: at_rest(window), timeout=60_000)
            stop = unwrap(lessons.stop)
            if stop.title not in walked:
                walked.append(stop.title)
            where = f"{path.name}, {stop.title}"
            assert not window.session.state.error, where
            assert not lessons.panel.back_to_it.isVisible(), where
            area = unwrap(lessons.panel.findChild(QScrollArea))
            assert not area.verticalScrollBar().maximum(), where  # all is in sight
            walk(window, qtbot)
        assert walked == [stop.title for stop in stops]


def is_open(window: MainWindow, path: Path) -> bool:
    lesson = window.lessons.lesson
    return lesson is not None and lesson.path == str(path)


def at_rest(window: MainWindow) -> bool:
    """Tell whether a stop is set, with all that its view asks for."""
    state, lessons = window.session.state, window.lessons
    waits = state.busy or state.awaiting.side_requests
    return lessons._settled and not waits and not lessons._flash.isActive()


def test_markup_is_shown_as_it_is_meant(window: MainWindow) -> None:
    shown = painted(label(window, "text of the stop")).words
    assert "bold" in [word.text.strip() for word in shown]
    assert "<s>" in [word.text.strip() for word in shown]


def test_a_lesson_is_dropped_and_one_that_is_bad_leaves_all_as_it_is(
    pair: Pair, tmp_path: Path, qtbot: QtBot
) -> None:
    window, _engine = pair
    TRACE.save(tmp_path / "run.vis")
    head = "---\nvisformer-lesson: 1\ntitle: Recorded\ntrace: run.vis\n---\n"
    good, bad = tmp_path / "good.lesson.md", tmp_path / "bad.lesson.md"
    stop = "<!-- view: attention; kind decoder; head L3H2; step 4 -->"
    good.write_text(f"{head}## A\n{stop}\nText.\n", encoding="utf-8")
    bad.write_text(f"{head}## A\n<!-- veiw: masks -->\n", encoding="utf-8")
    drop(window, good)
    qtbot.waitUntil(lambda: window.session.state.step == 4)  # without a model
    state = window.session.state
    assert (state.kind, state.layer, state.head) == ("decoder", 2, 1)
    drop(window, bad)
    qtbot.waitUntil(lambda: bool(window.session.state.error))
    assert "bad.lesson.md, line 7: “veiw”" in window.session.state.error
    assert unwrap(window.lessons.lesson).title == "Recorded"
    click(qtbot, window.lessons.panel.shut)
    assert not window.lessons.panel.isVisible()
    qtbot.keyClick(window, KEY.Key_PageUp)  # steps again
    assert window.session.state.step == 3


def test_the_menu_offers_what_is_bundled(pair: Pair) -> None:
    window, _engine = pair
    menus = window.header.menu.findChildren(QMenu)
    menu = next(menu for menu in menus if menu.title() == "&Lessons")
    menu.aboutToShow.emit()
    titles = [action.text() for action in menu.actions()]
    found = [*paths.resource("lessons").joinpath("en").glob("*.lesson.md")]
    assert len(titles) == len(found) + 4
    menu.aboutToShow.emit()
    assert [action.text() for action in menu.actions()] == titles


def test_a_newer_lesson_is_said_to_be_one(window: MainWindow) -> None:
    open_lesson(window, HEAD.replace("lesson: 1", "lesson: 2") + BODY)
    assert "newer version" in window.session.state.notice


# ---- written in the window -------------------------------------------------------


@pytest.fixture
def editor(window: MainWindow) -> LessonEditor:
    return LessonEditor(window, window.files, window.lessons)


def test_the_view_on_screen_becomes_a_stop_that_leads_back_to_it(
    window: MainWindow, editor: LessonEditor, tmp_path: Path, qtbot: QtBot
) -> None:
    window.lessons.close()
    look = replace(window.session.state.look, form="arcs", order="entropy")
    window.session.set(tab="attention", layer=2, head=1, step=4, look=look)
    seen = window.session.state.place
    editor.begin(None)
    assert editor.fault.text() == ""
    (stop,) = parsed(editor.text.toPlainText(), tmp_path / "a.lesson.md").stops
    assert stop.expects[0].text.startswith("darkest cross L3H2 step 4 = ")
    assert stop.expects[0].holds(stop.expects[0].found(TRACE))
    window.session.set(tab="masks", layer=0, head=0, step=1)
    editor.show_stop()
    qtbot.waitUntil(lambda: window.session.state.place == seen)
    assert window.session.state.look == look
    assert label(window, "title of the stop").text() == "A new stop"
    editor.close()


def test_stops_are_added_checked_and_saved(
    window: MainWindow,
    editor: LessonEditor,
    tmp_path: Path,
    qtbot: QtBot,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "own.lesson.md"
    monkeypatch.setattr(lessons, "ask_where", lambda *_: str(path))
    walk(window, qtbot, 3)
    assert window.lessons.lesson is not None
    own = replace(window.lessons.lesson, path=str(paths.resource("lessons") / "x"))
    editor.begin(own)  # the lesson that is open goes on, under another name
    text = editor.text.toPlainText()
    assert text.startswith(HEAD + BODY.rstrip())
    assert text.count("\n## ") == 4
    editor.text.setPlainText(text.replace("view: masks", "view: moon"))
    qtbot.waitUntil(lambda: "line 16: view is moon" in editor.fault.text())
    assert not editor.preview.isEnabled()
    editor.text.setPlainText(text)
    qtbot.waitUntil(editor.preview.isEnabled)
    click(qtbot, editor.save)
    qtbot.waitUntil(path.exists)
    qtbot.waitUntil(lambda: "own.lesson.md" in window.session.state.notice)
    assert path.read_text("utf-8") == text
    editor.close()


def titles(editor: LessonEditor) -> list[str]:
    """Return the titles in the list, which are those of the text."""
    written = parsed(editor.text.toPlainText(), Path("/nowhere/x.lesson.md"))
    listed = [editor.stops.item(at).text() for at in range(editor.stops.count())]
    assert listed == [stop.title for stop in written.stops]
    return listed


def test_stops_are_moved_in_their_list(
    window: MainWindow, editor: LessonEditor, qtbot: QtBot
) -> None:
    editor.begin(window.lessons.lesson)
    editor.activateWindow()
    qtbot.waitUntil(editor.isActiveWindow)
    begun, stops = editor.text.toPlainText(), editor.stops
    assert titles(editor) == ["One", "Two", "Three", "A new stop"]
    assert stops.currentRow() == 3
    place = stops.visualItemRect(stops.item(1)).center()
    click(qtbot, stops.viewport(), place)
    assert editor.text.textCursor().block().text() == "## Two"
    qtbot.keyClick(stops, KEY.Key_Down, Qt.KeyboardModifier.AltModifier)
    assert titles(editor) == ["One", "Three", "Two", "A new stop"]
    assert "plan-45: 1-2\n" in editor.text.toPlainText()
    assert editor.text.textCursor().block().text() == "## Two"
    qtbot.keyClick(stops, KEY.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert editor.text.toPlainText() == begun
    assert titles(editor) == ["One", "Two", "Three", "A new stop"]

    nowhere = QModelIndex()  # without a screen Qt drags nothing: what a drop does
    stops.model().moveRow(nowhere, 0, nowhere, 3)
    assert titles(editor) == ["Two", "Three", "One", "A new stop"]
    assert "plan-45: 2-3\n" in editor.text.toPlainText()
    editor.text.undo()
    assert editor.text.toPlainText() == begun
    editor.close()


def test_a_newer_lesson_is_not_edited(window: MainWindow, editor: LessonEditor) -> None:
    newer = HEAD.replace("lesson: 1", "lesson: 2") + BODY
    open_lesson(window, newer)
    editor.begin(window.lessons.lesson)
    assert editor.text.toPlainText() == newer
    assert editor.text.isReadOnly()
    assert not editor.save.isEnabled()
    assert not editor.stops.isEnabled()
    editor.close()
