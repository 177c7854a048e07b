"""The benchmarks of starting: what the processes that are timed do."""

from __future__ import annotations

import importlib
import multiprocessing
import sys
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue

import pytest

from tests.bench import time_starting as starting
from tests.bench.time_starting import ProcessRun
from visformer import paths
from visformer.engine.messages import Event, Finished, Refused, Replaced
from visformer.errors import InputError


def test_a_process_is_timed_until_its_line() -> None:
    program = "import json, sys; print(json.dumps({'given': sys.argv[1:]}))"
    made = starting.started(program, "7")
    assert made.line == {"given": ["7"]}
    assert made.seconds > 0


def test_a_process_that_fails_is_named() -> None:
    with pytest.raises(InputError, match="failed: ValueError: no screen"):
        starting.started('raise ValueError("no screen")')
    with pytest.raises(InputError, match="it printed nothing"):
        starting.started("")


def test_both_windows_are_painted(tmp_path: Path) -> None:
    ours = starting.started(starting.WINDOW, str(tmp_path / "a.ini"))
    assert ours.line["paints"] >= 1
    assert not ours.line["torch"]
    assert not starting.started(starting.TRIVIAL).line["torch"]


@pytest.mark.parametrize("torch", [False, True])
def test_figures_of_the_window(monkeypatch: pytest.MonkeyPatch, torch: bool) -> None:
    def started(program: str, *arguments: str) -> ProcessRun:
        ours = program is starting.WINDOW
        return ProcessRun(3.0 if ours else 2.0, {"paints": 1, "torch": torch})

    monkeypatch.setattr(starting, "started", started)
    ratio, paints, imports = starting.window()
    assert ratio.value == 1.5
    assert ratio.parts == {"visformer ms": 3000, "bare window ms": 2000}
    assert paints.met
    assert imports.met is not torch


def test_the_trap_catches_an_import_in_a_spawned_process() -> None:
    before = list(sys.path)
    spawn = multiprocessing.get_context("spawn")
    with starting.trap() as imported:
        assert not imported()
        for name, caught in (("json", False), ("transformers", True)):
            child = spawn.Process(target=importlib.import_module, args=(name,))
            child.start()
            child.join()
            assert imported() is caught
    assert sys.path == before


def test_figures_of_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (paths.checkpoint() / "model.safetensors").is_file()  # the peer's
    monkeypatch.setattr(starting, "engine_seconds", lambda checkpoint: 3.0)
    monkeypatch.setattr(starting, "started", lambda *_: ProcessRun(2.0, {}))
    ratio, imports = starting.engine()
    assert ratio.value == 1.5
    assert imports.met


def test_other_events_are_passed_by() -> None:
    events: SimpleQueue[Event] = SimpleQueue()
    others: list[Event] = []
    replaced, finished = Replaced(reason=""), Finished(number=1, step_ms=None)
    for event in (replaced, finished, Refused(number=2, reason="no such file")):
        events.put(event)
    listen: Callable[[Event], None] = others.append
    assert starting.next_event(events, Finished, listen) is finished
    assert others == [replaced]
    with pytest.raises(InputError, match="no such file"):
        starting.next_event(events, Finished)
