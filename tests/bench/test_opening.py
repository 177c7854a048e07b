"""The benchmark of opening at a tiny size."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest

from tests.bench import time_opening as bench
from tests.bench.random_trace import random_facts
from tests.bench.windows import shown_window
from tests.traces import make_trace

TINY = random_facts(d_model=8, heads=2, layers=2, vocabulary=60)


def test_a_file_is_opened_at_its_first_step_and_painted(tmp_path: Path) -> None:
    bench.write_random(tmp_path / "a.vis", TINY, 6)
    with shown_window(make_trace(target=3)) as window:
        found = bench.opening(window, tmp_path / "a.vis")
        state = window.session.state
        assert (state.step, len(state.trace or ())) == (1, 6)
        (tmp_path / "a.vis").write_bytes(b"")
        with pytest.raises(RuntimeError, match="is empty"):
            bench.opening(window, tmp_path / "a.vis")
    assert found.read > 0
    assert found.paint > 0
    assert found.most >= found.kept


def test_figures_of_a_recorded_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "TARGETS", ((bench.SMALL, 28), (bench.SMALL, 150)))
    monkeypatch.setattr(bench, "ROUNDS", 1)
    time, memory = bench.recorded()
    assert time.value is not None
    assert -math.inf < time.value < math.inf
    assert {"tiny ms", "1 MB ms", "4 MB ms", "4 MB reading ms"} <= set(time.parts)
    if sys.platform == "linux":
        assert set(memory.parts) == {
            *("1 MB MiB", "1 MB peak MiB"),
            *("4 MB MiB", "4 MB peak MiB"),
        }
        assert memory.value is not None


def test_too_little_room_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert bench._longest(tmp_path, bench.SMALL, 28) == (28, "")
    monkeypatch.setattr(bench, "status", lambda name, file="": 1 << 20)
    found = bench._longest(tmp_path, bench.WIDE, 4000)
    assert found == (20, "too little memory for 1 GB")
