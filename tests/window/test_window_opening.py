"""The real window on a fake engine: models and recorded traces that are opened."""

from __future__ import annotations

import os
import stat
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from tests.opened import opened_model
from tests.traces import make_trace
from tests.unit.values.vis_files import Blocks
from tests.window.windows import Pair
from visformer.errors import InputError
from visformer.session import runs as session_runs
from visformer.session import state as session_state
from visformer.trace_file import file_blocks
from visformer.trace_file.saved_session import SavedRun, SavedSession
from visformer.trace_file.stored_facts import RunSelection
from visformer.trace_file.trace_file import read_session, write_session, write_trace
from visformer.ui.window import session_files
from visformer.ui.window.window import MainWindow
from visformer.values.facts import WATCHED
from visformer.values.finding import Finding


def test_an_opened_model_is_named_and_remembered(
    window: MainWindow, tmp_path: Path
) -> None:
    trace = make_trace(layers=2, decoder_layers=3)
    findings = (Finding("nan", "Output", "3 are NaN.", "Reload."),)
    opened = opened_model(trace.model, path=str(tmp_path), devices=("cuda:0", "cpu"))
    window.receive(replace(opened, findings=findings))
    assert "model: random, 2+3 layers, 2 heads" in window.header.model.toolTip()
    devices = window.header.device.actions()
    assert [a.text() for a in devices if a.isChecked()] == ["cpu"]
    assert window.recent_menu.actions()[0].text() == str(tmp_path)
    assert window.notice.text() == "nan: Output: 3 are NaN. Reload."


def test_a_model_of_another_program_is_no_checkpoint_to_open(
    window: MainWindow,
) -> None:
    """Its path is only its name."""
    model = replace(make_trace().model, layout=WATCHED)
    window.receive(opened_model(model, path="MyModel"))
    assert window.memory.texts("recent") == []
    assert window.recent_menu.isEmpty()


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
def test_what_was_typed_can_be_read_by_its_user_alone(window: MainWindow) -> None:
    window.translate("a secret")
    window.close()
    file = Path(window.memory._settings.fileName())
    assert b"secret" in file.read_bytes()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def opened(window: MainWindow, qtbot: QtBot, path: Path) -> None:
    """Open a trace file, and wait until it is shown or refused."""
    window.open(str(path))
    assert window.session.state.busy == f"opening {path.name}"
    qtbot.waitUntil(lambda: not window.session.state.busy, timeout=60_000)


def test_a_trace_file_opens_without_the_engine(
    pair: Pair, qtbot: QtBot, tmp_path: Path
) -> None:
    window, engine = pair
    write_trace(make_trace(target=3), tmp_path / "a.vis")
    opened(window, qtbot, tmp_path / "a.vis")
    assert engine.opened == []
    assert window.session.state.step == 3
    assert window.source.text() == "s0 s1 s2 s3 s4"
    assert "recorded" in window.status.engine.text()
    (tmp_path / "b.vis").write_bytes(bytes(9))
    opened(window, qtbot, tmp_path / "b.vis")
    assert "is not a Visformer trace" in window.notice.text()
    assert window.session.state.step == 3


def test_the_newest_of_several_openings_is_shown(
    window: MainWindow, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    shown: list[SavedSession] = []

    def slow(path: Path) -> SavedSession:
        if path.name == "a.vis":
            go_on.wait(10)
        return read_session(path)

    monkeypatch.setattr(session_files, "read_session", slow)
    monkeypatch.setattr(
        window._traces, "_show", lambda session, _: shown.append(session)
    )
    for name, seed in (("a.vis", 1), ("b.vis", 2)):
        write_trace(make_trace(seed=seed), tmp_path / name)
        window.open(str(tmp_path / name))
    qtbot.waitUntil(lambda: len(shown) == 1)
    assert window.session.state.busy == ""
    with qtbot.waitSignal(window._traces._done):
        go_on.set()
    assert [session.shown.trace.steps[0] for session in shown] == [
        make_trace(seed=2).steps[0]
    ]


def test_a_window_that_closes_while_a_file_is_read(
    window: MainWindow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, started = threading.Event(), threading.Event()

    def slow(path: Path) -> SavedSession:
        started.set()
        go_on.wait(10)
        raise InputError("late")

    monkeypatch.setattr(session_files, "read_session", slow)
    before = set(threading.enumerate())
    window.open(str(tmp_path / "a.vis"))
    started.wait(10)
    window.close()
    go_on.set()
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
    QApplication.sendPostedEvents()


def test_a_session_shows_the_run_and_what_was_looked_at(
    window: MainWindow, qtbot: QtBot, tmp_path: Path
) -> None:
    chosen = RunSelection(kind="decoder", layer=1, head=1, step=2, tab="masks")
    runs = SavedRun(trace=make_trace()), SavedRun(trace=make_trace(), selection=chosen)
    write_session(runs, tmp_path / "a.vis", shown=1)
    opened(window, qtbot, tmp_path / "a.vis")
    state = window.session.state
    assert (state.kind, state.layer, state.head) == ("decoder", 1, 1)
    assert (state.step, state.tab) == (2, "masks")
    odd = replace(runs[1], selection=RunSelection(tab="none", layer=99, step=99))
    write_session([odd], tmp_path / "b.vis")
    opened(window, qtbot, tmp_path / "b.vis")
    state = window.session.state
    assert (state.layer, state.step, state.tab) == (1, 4, "masks")


def test_a_long_recorded_run_is_shown_from_its_first_step(
    window: MainWindow, qtbot: QtBot, tmp_path: Path
) -> None:
    write_trace(make_trace(target=300, layers=1), tmp_path / "a.vis")
    opened(window, qtbot, tmp_path / "a.vis")
    assert (window.session.state.step, len(window.session.state.trace or ())) == (
        1,
        300,
    )


def test_what_a_damaged_file_lacks_is_said(
    window: MainWindow, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.vis"
    write_trace(make_trace(target=130), path)
    whole = Blocks.of(path.read_bytes())
    path.write_bytes(whole.without("0/decoder/keys/0/1").whole())
    opened(window, qtbot, path)
    assert "64 of 130 target tokens" in window.notice.text()
    # a large file is not verified when it is opened
    monkeypatch.setattr(file_blocks, "VERIFIED", 0)
    data = whole.whole()
    (stop,) = (end for name, _, end in whole.spans() if name == "0/steps/2")
    path.write_bytes(data[: stop - 1] + bytes([data[stop - 1] ^ 1]) + data[stop:])
    for module in (session_runs, session_state):
        monkeypatch.setattr(module, "SHOWN_WHOLE", 0)
    opened(window, qtbot, path)
    assert window.notice.text() == ""
    window.session.set(step=130)
    assert "“0/steps/2” fails its checksum" in window.notice.text()
    window.session.set(step=20)
    assert window.notice.text() == ""


def test_the_device_chosen_is_sent(pair: Pair) -> None:
    window, engine = pair
    assert window.header.device.actions() == []  # nothing is open that could run there
    model = make_trace().model
    window.receive(opened_model(model, path="/m", devices=("cuda:0", "cpu")))
    cuda, cpu = window.header.device.actions()
    assert cpu.isChecked()
    cuda.trigger()
    assert engine.opened == [("/m", "cuda:0")]
