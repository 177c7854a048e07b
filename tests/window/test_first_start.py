"""The first start on any computer: no home, a damaged configuration, a small screen."""

from __future__ import annotations

import json
import logging
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QSettings
from PySide6.QtWidgets import QApplication, QLabel
from pytestqt.qtbot import QtBot

from tests.window.parts import settle, unwrap
from tests.window.plain_font import plain_font
from tests.window.windows import FakeEngine
from visformer import app, language, paths
from visformer.errors import InputError
from visformer.program.memory import RECENT, Memory
from visformer.trace_file.trace_file import read_session
from visformer.ui.bars.first_steps import show_first_steps
from visformer.ui.look.theme import CHINESE
from visformer.ui.window.window import MainWindow

KEYS = (
    *("theme", "zoom", "geometry", "explanations", "motion", "ahead", "pieces"),
    *("tokens", "history", "recent", "answers", "first%20steps%20seen", "language"),
    *("next%20token", "width%20of%20the%20next%20token"),
)
VALUES = (
    *("--5", "9" * 5000, "@ByteArray(x)", "1e9", "nan", "-1", "٣", "@Invalid()", ""),
    *("@Point(1 2)", "null", '[{"a":', "[[1]]", "a, b", '"open'),
)


def turned(by: int) -> bytes:
    """Write a file in which every key has another wrong value."""
    lines = (f"{k}={VALUES[(at + by) % len(VALUES)]}" for at, k in enumerate(KEYS))
    return "\n".join(["[General]", *lines]).encode()


DAMAGED = {
    "random": random.Random(1).randbytes(3000),
    "another file": b"<!DOCTYPE html><html></html>",
    "a later version": b"[General]\ntheme=sepia\nzoom=2000\nlayout=@Size(9 9)\n",
    **{f"wrong values {by}": turned(by) for by in (0, 5, 10)},
}


def started(qtbot: QtBot, file: Path) -> MainWindow:
    settings = QSettings(str(file), QSettings.Format.IniFormat)
    window = MainWindow(FakeEngine(), settings)
    qtbot.addWidget(window)
    show_first_steps(window)
    window.show()
    QApplication.processEvents()
    return window


def test_a_damaged_configuration_is_a_first_start(qtbot: QtBot, tmp_path: Path) -> None:
    for number, (name, content) in enumerate(DAMAGED.items()):
        file = tmp_path / f"{number}.ini"
        file.write_bytes(content)
        window = started(qtbot, file)
        assert window.isVisible(), name
        assert window.width() <= 1280
        assert window.appearance.theme in ("light", "dark", "contrast"), name
        assert 50 <= window.appearance.zoom <= 400
        window.close()


def test_numbers_are_read_whatever_they_are(tmp_path: Path) -> None:
    for number, value in enumerate(VALUES):
        file = tmp_path / f"{number}.ini"
        file.write_text(f"[General]\nzoom={value}\n", "utf-8")
        memory = Memory(QSettings(str(file), QSettings.Format.IniFormat))
        assert memory.number("zoom", 100) == (-1 if value == "-1" else 100)


def test_what_was_opened_last_is_listed_first_and_once(tmp_path: Path) -> None:
    file = str(tmp_path / "window.ini")
    memory = Memory(QSettings(file, QSettings.Format.IniFormat))
    for path in "aba":
        recent = memory.remember(path)
    assert recent == memory.texts("recent") == ["a", "b"]
    for at in range(RECENT):
        memory.remember(f"model {at}")
    assert memory.texts("recent") == [f"model {at}" for at in reversed(range(RECENT))]


def test_a_window_left_on_another_screen_comes_back(
    qtbot: QtBot, tmp_path: Path
) -> None:
    file = tmp_path / "window.ini"
    window = started(qtbot, file)
    window.setGeometry(9000, 7000, 5000, 3000)
    window.close()
    again = started(qtbot, file)
    assert again.screen().geometry().intersects(again.frameGeometry())
    assert again.screen().geometry().contains(again.pos())
    assert again.width() <= again.screen().size().width()


