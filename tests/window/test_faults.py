"""What went wrong: logged without the user's words, told once; stalls, diagnostics."""

from __future__ import annotations

import sys
import threading
import weakref
from itertools import chain
from types import TracebackType

import pytest
from PySide6.QtCore import QAbstractEventDispatcher, QObject, QTimer
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from tests.opened import opened_model
from tests.window.parts import unwrap
from tests.window.windows import Pair, decoded, translate
from visformer.errors import InputError, brief, stack_words
from visformer.program.diagnostics import Faults, Health, Watchdog, diagnostics
from visformer.ui.window import actions
from visformer.ui.window.window import MainWindow

Caught = tuple[type[BaseException], BaseException, TracebackType | None]
SECRET = "my private sentence"


def raised(error: BaseException) -> Caught:
    try:
        raise error
    except BaseException as caught:
        return type(caught), caught, caught.__traceback__


def test_a_fault_is_told_once_and_logged_without_what_it_quotes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    faults, told = Faults(), list[str]()
    faults.told.connect(told.append)
    for _ in range(12):
        faults.catch(*raised(KeyError(SECRET)))
    assert len(told) == 1
    assert "written to the log" in told[0]
    assert len(caplog.records) == 3
    assert "KeyError: “…”" in caplog.text
    assert SECRET not in caplog.text
    assert "test_faults.py" in caplog.text
    (line,) = faults.last
    assert "KeyError at" in line
    assert list(faults.counts.values()) == [12]
    faults.catch(*raised(ValueError("x" * 10_000)))
    assert len(told[-1]) <= 200


def test_a_sentence_for_the_user_is_no_fault() -> None:
    now = [0.0]
    faults, told = Faults(clock=lambda: now[0]), list[str]()
    faults.told.connect(told.append)
    for at in (0.0, 1.0, 4.0, 6.0):
        now[0] = at
        faults.catch(*raised(InputError("It is empty.")))
    assert told == ["It is empty."] * 2  # a storm of paint events is one notice
    assert not faults.counts


def test_faults_of_threads_are_told_on_the_windows_thread(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name in ((sys, "excepthook"), (sys, "unraisablehook")):
        monkeypatch.setattr(module, name, getattr(module, name))
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    hooks = sys.excepthook, sys.unraisablehook, threading.excepthook
    faults, told = Faults(), list[int]()
    faults.listen(lambda _sentence: told.append(threading.get_ident()))
    thread = threading.Thread(target=lambda: 1 // 0)
    thread.start()
    thread.join()
    assert told == []  # not amid whatever the window does
    qtbot.waitUntil(lambda: bool(told))
    assert told == [threading.get_ident()]
    faults.close()
    assert (sys.excepthook, sys.unraisablehook, threading.excepthook) == hooks


def test_stalls_are_counted_and_long_ones_noted_with_their_stack(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now, parent = [0.0], QObject()
    dog = Watchdog(parent, clock=lambda: now[0])
    for took in (0.035, 0.075, 0.020):
        dog.begin()
        now[0] += took
        dog.look()
        dog.end()
        now[0] += 1  # the loop sleeps
        dog.look()
    assert (dog.stalls, round(dog.longest_ms)) == (1, 75)
    assert not dog.stacks
    dog.begin()
    now[0] += 0.39
    dog.look()
    dog.look()  # of one stand there is one stack
    assert len(dog.stacks) == 1
    assert "test_stalls_are_counted" in dog.stacks[0]
    assert "stood still for 390 ms" in caplog.text
    dog.end()
    assert dog.stalls == 2
    dog.close()


def test_what_wakes_the_loop_is_watched_from_its_beginning(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, noted, parent = [0.0], threading.Event(), QObject()
    dog = Watchdog(parent, clock=lambda: now[0])
    monkeypatch.setattr(
        "visformer.program.diagnostics.log.warning", lambda *_: noted.set()
    )

    def stand() -> None:
        now[0] += 0.6
        assert noted.wait(10)  # for the thread

    def wake() -> None:
        before = dog.stalls
        noted.clear()
        QTimer.singleShot(0, stand)
        qtbot.waitUntil(lambda: dog.stalls > before)

    dog.start()
    wake()
    wake()
    dog.close()
    assert dog.stalls == 2
    assert round(dog.longest_ms) == 600
    assert len(dog.stacks) == 2
    assert all("in stand" in stack for stack in dog.stacks)


def test_an_idle_window_sleeps(
    pair: Pair, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No timer runs, and the thread waits without a timeout: nothing wakes either."""
    window, asleep = decoded(pair), threading.Event()

    class Watched(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            if timeout is None:
                asleep.set()
            woken = super().wait(timeout)
            if timeout is None:
                asleep.clear()
            return woken

    with monkeypatch.context() as patched:
        patched.setattr(threading, "Event", Watched)
        dog = Watchdog(window)
    dog.start()
    window.session.set(step=1)
    qtbot.waitUntil(lambda: running_timers(window) == [])
    assert asleep.wait(10)
    dog.close()


def running_timers(window: MainWindow) -> list[QObject]:
    app, loop = unwrap(QApplication.instance()), QAbstractEventDispatcher.instance()
    owned = [thing.findChildren(QObject) for thing in (app, window)]
    return [one for one in (window, *chain(*owned)) if loop.registeredTimers(one)]


def test_a_stack_keeps_nothing_of_its_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """A painter that lived on would paint after its paint event."""
    noted, left = threading.Event(), threading.Event()
    now, parent = [0.0], QObject()
    dog = Watchdog(parent, clock=lambda: now[0])
    dog.begin()
    now[0] = 1.0

    class Painter:
        pass

    def warned(*_given: object) -> None:
        noted.set()
        assert left.wait(10)

    def stand(looks: threading.Thread) -> weakref.ref[Painter]:
        painter = Painter()
        looks.start()
        assert noted.wait(10)
        return weakref.ref(painter)

    monkeypatch.setattr("visformer.program.diagnostics.log.warning", warned)
    looks = threading.Thread(target=dog.look)
    painter = stand(looks)
    gone = painter() is None
    left.set()
    looks.join()
    assert gone


def test_diagnostics_name_versions_model_and_faults_but_no_sentence(pair: Pair) -> None:
    window, engine = pair
    hooks = sys.excepthook
    health = window.health = Health(window, lambda _sentence: None)
    window.receive(opened_model(translate(window, engine, SECRET).model))
    health.faults.catch(*raised(KeyError(SECRET)))
    actions._copy_diagnostics(window)
    health.close()
    assert sys.excepthook is hooks
    text = QGuiApplication.clipboard().text()
    assert text == diagnostics(window.session.state, health)
    assert SECRET not in text
    for part in ("torch 2.", "Qt 6.", "encoder 3 layers of", "KeyError at", "stalls"):
        assert part in text
    assert window.notice.text().startswith("Copied")


def test_a_sentence_is_at_most_two_hundred_characters_long() -> None:
    value = "x" * 100_000
    error = InputError(f"config.json: “encoder_bias” is {value}: it must be true.")
    assert len(str(error)) < 120
    assert str(error).startswith("config.json: “encoder_bias” is xxx")
    assert str(error).endswith("it must be true.")
    words = "word " * 100 + "Choose another."
    assert 190 < len(brief(words)) <= 200
    assert brief(words).endswith("Choose another.")
    assert "“…”" in stack_words(KeyError("secret"))
