"""Code that lies in the current folder is never run, whatever process is started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.system.formats.folders import write_letters

# names of Python's own library that a process which starts imports
PLANTED = ("weakref", "math", "struct", "types", "signal", "selectors", "contextlib")
CODE = "open(__file__ + '.ran', 'w').close()\nraise ImportError('a stranger ran')\n"
RENDER = """
import sys
from visformer.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["render", *sys.argv[1:]]))
"""
SHOW = """
import numpy, visformer.api

visformer.api.save_session = lambda path, traces: None  # so that the window ends
weights = numpy.ones((1, 1, 2, 2)) / 2
raise SystemExit(visformer.show(attentions={"cross": [weights]}))
"""


def run_in(
    folder: Path, code: str, *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Run a script that lies elsewhere, with strangers' modules in the folder."""
    for name in PLANTED:
        (folder / f"{name}.py").write_text(CODE)
    elsewhere = folder.parent / "script"
    elsewhere.mkdir()
    script = elsewhere / "script.py"
    script.write_text(code)
    return subprocess.run(
        [sys.executable, str(script), *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=100,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_letters(tmp_path / "checkpoint")


def test_the_engines_run_no_code_of_the_current_folder(folder: Path) -> None:
    done = run_in(folder, RENDER, "--checkpoint", ".", "--text", "ab", "-o", "x.png")
    assert (done.returncode, done.stderr) == (0, "")
    assert (folder / "x.png").stat().st_size
    assert list(folder.glob("*.ran")) == []


def test_the_window_of_a_script_runs_no_code_of_the_current_folder(
    folder: Path,
) -> None:
    done = run_in(folder, SHOW)
    assert "watched.vis" in done.stderr.splitlines()[-1]  # it came so far
    assert done.returncode == 1
    assert list(folder.glob("*.ran")) == []
