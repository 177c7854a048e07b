"""What is imported and built ahead, in pieces, and what is asked for before."""

from __future__ import annotations

import builtins
import importlib
import linecache
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from PySide6.QtCore import QObject
from pytestqt.qtbot import QtBot

from visformer import app, cli
from visformer.program import ahead
from visformer.program.ahead import Ahead, import_in_pieces, later
from visformer.program.plain_imports import import_plainly
from visformer.ui.views.view import View
from visformer.ui.window.window import MainWindow

PACKAGE = """
from __future__ import annotations
seen: list[Unknown] = [1]
from .one import number
def twice() -> Unknown:
    return 2 * number
seen.append(twice())
"""


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "PAUSE_MS", 0)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A package that imports another module of its own."""
    folder = tmp_path / "imported_in_pieces"
    folder.mkdir()
    (folder / "__init__.py").write_text(PACKAGE)
    (folder / "one.py").write_text("number = 21")
    monkeypatch.syspath_prepend(tmp_path)
    yield folder.name
    for name in (folder.name, f"{folder.name}.one"):
        sys.modules.pop(name, None)


def job(name: str, pieces: int, done: list[str]) -> Iterator[None]:
    for _piece in range(pieces):
        done.append(name)
        yield


@pytest.mark.usefixtures("at_once")
def test_jobs_are_done_in_their_order(qtbot: QtBot) -> None:
    parent, done = QObject(), list[str]()
    work = later(parent)
    for name in ("a", "b", "c"):
        work.add(name, job(name, 2, done))
    assert later(parent) is work
    assert done == []
    qtbot.waitUntil(lambda: len(done) == 6)
    assert done == [*"aabbcc"]


def test_what_is_asked_for_is_done_first(qtbot: QtBot) -> None:
    parent, done = QObject(), list[str]()
    work = Ahead(parent)
    for name in ("a", "b"):
        work.add(name, job(name, 3, done))
    assert work.has("unheard of")
    with qtbot.waitSignal(work.done):
        assert not work.has("b")
    assert done[:3] == [*"bbb"]
    assert work.has("b")


@pytest.mark.usefixtures("at_once")
def test_a_turn_ends_when_it_has_taken_long(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ahead, "TURN", 0.0)
    parent, done, turns = QObject(), list[str](), list[int]()
    work = Ahead(parent)
    usual = work._work

    def counted() -> None:
        usual()
        turns.append(len(done))

    work._timer.timeout.disconnect()
    work._timer.timeout.connect(counted)
    work.add("a", job("a", 3, done))
    qtbot.waitUntil(lambda: len(turns) >= 3)
    assert turns[:3] == [1, 2, 3]


@pytest.mark.usefixtures("at_once")
def test_a_job_that_fails_stops_no_other(qtbot: QtBot) -> None:
    parent, done = QObject(), list[str]()
    work = Ahead(parent)

    def failing() -> Iterator[None]:
        raise OSError("no such file")
        yield

    work.add("a", failing())
    work.add("b", job("b", 1, done))
    with qtbot.captureExceptions() as raised:
        qtbot.waitUntil(lambda: done == ["b"])
    assert [error[0] for error in raised] == [OSError]
    assert work.has("a")


def test_a_package_comes_in_pieces_as_it_would_at_once(package: str) -> None:
    assert list(import_in_pieces(package)) == [2, 3, 4, 5, 7]
    module = import_module(package)
    assert module.seen == [1, 42]
    assert module.twice.__module__ == package
    assert list(import_in_pieces(package)) == []


def test_a_package_that_fails_is_not_there(package: str, tmp_path: Path) -> None:
    (tmp_path / package / "one.py").write_text("1 / 0")
    with pytest.raises(ZeroDivisionError):
        list(import_in_pieces(package))
    assert package not in sys.modules


def test_plots_take_what_is_left_of_their_package() -> None:
    """A plot may be wanted in the middle; what handles exceptions stays as it is."""
    code = (
        "import sys, threading\n"
        "from visformer.ui.views.positions.curves import plotting, plotting_in_pieces\n"
        "hooks = sys.excepthook, threading.excepthook\n"
        "pieces, left = plotting_in_pieces(), 20\n"
        "while left:\n"
        "    next(pieces)\n"
        "    left -= 'pyqtgraph' in sys.modules\n"
        "assert not hasattr(sys.modules['pyqtgraph'], 'AxisItem')\n"
        "assert plotting().AxisItem.__module__.startswith('pyqtgraph.')\n"
        "assert (sys.excepthook, threading.excepthook) == hooks\n"
        "assert [*pieces] == []"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_tab_that_is_not_built_yet_is_drawn_when_it_is(
    window: MainWindow, qtbot: QtBot
) -> None:
    window.tabs.load_ahead()
    window.session.set(tab="masks")
    assert window.tabs.name == "attention"  # is seen until then
    assert len(window.tabs.findChildren(View)) == 1
    qtbot.waitUntil(lambda: window.tabs.name == "masks")
    assert window.tabs.view("masks").isVisible()
    assert window.tabs.explanation.text()
    kinds = {type(view).__name__ for view in window.tabs.findChildren(View)}
    assert "ComputationView" not in kinds  # it comes when there is time


# ---- plain imports ----------------------------------------------------------------


def is_read(folder: Path, name: str) -> bool:
    """Import a new module in a statement; tell whether its source was read, too."""
    file = folder / f"{name}.py"
    file.write_text("")
    importlib.invalidate_caches()
    exec(f"import {name}")
    return str(file) in linecache.cache


def test_an_import_reads_no_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    hook = vars(builtins)["__feature_import__"]
    monkeypatch.setattr(builtins, "__import__", hook)  # and back
    assert is_read(tmp_path, "hooked"), "PySide reads no sources any more"
    import_plainly()
    assert not is_read(tmp_path, "plain")


def test_the_command_imports_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    monkeypatch.setattr(builtins, "__import__", builtins.__import__)
    monkeypatch.setattr(cli, "check_screen", lambda: None)

    def run(*_given: object) -> int:
        seen.append(builtins.__import__ is vars(builtins)["__orig_import__"])
        return 0

    monkeypatch.setattr(app, "run", run)
    assert cli.main([]) == 0
    assert seen == [True]
