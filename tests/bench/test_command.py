"""The command: which budgets, what is printed, and what happens when one fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bench import bench_command as command
from tests.bench.measurements import Measurement

Made = Callable[[str, int], list[Measurement]]


class Here:
    """Stands in for the pool: measures in this process."""

    _work: Made
    _given: tuple[str, int]

    def __init__(self, workers: int, mp_context: object) -> None:
        pass

    def __enter__(self) -> Here:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def submit(self, work: Made, name: str, budget: int) -> Here:
        self._work, self._given = work, (name, budget)
        return self

    def result(self) -> list[Measurement]:
        return self._work(*self._given)


@pytest.fixture
def measuring(monkeypatch: pytest.MonkeyPatch) -> None:
    def figures(name: str, budget: int) -> list[Measurement]:
        if budget == 9:
            raise MemoryError("too large")
        return [Measurement(budget, name, 2.0, "x", "at most", budget)]

    monkeypatch.setattr(command, "GROUPS", {"first": (3, 1), "second": (2, 9)})
    monkeypatch.setattr(command, "ProcessPoolExecutor", Here)
    monkeypatch.setattr(command, "_figures", figures)


@pytest.mark.usefixtures("measuring")
def test_budgets_are_measured_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--only", "3, 2,1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "Budgets met: 2 of 3",
        "Missed: 1",
        "  1  first: 2 x (at most 1 x: MISSED)",
        "  2  second: 2 x (at most 2 x: met)",
        "  3  first: 2 x (at most 3 x: met)",
    ]


def test_of_many_figures_the_worst_and_the_missed_are_printed() -> None:
    made = [Measurement(10, f"k{at}", at, "ms", "at most", 16) for at in range(1, 20)]
    absent = Measurement(2, "peer", None, "x", "at least", 1, note="not there")
    lines = [*command.report([absent, *made[:16]], {(10, "k16"): 4.0})]
    assert lines == [
        "Budgets met: 1 of 2",
        "Not all measured: 2",
        "  2  peer: not measured (not there)",
        " 10  16 figures, 16 met; the worst and the missed ones:",
        " 10  k16: 16 ms (at most 16 ms: met)  before: 4 ms",
    ]
    missed = [*command.report(made, {})]
    assert missed[:2] == ["Budgets met: 0 of 1", "Missed: 10"]
    assert [line.split(":")[0] for line in missed[3:]] == [
        " 10  k17",
        " 10  k18",
        " 10  k19",
    ]
    assert len([*command.report(made, {}, every=True)]) == 2 + 19


def test_of_budgets_measured_in_turn_all_figures_are_printed() -> None:
    made = [
        Measurement(budget, f"k{at}", at, "ms", "at most", 1)
        for at in range(3)
        for budget in (10, 7)
    ]
    assert [*command.report(made, {})] == [
        "Budgets met: 0 of 2",
        "Missed: 10, 7",
        " 10  k0: 0 ms (at most 1 ms: met)",
        " 10  k1: 1 ms (at most 1 ms: met)",
        " 10  k2: 2 ms (at most 1 ms: MISSED)",
        "  7  k0: 0 ms (at most 1 ms: met)",
        "  7  k1: 1 ms (at most 1 ms: met)",
        "  7  k2: 2 ms (at most 1 ms: MISSED)",
    ]


@pytest.mark.usefixtures("measuring")
def test_a_run_is_compared_with_an_earlier_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = tmp_path / "old.json"
    command.main(["--json", "--only", "1,2"])
    old.write_text(capsys.readouterr().out)
    assert command.main(["--only", "2,3", "--against", str(old)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].endswith("(at most 2 x: met)  before: 2 x")
    assert lines[2].endswith("(at most 3 x: met)")
    old.write_text("[]")
    with pytest.raises(SystemExit, match="2"):
        command.main(["--against", str(old)])
    assert "is not what --json prints" in capsys.readouterr().err


@pytest.mark.usefixtures("measuring")
def test_a_failure_loses_no_other_figure(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--json"]) == 1
    made = json.loads(capsys.readouterr().out)["figures"]
    assert [figure["budget"] for figure in made] == [1, 2, 3, 9]
    assert [figure["met"] for figure in made] == [False, True, True, None]
    assert made[-1]["note"] == "MemoryError: too large"


@pytest.mark.parametrize("wrong", ["99", "one", "1,,3", "-1"])
def test_numbers_that_are_no_budgets(
    wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        command.main([f"--only={wrong}"])
    assert "is not a budget. Choose from 1, 2" in capsys.readouterr().err


def test_every_group_measures_its_budgets() -> None:
    import importlib

    for name, budgets in command.GROUPS.items():
        module = importlib.import_module(f"tests.bench.time_{name}")
        assert set(module.BENCHMARKS) == set(budgets)


@pytest.mark.slow
def test_qt_says_nothing_on_standard_error() -> None:
    """A window is measured in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench", "--only", "8"],
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert " 8 " in done.stdout
