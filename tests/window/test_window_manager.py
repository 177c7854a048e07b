"""The window keeps its size on a real screen, where a window manager has a say."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

SCREEN = "1280x800x24"
NEEDED = "Xvfb", "openbox"


@pytest.fixture
def display() -> Iterator[str]:
    """Start an X server and a window manager; gives the display's name."""
    reader, writer = os.pipe()
    screen = ("-screen", "0", SCREEN, "-displayfd", str(writer))
    with subprocess.Popen(("Xvfb", *screen), pass_fds=[writer]) as server:
        os.close(writer)
        with os.fdopen(reader) as told:
            name = ":" + told.readline().strip()
        surroundings = {**os.environ, "DISPLAY": name}
        with subprocess.Popen(("openbox",), env=surroundings) as manager:
            yield name
            manager.kill()
        server.kill()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(not all(map(shutil.which, NEEDED)), reason="needs Xvfb, openbox")
def test_the_window_has_its_size_again_under_a_window_manager(display: str) -> None:
    surroundings = {**os.environ, "DISPLAY": display, "QT_QPA_PLATFORM": "xcb"}
    command = (sys.executable, "-m", "tests.window.managed_window")
    made = subprocess.run(
        command, env=surroundings, capture_output=True, text=True, timeout=240
    )
    assert (made.returncode, made.stdout.strip()) == (0, ""), made.stderr
