"""Ctrl-C in the terminal ends the window and its engines, at every moment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
SECONDS = 60


def caught(process: int, number: int) -> bool:
    """Tell whether a process has a handler for a signal."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    mask = next(line for line in lines if line.startswith("SigCgt")).split()[1]
    return bool(int(mask, 16) >> (number - 1) & 1)


def children(process: int) -> list[int]:
    found = []
    for tasks in Path(f"/proc/{process}/task").glob("*/children"):
        found += [int(child) for child in tasks.read_text().split()]
    return found


def starting(process: int) -> bool:
    """Tell whether Qt is being started: the engine is already."""
    return bool(children(process))


def running(process: int) -> bool:
    """Tell whether the loop runs: the window handles SIGTERM itself from there on."""
    return caught(process, signal.SIGTERM)


@pytest.mark.parametrize("moment", [starting, running])
def test_ctrl_c_ends_window_and_engines(
    moment: Callable[[int], bool], tmp_path: Path
) -> None:
    environment = {
        **os.environ,
        "QT_QPA_PLATFORM": "offscreen",
        "XDG_CONFIG_HOME": str(tmp_path),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    window = subprocess.Popen(
        [sys.executable, "-m", "visformer"],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + SECONDS
    while not moment(window.pid):
        assert window.poll() is None
        assert time.monotonic() < deadline
    engines = children(window.pid)
    os.killpg(window.pid, signal.SIGINT)
    _, errors = window.communicate(timeout=SECONDS)
    assert window.returncode == 130
    assert "Traceback" not in errors
    assert engines
    for engine in engines:  # what the window started has ended with it
        while Path(f"/proc/{engine}").exists():
            assert time.monotonic() < deadline
