"""Another language is chosen in the window: a new window on the same State."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QSettings, QSize, Qt
from PySide6.QtGui import QAction, QPainter
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from tests.catalogue import PSEUDO, disguised
from tests.opened import opened_model
from tests.pseudo import install
from tests.system.formats.folders import write_letters
from tests.tiny_models import tiny_model
from tests.traces import make_trace
from tests.window.painted import painted
from tests.window.parts import settle
from tests.window.test_lessons import BODY, HEAD
from tests.window.windows import FakeEngine, answer
from visformer import language, paths
from visformer.app import App
from visformer.engine.messages import Open
from visformer.pictures.selection import AttentionCell
from visformer.session.lesson import Lesson, parsed, read_lesson
from visformer.ui.bars.lesson_panel import LessonPanel
from visformer.ui.look.theme import set_motion
from visformer.ui.widgets.vector import svg
from visformer.ui.window.window import MainWindow
from visformer.values.trace import Trace

WAIT = 60_000


def entry(window: MainWindow, title: str) -> QAction:
    (found,) = (a for a in window.findChildren(QAction) if a.text() == title)
    return found


def tabs(window: MainWindow) -> list[str]:
    bar = window.tabs.bar
    return [bar.tabText(at).strip() for at in range(bar.count())]


def test_a_new_window_shows_the_same_state_in_another_language(
    app: App, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "languages", monkeypatch)
    app.start(str(write_letters(tmp_path / "letters", tiny_model(seed=3))), "hello")
    before = app.window
    qtbot.waitUntil(
        lambda: (
            before.session.state.opened is not None and not before.session.state.busy
        ),
        timeout=WAIT,
    )
    before.session.set(tab="masks", step=1, layer=1)
    english = tabs(before)
    before.source.setText("a sentence half typed")
    assert before.speak is not None
    before.speak(PSEUDO)
    window = app.window
    assert window is not before
    assert not before.isVisible()
    assert window.isVisible()
    assert tabs(window) == [disguised(title) for title in english]
    shown = window.session.state
    assert (shown.tab, shown.step, shown.layer) == ("masks", 1, 1)
    assert shown.trace is before.session.state.trace
    assert window.source.text() == "a sentence half typed"
    QApplication.processEvents()
    words = [word.text for word in painted(window.tabs.view("masks")).words]
    assert any("⟦" in word for word in words)
    # the engine goes on, and its answers come to the new window
    qtbot.keyClicks(window.source, "olleh")
    qtbot.keyClick(window.source, Qt.Key.Key_Return)
    qtbot.waitUntil(
        lambda: (
            window.session.state.trace is not shown.trace
            and not window.session.state.busy
        ),
        timeout=WAIT,
    )
    entry(window, "English").trigger()
    assert tabs(app.window) == english
    assert entry(app.window, "English").isChecked()
    assert not entry(app.window, "中文").isChecked()


def test_the_language_in_use_chosen_again_does_nothing(app: App) -> None:
    language.use()
    before = app.window
    entry(before, "English").trigger()
    assert app.window is before
    assert before.isVisible()
    assert entry(before, "English").isChecked()


class Speaking:
    """Opens lessons in a window, with an engine that is answered for, and speaks."""

    def __init__(self, app: App, monkeypatch: pytest.MonkeyPatch) -> None:
        self._app, self.engine = app, FakeEngine()
        monkeypatch.setattr(app, "engine", self.engine)
        self.speak("zh")
        self.speak("en")
        set_motion(wanted=False)

    @property
    def panel(self) -> LessonPanel:
        return self._app.window.lessons.panel

    def speak(self, name: str) -> MainWindow:
        assert self._app.window.speak is not None
        self._app.window.speak(name)
        return self._app.window

    def answer(self, trace: Trace) -> None:
        """Open the model that was asked for, and decode."""
        window, asked = self._app.window, self.engine.of(Open)
        found = opened_model(trace.model, path=asked[-1].path)
        window.receive(replace(found, number=-len(asked)))
        answer(window, self.engine, trace)
        settle()


@pytest.fixture
def speaking(app: App, monkeypatch: pytest.MonkeyPatch) -> Speaking:
    return Speaking(app, monkeypatch)


def bundled(name: str) -> Lesson:
    return read_lesson(paths.resource(f"lessons/{name}.lesson.md"))


LESSON = HEAD + re.sub("<!-- (do|notes): .*\n", "", BODY)


def test_a_lesson_goes_on_in_another_language(
    speaking: Speaking, app: App, qtbot: QtBot
) -> None:
    trace = make_trace(source=6, target=5, layers=3)
    before = app.window
    before.lessons.begin(parsed(LESSON, Path("/nowhere/x.lesson.md")))
    speaking.panel.plans.activated.emit(1)
    speaking.panel.plans.setCurrentIndex(1)
    speaking.answer(trace)
    cell = AttentionCell("cross", 1, int(trace.attention("cross", 1, 0)[2].argmin()))
    before.session.set(locked=cell)
    settle()
    said = re.findall(r"\d\.\d+", speaking.panel.answer.text())
    assert len(said) == 2  # the guess, and what is true
    shown = before.session.state
    window = speaking.speak("zh")
    settle()
    panel = speaking.panel
    assert panel.isVisible()
    assert panel.title.text() == "One"
    assert re.findall(r"\d\.\d+", panel.answer.text()) == said
    assert "guess" not in panel.answer.text()
    assert re.findall(r"\d", panel.place.text()) == ["1", "2"]  # of the short plan
    assert panel.plans.currentData() == 45
    assert panel.after.isVisible()
    assert window.session.state.locked == shown.locked
    assert window.large.picture is not None
    assert not panel.back_to_it.isVisible()
    window.session.set(tab="masks")
    qtbot.waitUntil(panel.back_to_it.isVisible)
    speaking.speak("en")
    assert speaking.panel.back_to_it.isVisible()
    assert app.window.session.state.tab == "masks"
    app.window.lessons.forward()
    assert speaking.panel.title.text() == "Three"


def test_a_question_that_is_open_stays_so_in_another_language(
    speaking: Speaking, app: App
) -> None:
    app.window.lessons.begin(parsed(LESSON, Path("/nowhere/x.lesson.md")))
    speaking.speak("zh")  # while the run is still to come
    speaking.answer(make_trace(source=6, target=5, layers=3))
    speaking.speak("en")
    settle()
    assert app.window.session.state.step == 2
    assert not speaking.panel.after.isVisible()
    app.window.lessons.forward()
    assert speaking.panel.answer.text()
    assert speaking.panel.after.isVisible()


def test_a_bundled_lesson_goes_on_in_its_translation(
    speaking: Speaking, app: App
) -> None:
    english, chinese = bundled("en/handout"), bundled("zh/handout")
    app.window.lessons.begin(english, 1)
    speaking.answer(make_trace(source=9, target=10))
    app.window.lessons.forward()
    assert speaking.panel.after.isVisible()
    asked = len(speaking.engine.decodes)
    speaking.speak("zh")
    settle()
    assert speaking.panel.title.text() == chinese.stops[1].title
    assert speaking.panel.after.isVisible()
    assert len(speaking.engine.decodes) == asked


def test_a_question_is_answered_also_of_the_translations_own_run(
    speaking: Speaking, app: App
) -> None:
    english, chinese = bundled("en/lecture"), bundled("zh/lecture")
    at = next(n for n, stop in enumerate(english.stops) if stop.answer)
    app.window.lessons.begin(english, at)
    speaking.answer(make_trace(source=17, target=20, layers=4, heads=8))
    app.window.lessons.forward()
    assert speaking.panel.answer.text()
    speaking.speak("zh")
    assert speaking.panel.title.text() == chinese.stops[at].title
    assert not speaking.panel.answer.text()
    speaking.answer(make_trace(source=11, target=13, layers=3, heads=8))
    assert re.search(r"\d\.\d+", speaking.panel.answer.text())
    assert not speaking.panel.back_to_it.isVisible()


def test_the_language_chosen_is_kept_unless_one_is_asked_for(
    app: App, settings: QSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch)
    assert app.window.speak is not None
    app.window.speak(PSEUDO)
    for asked, spoken in (("", "en-XA"), ("en", "en")):
        language.use()
        monkeypatch.setenv(language.VARIABLE, asked)
        App([], settings=settings).close()
        assert language.tag() == spoken
        assert os.environ[language.VARIABLE] == (asked or PSEUDO)


def test_a_vector_picture_says_its_language(qapp: QApplication) -> None:
    def draw(painter: QPainter) -> None:
        painter.drawText(10, 10, "x")

    assert b'lang="en"' in svg(QSize(20, 20), draw, "x", "")
    language.use("zh")
    assert b'lang="zh-CN"' in svg(QSize(20, 20), draw, "x", "")
