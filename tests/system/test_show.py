"""``visformer.show`` where there is no screen, and where scripts go on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import visformer
from tests.traces import make_trace

SHOW = """
import sys, threading, visformer
from tests.traces import make_trace

def attempt():
    try:
        visformer.show(make_trace())
    except visformer.InputError as error:
        print(error)

if sys.argv[1] == "thread":
    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
else:
    attempt()
print("still here")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="DISPLAY is a Linux matter")
@pytest.mark.parametrize(
    ("how", "variables", "words"),
    [
        ("here", {}, "There is no screen here."),
        ("here", {"DISPLAY": ":9876"}, "The screen :9876 does not answer."),
        ("here", {"WAYLAND_DISPLAY": "nothing"}, "The screen nothing does not answer."),
        ("thread", {"QT_QPA_PLATFORM": "offscreen"}, "call it from the main thread"),
    ],
)
def test_without_a_screen_show_raises_and_python_lives(
    how: str, variables: dict[str, str], words: str
) -> None:
    names = ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")
    kept = {name: text for name, text in os.environ.items() if name not in names}
    done = subprocess.run(
        [sys.executable, "-c", SHOW, how],
        capture_output=True,
        text=True,
        timeout=100,
        env={**kept, **variables},
        cwd=Path(__file__).parents[2],
    )
    assert (done.returncode, done.stderr) == (0, "")
    said, *rest = done.stdout.splitlines()
    assert words in said
    assert rest == ["still here"]


GO_ON = """
import sys, visformer
from tests.traces import make_trace
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication

assert visformer.show(make_trace(), block=False) == 0
(window,) = [w for w in QApplication.topLevelWidgets() if w.isVisible()]
print(window.isVisible(), len(window.session.state.trace))
hook = sys.excepthook
QTimer.singleShot(0, QApplication.quit)
assert visformer.show(make_trace()) == 0
print(sys.excepthook is hook)
"""


def test_show_goes_on_where_it_is_told_to_and_leaves_the_scripts_hooks() -> None:
    done = subprocess.run(
        [sys.executable, "-c", GO_ON],
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen"},
        cwd=Path(__file__).parents[2],
    )
    assert done.stdout.split("\n")[:2] == [f"True {len(make_trace())}", "True"]
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("given", [None, 3, ["a.vis"]])
def test_show_names_what_it_takes(given: object) -> None:
    with pytest.raises(TypeError, match="must be a Trace, a session, or the path"):
        visformer.show(given)  # type: ignore[arg-type]


def test_the_key_of_the_connection_is_on_no_command_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every user of a computer may read the command lines of all its processes."""
    commands: list[list[str]] = []
    windows: list[subprocess.Popen[str]] = []
    start = subprocess.Popen

    def started(command: list[str], **more: Any) -> subprocess.Popen[str]:
        commands.append(command)
        reads = "import json, sys; print(*json.load(sys.stdin)['arguments'])"
        command = [sys.executable, "-c", reads]
        windows.append(start(command, **more | {"stdout": subprocess.PIPE}))
        return windows[-1]

    monkeypatch.setattr(subprocess, "Popen", started)
    visformer.show(visformer.wrap(lambda src, tgt: tgt, bos=1, eos=2))
    (process,) = windows
    assert process.stdout is not None
    with process.stdout as pipe:
        _address, key, name = pipe.read().split(" ")
    assert len(bytes.fromhex(key)) == 32
    assert name.strip()
    assert key not in " ".join(commands[0])
