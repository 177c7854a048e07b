"""Another language is chosen in the window: a new window on the same State."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QSettings, QSize, Qt
from PySide6.QtGui import QAction, QPainter
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from tests.catalogue import PSEUDO, disguised
from tests.formats.folders import write_letters
from tests.models import tiny_model
from tests.pseudo import install
from tests.ui.painted import painted
from visformer import language
from visformer.app import App
from visformer.ui.widgets.vector import svg
from visformer.ui.window.window import MainWindow

WAIT = 60_000


@pytest.fixture
def english() -> Iterator[None]:
    yield
    language.use()


@pytest.fixture
def settings(tmp_path: Path) -> QSettings:
    return QSettings(str(tmp_path / "window.ini"), QSettings.Format.IniFormat)


@pytest.fixture
def app(qtbot: QtBot, settings: QSettings, english: None) -> Iterator[App]:
    app = App([], settings=settings)
    app.window.show()
    yield app
    app.close()
    gc.disable()  # again: see ``nothing_left``


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
    folder = write_letters(tmp_path / "letters", tiny_model(seed=3))
    app.start(str(folder), "hello")
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


def test_the_language_chosen_is_kept_unless_one_is_asked_for(
    app: App, settings: QSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch)
    assert app.window.speak is not None
    app.window.speak(PSEUDO)
    for asked, spoken in (("", "en-XA"), ("en", "en")):
        language.use()
        monkeypatch.setenv(language.VARIABLE, asked)
        again = App([], settings=settings)
        again.close()
        assert language.tag() == spoken
        assert os.environ[language.VARIABLE] == (asked or PSEUDO)


def test_a_vector_picture_says_its_language(qapp: QApplication, english: None) -> None:
    def draw(painter: QPainter) -> None:
        painter.drawText(10, 10, "x")

    assert b'lang="en"' in svg(QSize(20, 20), draw, "x", "")
    language.use("zh")
    assert b'lang="zh-CN"' in svg(QSize(20, 20), draw, "x", "")
