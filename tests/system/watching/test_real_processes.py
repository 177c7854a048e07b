"""``show(wrapped)`` with a script and a window that are processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SECONDS = 240  # of a computer that does other things as well
SCRIPT = """
import os, subprocess, sys, time, torch, visformer
from visformer import api
from tests.system.watching.faulty_models import built

torch.set_num_threads(1)
model = built("healthy")

def call(src, tgt):
    if (src == 9).any():
        raise ZeroDivisionError("no nines")
    if (src == 7).any():
        os._exit(3)
    logits = model(src, tgt)
    logits[:, 3:, 1] = 99.0  # the end, after four tokens
    return logits

def window(function, *given):
    assert function == "app:run_served"
    command = [sys.executable, "-m", "tests.system.watching.driven_window", *given]
    return subprocess.Popen(command, start_new_session=True)

api.started = window
wrapped = visformer.wrap(call, bos=2, eos=1)
block = sys.argv[1] == "block"
visformer.show(wrapped, block=block)
while not block:
    time.sleep(0.05)  # the script does something else
"""


def told(how: str, folder: Path) -> dict[str, dict[str, object]]:
    """Run the script until it ends; return what its window said, by what it did."""
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
    environment["PYTHONPATH"] = str(Path(__file__).parents[3])
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, how],
        stdout=subprocess.PIPE,  # closed when the window has ended as well
        cwd=folder,
        env=environment,
        timeout=SECONDS,
        check=False,
        text=True,
    )
    assert run.returncode == 3  # the model's own way to end
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    return {line["did"]: line for line in lines}


@pytest.mark.timeout(SECONDS)
def test_it_is_typed_into_forced_raises_and_ends(tmp_path: Path) -> None:
    said = told("block", tmp_path)
    done = ["typed", "forced", "raised", "went on", "ended", "refused"]
    assert list(said) == done
    assert said["typed"]["source"] == ["5", "6", "8"]
    assert said["typed"]["kinds"] == ["encoder", "decoder", "cross"]
    assert not any(one["torch"] for one in said.values())
    origins = said["forced"]["origins"]
    assert isinstance(origins, list)
    assert origins.count("forced") == 1  # at the step that the window opened on
    assert set(origins) == {"forced", "model"}
    assert said["raised"]["error"] == "Your model raised ZeroDivisionError: no nines."
    assert said["raised"]["source"] == ["5", "6", "8"]  # what it showed stays
    for did in ("ended", "refused"):
        assert "has ended" in str(said[did]["error"])
        assert said[did]["source"] == ["6", "6"]


@pytest.mark.slow
@pytest.mark.timeout(SECONDS)
def test_a_script_goes_on_beside_its_window(tmp_path: Path) -> None:
    said = told("at once", tmp_path)
    assert said["forced"]["kinds"] == ["encoder", "decoder", "cross"]
    assert list(said)[-1] == "refused"
