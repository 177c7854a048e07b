"""A real engine that hangs, cannot start, runs out of memory, loses its window."""

from __future__ import annotations

import multiprocessing
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from tests.system.engine.listener import SECONDS, Listener, decoded, process_id, request
from tests.system.formats.folders import write_letters
from tests.tiny_models import tiny_model
from visformer.core.decoding import Decoding
from visformer.engine import process
from visformer.engine.handle import Engine
from visformer.engine.messages import (
    Answer,
    Batch,
    Closed,
    Finished,
    Numbered,
    Open,
    Opened,
    Refused,
    Replaced,
)
from visformer.engine.mirror import Decoded
from visformer.engine.wire import Wire
from visformer.formats.loading import load


@pytest.mark.skipif(sys.platform != "linux", reason="asked of Linux")
def test_an_opening_whose_process_is_stopped_is_given_up(folder: Path) -> None:
    now, listener = [0.0], Listener()
    handle = Engine(listener, clock=lambda: now[0])
    try:
        handle.open(Open(path=str(folder)))
        os.kill(process_id(handle), signal.SIGSTOP)
        while handle.beat() and now[0] < 1000:
            now[0] += 1
        refused = listener.wait_for(Refused)
        assert isinstance(refused, Refused)
        assert "neither computed nor read" in refused.reason
        handle.open(Open(path=str(folder)))  # in another process
        listener.wait_for(Opened)
    finally:
        handle.close()


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGSTOP")
def test_a_hung_engine_is_ended_by_stop_and_never_holds_who_asks(
    engine: tuple[Engine, Listener], folder: Path
) -> None:
    handle, listener = engine
    handle.open(Open(path=str(folder)))
    listener.wait_for(Opened)
    hung = process_id(handle)
    os.kill(hung, signal.SIGSTOP)
    for _ in range(3):  # more than the pipe takes: it would stand here
        handle.ask(request("ab" * 400_000))
    handle.stop()
    replaced = listener.wait_for(Replaced)
    assert isinstance(replaced, Replaced)
    assert "did not answer and was ended" in replaced.reason
    assert process_id(handle) != hung
    number = handle.ask(request("abc"))
    expected = Decoding(load(folder), "abc").finish()
    assert decoded(listener, number).trace.target == expected.target


def test_stop_keeps_what_came_and_the_engine(
    engine: tuple[Engine, Listener], folder: Path
) -> None:
    handle, listener = engine
    handle.open(Open(path=str(folder)))
    listener.wait_for(Opened)
    working = process_id(handle)
    number = handle.ask(request("abcdef", limit=60))
    listener.wait_for(Decoded)
    handle.stop()
    listener.wait(lambda e: isinstance(e, Finished) and e.number == number)
    number = handle.ask(request("abc"))
    decoded(listener, number)
    assert process_id(handle) == working


def test_a_file_that_changed_is_not_opened_in_silence(
    engine: tuple[Engine, Listener], tmp_path: Path
) -> None:
    handle, listener = engine
    folder = write_letters(tmp_path / "letters", tiny_model(seed=1))
    handle.open(Open(path=str(folder)))
    listener.wait_for(Opened)
    write_letters(folder, tiny_model(seed=2))
    os.kill(process_id(handle), signal.SIGKILL)
    closed = listener.wait_for(Closed)
    assert isinstance(closed, Closed)
    assert "letters has changed on the disk" in closed.reason
    handle.ask(request("ab"))
    refused = listener.wait_for(Refused)
    assert isinstance(refused, Refused)
    assert "No model is open" in refused.reason


def test_a_process_that_cannot_import_torch_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: Path
) -> None:
    broken = tmp_path / "torch"
    broken.mkdir()
    (broken / "__init__.py").write_text("raise ImportError('libtorch is not here')")
    path = os.pathsep.join((str(tmp_path), *sys.path))
    monkeypatch.setenv("PYTHONPATH", path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    listener = Listener()
    handle = Engine(listener)
    handle.open(Open(path=str(folder)))
    refused = listener.wait_for(Refused)
    handle.close()
    assert isinstance(refused, Refused)
    assert "does not start (ImportError: libtorch is not here)" in refused.reason


def test_memory_that_runs_out_is_a_sentence() -> None:
    cpu = RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: 9")
    for error in (MemoryError(), cpu, torch.OutOfMemoryError("CUDA out of memory.")):
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(process.HANDLERS, Batch, failing(error))
            sent: list[Answer] = []
            near, _far = multiprocessing.Pipe()
            server = process.Server(Wire(near))
            server.send = sent.append
            server.answer(Numbered(1, Batch(sources=("a",))))
        (refused,) = sent
        assert isinstance(refused, Refused)
        assert refused.reason.startswith("There is not enough memory for this")


def failing(error: Exception) -> process.Handler:
    def handle(server: process.Server, number: int, request: object) -> None:
        raise error

    return handle


CHILD = """
import signal, sys
from visformer.engine.handle import Engine
from visformer.engine.messages import Open

if __name__ == "__main__":
    # what a shell starts in the background ignores it, and so would the engine
    signal.signal(signal.SIGINT, signal.default_int_handler)
    events = []
    engine = Engine(events.append)
    print(engine._current.process.pid, flush=True)
    sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asked of Linux")
def test_a_stopped_engine_does_not_outlive_a_killed_window(tmp_path: Path) -> None:
    """Nor does a running one; Ctrl-C in the terminal reaches neither."""
    script = tmp_path / "window.py"
    script.write_text(CHILD)
    window = subprocess.Popen(
        [sys.executable, str(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert window.stdout is not None
    engine = int(window.stdout.readline())
    wait_for_death_signal(engine)
    os.kill(engine, signal.SIGINT)
    os.kill(engine, signal.SIGSTOP)
    handle = os.pidfd_open(engine)
    window.kill()
    window.communicate()
    ended, _, _ = select.select([handle], [], [], SECONDS)
    os.close(handle)
    assert ended


def wait_for_death_signal(engine: int) -> None:
    """Wait until a process ignores SIGINT: what ``end_with`` does last."""
    bit = 1 << (signal.SIGINT - 1)
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        status = Path(f"/proc/{engine}/status").read_text()
        ignored = next(x for x in status.splitlines() if x.startswith("SigIgn"))
        if int(ignored.split()[1], 16) & bit:
            return
    raise AssertionError("the engine has not started")
