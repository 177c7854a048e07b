"""Sessions in the window: saved, kept while worked on, offered after a crash."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QSettings
from PySide6.QtWidgets import QApplication, QFileDialog
from pytestqt.qtbot import QtBot

from tests.opened import opened_model
from tests.traces import make_trace
from tests.window.parts import unwrap
from tests.window.windows import FakeEngine, Opened, Pair, answer, translate
from visformer import save_session
from visformer.engine.messages import Open
from visformer.session import runs
from visformer.session.kept import KeptWork, left_behind
from visformer.trace_file.saved_session import SavedRun
from visformer.trace_file.trace_file import read_session
from visformer.ui.window import session_files
from visformer.ui.window.session_files import choose_session
from visformer.ui.window.window import MainWindow
from visformer.values.changes.mask_changes import Causal
from visformer.values.intervention import Intervention
from visformer.values.trace import Trace

OPEN = Intervention(masks=(Causal(None),))
TRACE = make_trace(source=6, target=5, layers=3)
Start = Callable[[], Pair]


@pytest.fixture
def start(
    qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Start]:
    """Start windows that share a folder; each keeps at the next turn of the loop."""
    monkeypatch.setattr(session_files, "KEEP_MS", 0)
    windows: list[MainWindow] = []

    def made() -> Pair:
        engine = FakeEngine()
        ini = QSettings(str(tmp_path / "window.ini"), QSettings.Format.IniFormat)
        window = MainWindow(engine, ini, tmp_path / "kept")
        windows.append(window)
        qtbot.addWidget(window)
        window.resize(1280, 800)
        window.show()
        return window, engine

    yield made
    for window in windows:
        window.close()


def worked(window: MainWindow, engine: FakeEngine) -> Trace:
    """Translate with a model, choose a token, look elsewhere."""
    window.receive(opened_model(TRACE.model, path="/m"))
    translate(window, engine, "one two", TRACE)
    window.session.set(step=3)
    window.session.do(runs.translate, "one two", reference="un")
    made = answer(window, engine, make_trace(source=6, target=5, layers=3, seed=4))
    window.session.set(tab="masks", step=2)
    return made


def crash(window: MainWindow, folder: Path) -> None:
    """Let the last work be kept, and leave it as a killed window does."""
    window.files._give(window.session.state, closed=False)
    window.files._closed = True
    window.files._keeper.close()
    assert len(left_behind(folder / "kept")) == 1


def offered(window: MainWindow, qtbot: QtBot) -> KeptWork | None:
    """Look for what was left behind; return what is offered."""
    looked: list[None] = []
    window.files.offer()
    window.files._keeper.do(
        lambda: window.files._done.emit(lambda: looked.append(None))
    )
    qtbot.waitUntil(lambda: bool(looked))
    return window.restore.offered


def reopened(start: Start, qtbot: QtBot, folder: Path) -> Opened:
    """Open what a window that crashed has kept, in another one."""
    window, engine = start()
    made = worked(window, engine)
    crash(window, folder)
    again, engine = start()
    assert offered(again, qtbot) is not None
    again.restore.open.click()
    qtbot.waitUntil(lambda: again.session.state.trace is not None)
    return again, engine, made


def test_what_is_worked_on_is_kept_and_offered_after_a_crash(
    start: Start, qtbot: QtBot, tmp_path: Path
) -> None:
    window, engine = start()
    assert offered(window, qtbot) is None
    made = worked(window, engine)
    wish = window.session.state.wish
    crash(window, tmp_path)
    again, engine = start()
    assert offered(again, qtbot) is not None
    assert again.restore.isVisible()
    assert "“one two” was kept" in again.restore.words.text()
    again.restore.open.click()
    qtbot.waitUntil(lambda: again.session.state.trace is not None)
    state = again.session.state
    assert not again.restore.isVisible()
    assert (unwrap(state.trace).text, state.recorded) == (made.text, True)
    assert (state.tab, state.step) == ("masks", 2)
    assert (again.source.text(), again.reference.text()) == ("one two", "un")
    assert engine.of(Open)[-1].path == "/m"
    again.receive(opened_model(TRACE.model, path="/m", number=-1))
    assert engine.decodes[-1] == wish.request()
    answer(again, engine, made)
    assert again.session.state.wish == wish
    assert again.session.state.history.undo
    assert again.isWindowModified()


def test_a_session_that_is_opened_again_stands_once(
    start: Start, qtbot: QtBot, tmp_path: Path
) -> None:
    again, engine, made = reopened(start, qtbot, tmp_path)
    again.files._give(again.session.state, closed=False)
    assert again.files._continues == ""  # its model is not open yet
    again.receive(opened_model(TRACE.model, path="/m", number=-1))
    answer(again, engine, made)
    again.translate("three")
    answer(again, engine, TRACE)
    crash(again, tmp_path)  # of the two, one stands
    (work,) = left_behind(tmp_path / "kept")
    assert work.recipe.wanted.sentence == "three"
    assert work.crashed  # there was an edit
    assert "one two" in [run.sentence for run in work.recipe.undo]


def test_a_session_stands_again_once_there_is_other_work(
    start: Start, qtbot: QtBot, tmp_path: Path
) -> None:
    again, engine, made = reopened(start, qtbot, tmp_path)
    again.receive(opened_model(TRACE.model, path="/m", number=-1))
    answer(again, engine, made)
    again.files._give(again.session.state, closed=False)
    assert again.files._continues
    other = replace(TRACE.model, digest="another")
    again.receive(opened_model(other, path="/other", number=-2))
    again.files._give(again.session.state, closed=False)
    again.receive(opened_model(TRACE.model, path="/m", number=-3))
    again.translate("three")
    answer(again, engine, TRACE)
    again.close()
    found = left_behind(tmp_path / "kept")
    assert [work.recipe.wanted.sentence for work in found] == ["three", "one two"]


def test_what_was_opened_again_and_not_edited_is_not_offered_twice(
    start: Start, qtbot: QtBot, tmp_path: Path
) -> None:
    again, engine, made = reopened(start, qtbot, tmp_path)
    again.receive(opened_model(TRACE.model, path="/m", number=-1))
    answer(again, engine, made)
    crash(again, tmp_path)
    third, _engine = start()
    assert offered(third, qtbot) is None
    assert len(third.files.earlier) == 1


def test_what_crashes_again_is_not_offered_and_stays_in_the_menu(
    start: Start, qtbot: QtBot, tmp_path: Path
) -> None:
    again, _engine, _made = reopened(start, qtbot, tmp_path)
    (work,) = left_behind(tmp_path / "kept")
    again.files._closed = True  # it crashes before anything is kept
    again.files._keeper.close()
    third, _engine = start()
    assert offered(third, qtbot) is None
    assert work.folder in [kept.folder for kept in third.files.earlier]


def test_a_window_that_is_closed_is_not_offered(
    start: Start, qtbot: QtBot, tmp_path: Path
) -> None:
    window, engine = start()
    worked(window, engine)
    window.close()
    (work,) = left_behind(tmp_path / "kept")
    assert work.facts.closed
    again, _engine = start()
    assert offered(again, qtbot) is None
    assert len(again.files.earlier) == 1
    again.close()
    assert len(left_behind(tmp_path / "kept")) == 1  # nothing was worked on


def test_the_first_picture_is_no_work(start: Start, tmp_path: Path) -> None:
    window, engine = start()
    window.show_telling(TRACE)
    window.receive(opened_model(TRACE.model, path="/m"))
    answer(window, engine, TRACE)
    QApplication.processEvents()
    assert not window.isWindowModified()
    window.close()
    assert left_behind(tmp_path / "kept") == []
    window, engine = start()
    window.show_telling(TRACE)
    translate(window, engine, "one", TRACE)
    assert window.isWindowModified()
    window.close()
    assert len(left_behind(tmp_path / "kept")) == 1


def test_what_is_dismissed_is_not_offered_again(
    start: Start, qtbot: QtBot, tmp_path: Path
) -> None:
    window, engine = start()
    worked(window, engine)
    crash(window, tmp_path)
    again, _engine = start()
    offered(again, qtbot)
    again.restore.dismiss.click()
    again.close()
    third, _engine = start()
    assert offered(third, qtbot) is None
    assert len(third.files.earlier) == 1


def test_a_change_is_kept_without_being_asked(
    start: Start, qtbot: QtBot, tmp_path: Path
) -> None:
    window, engine = start()
    told: list[str] = []
    window.files._told.connect(told.append)
    worked(window, engine)
    qtbot.waitUntil(lambda: bool(told))
    assert set(told) == {""}
    assert len([path for path in (tmp_path / "kept").iterdir() if path.is_dir()]) == 1


def test_two_windows_keep_apart(start: Start, qtbot: QtBot, tmp_path: Path) -> None:
    windows = []
    for sentence in ("one", "two"):
        window, engine = start()
        translate(window, engine, sentence)
        assert offered(window, qtbot) is None
        windows.append(window)
    for window in windows:
        window.close()
    found = left_behind(tmp_path / "kept")
    assert {work.recipe.wanted.sentence for work in found} == {"one", "two"}


def test_a_session_that_cannot_be_kept_is_said_once(
    start: Start, qtbot: QtBot, tmp_path: Path
) -> None:
    (tmp_path / "kept").write_text("a file where the folder should be")
    window, engine = start()
    worked(window, engine)
    qtbot.waitUntil(lambda: "cannot be kept" in window.session.state.notice)
    window.session.set(notice="", head=1)
    told: list[str] = []
    window.files._told.connect(told.append)
    qtbot.waitUntil(lambda: bool(told))
    assert window.session.state.notice == ""


def test_the_title_names_the_file_and_says_whether_it_is_saved(
    start: Start, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window, engine = start()
    assert (window.windowTitle(), window.isWindowModified()) == ("Visformer[*]", False)
    worked(window, engine)
    assert window.windowTitle() == "random - Visformer[*]"
    assert window.isWindowModified()
    path = tmp_path / "my [*] work.vis"
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_a: (str(path), ""))
    window.files.save()
    qtbot.waitUntil(lambda: not window.isWindowModified())
    assert window.windowTitle() == "my [*][*] work.vis - random - Visformer[*]"
    assert "Saved as" in window.session.state.notice
    window.session.set(step=1, tab="output")  # looking is no work
    assert not window.isWindowModified()
    window.change_run(OPEN)
    assert window.isWindowModified()
    window.ways.undo()
    assert not window.isWindowModified()
    window.ways.redo()
    answer(window, engine, make_trace(source=6, target=5, layers=3, seed=5))
    window.files.save()  # to the same file
    qtbot.waitUntil(lambda: not window.isWindowModified())
    assert len(read_session(path).runs) >= 1


def test_a_saved_session_goes_on_where_it_was(
    start: Start, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window, engine = start()
    made = worked(window, engine)
    path = tmp_path / "a.vis"
    window.files._write(str(path))
    qtbot.waitUntil(lambda: not window.isWindowModified())
    again, engine = start()
    again.receive(opened_model(TRACE.model, path="/elsewhere"))  # the same model
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_a: (str(path), ""))
    choose_session(again, again.files)
    qtbot.waitUntil(lambda: again.session.state.trace is not None)
    qtbot.waitUntil(lambda: bool(engine.decodes))
    assert again.reference.text() == "un"
    assert engine.decodes[-1].reference == "un"
    answer(again, engine, made)
    assert not again.isWindowModified()
    assert again.session.state.tab == "masks"
    again.ways.undo()
    assert again.session.state.wish.reference == ""
    assert again.isWindowModified()


def test_a_strangers_file_opens_no_model_and_loses_no_run(
    start: Start, qtbot: QtBot, tmp_path: Path
) -> None:
    window, engine = start()
    worked(window, engine)
    path = tmp_path / "a.vis"
    window.files._write(str(path))
    qtbot.waitUntil(lambda: not window.isWindowModified())
    session = read_session(path)
    other = SavedRun(trace=make_trace(seed=9), name="another", note="a note")
    save_session(path, [other, *session.runs], shown=len(session.runs))
    again, engine = start()
    again.open(str(path))
    qtbot.waitUntil(lambda: again.session.state.trace is not None)
    assert engine.opened == []
    again.files.save()
    qtbot.waitUntil(lambda: "Saved as" in again.session.state.notice)
    assert read_session(path).names[0] == "another"
    assert read_session(path).runs[0].note == "a note"


def test_there_must_be_something_to_save(start: Start, tmp_path: Path) -> None:
    window, _engine = start()
    window.files._write(str(tmp_path / "a.vis"))
    assert "nothing to save" in window.session.state.error


def test_a_file_that_cannot_be_written_is_said_and_the_work_stays_unsaved(
    start: Start, qtbot: QtBot, tmp_path: Path
) -> None:
    window, engine = start()
    worked(window, engine)
    window.files._write(str(tmp_path / "missing" / "a.vis"))
    qtbot.waitUntil(lambda: bool(window.session.state.error))
    assert "cannot be written" in window.session.state.error
    assert window.isWindowModified()