def test_what_cannot_be_kept_is_said_once_in_the_log(
    qtbot: QtBot, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    with caplog.at_level(logging.INFO):
        window = started(qtbot, tmp_path / "file" / "window.ini")
    window.memory.keep("zoom", 150)
    window.memory.write()
    window.close()
    said = [r.message for r in caplog.records if "settings are not kept" in r.message]
    assert len(said) == 1
    memory = Memory(QSettings(str(tmp_path / "n.ini"), QSettings.Format.IniFormat))
    assert memory.number("zoom", 100) == 100


@pytest.mark.skipif(sys.platform != "linux", reason="/proc takes no files")
def test_it_starts_without_a_home_and_without_a_language() -> None:
    """The real program, but for its loop; all that it says is one line."""
    code = (
        "from PySide6.QtWidgets import QApplication as Q; from visformer import app;"
        "Q.exec = lambda *_: Q.processEvents() or 0; print(app.run(None))"
    )
    kept = ("PATH", "PYTHONPATH", "QT_QPA_PLATFORM")
    bare = {name: os.environ[name] for name in kept if name in os.environ}
    environment = bare | {"HOME": "/proc/none", "LC_ALL": "C"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"QT_QPA_PLATFORM": "offscreen", **environment},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.stdout == "0\n"
    reason = "cannot be used (No such file or directory)."
    assert done.stderr == f"visformer: /proc/none {reason}\n"


def test_whatever_raises_while_the_program_starts_is_told(tmp_path: Path) -> None:
    """In each function that the start calls: in the window, or in a box and a line."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.window.failing_starts"],
        env={**os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (0, "")
    starts = [json.loads(line) for line in done.stdout.splitlines()]
    words = "Unexpected error, written to the log: RuntimeError: boom"
    for name, code, told in starts:
        line = [f"visformer: {words}\n"] if code else []
        assert (code in (0, 1), told) == (True, [words, *line]), name
    codes = {name: code for name, code, _told in starts}
    assert codes["Engine.__init__"] == codes["MainWindow.__init__"] == 1
    assert codes["App.start"] == codes["Worker.send"] == codes["read_lesson"] == 0


def test_without_a_screen_it_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_screen() -> None:
        raise InputError("There is no screen here.")

    monkeypatch.setattr(app, "check_screen", no_screen)
    monkeypatch.setattr(app, "log_qt", bool)
    assert app.run_served(str(tmp_path / "nobody"), "00", "model") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("visformer: Unexpected error, written to the log: FileNotFo")


@pytest.fixture(params=["en", "zh"])
def spoken(request: pytest.FixtureRequest, qapp: QApplication) -> Iterator[str]:
    language.use(request.param)
    with plain_font(CHINESE[0] if request.param == "zh" else qapp.font().family()):
        yield request.param


def test_a_small_screen_shows_the_pictures_and_the_card(
    spoken: str, window: MainWindow
) -> None:
    """What a screen of 1024x600 leaves to a window."""
    window.resize(1024, 560)
    window.show_telling(read_session(paths.resource(paths.FIRST_TRACE)).shown.trace)
    card = unwrap(show_first_steps(window))
    settle(8)
    assert (window.width(), window.height()) == (1024, 560)
    (label,) = card.findChildren(QLabel)
    high = label.heightForWidth(label.width())
    assert label.height() >= high
    # with some fonts there is room beside the pictures, else they are asked for as
    # little of their height as can be
    pictures = unwrap(window.tabs.shown)
    right = pictures.mapTo(window, pictures.rect().topRight()).x()
    beside = card.mapTo(window, QPoint()).x() > right
    assert label.text().count("\n") == (2 if beside else 0)
    assert beside or card.height() <= high + 2 * card.fontMetrics().height()
    for part in (card.done, window.status, window.transport):
        place = part.mapTo(window, part.rect().bottomRight())
        assert window.rect().contains(place)
    window.resize(1280, 900)  # beside the pictures they stand below one another
    settle(8)
    assert label.text().count("\n") == 2
