"""Kill windows at random moments: ``python -m tests.kills --kills 200 --seed 1``.

Each window opens again what the one before it left behind, works on, and is killed.
What is then on the disk is compared with the window's journal, and every run in it
with what the model makes of its recipe, number by number.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tests.system.formats.folders import write_letters
from tests.tiny_models import tiny_model
from visformer.core.checkpoint import Checkpoint
from visformer.core.decoding import Decoding
from visformer.formats.loading import load
from visformer.session.kept import FACTS, KeptWork, left_behind
from visformer.session.recipe import WantedRun
from visformer.trace_file.trace_file import read_session
from visformer.values.trace import Trace

START_S = 120.0
MOST_S, MOST_ACTIONS = 10.0, 50  # of work that a kill may lose
LIVES_S = 6.0


@dataclass
class Report:
    """What came of the kills."""

    kills: int = 0
    kept: int = 0  # kills after which work was there
    with_runs: int = 0
    restored: int = 0  # windows that began with what was left behind
    lost_s: list[float] = field(default_factory=list)
    lost_actions: list[int] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def words(self) -> str:
        worst = max(self.lost_s, default=0.0), max(self.lost_actions, default=0)
        return (
            f"{self.kills} kills: work kept after {self.kept}, with its runs after "
            f"{self.with_runs}, opened again by {self.restored}; lost at most "
            f"{worst[0]:.1f} s and {worst[1]} actions; {len(self.faults)} faults"
        )


def run(folder: Path, kills: int, seed: int) -> Report:
    """Kill so many windows, one after the other."""
    report, chance = Report(), random.Random(seed)
    write_letters(folder / "model", tiny_model(seed=3, max_positions=512))
    checkpoint = load(folder / "model")
    before: KeptWork | None = None
    for number in range(kills):
        known = len(report.faults)
        (folder / "journal").unlink(missing_ok=True)
        process, killed = _killed(folder, seed * 1000 + number, chance)
        lines = _journal(folder)
        report.kills += 1
        found = left_behind(folder / "kept")
        if before is not None and before.crashed:
            _check_restored(report, before, lines)
        own = [work for work in found if f"-{process}-" in work.folder.name]
        _check_kept(report, own[0] if own else None, lines, killed)
        for work in own:
            _check_run(report, work, checkpoint)
            if before is not None and before.crashed:
                _check_once(report, before, work, found)
        before = next(iter(found), None)
        print(report.words(), *report.faults[known:], sep="\n", flush=True)
    return report


def _killed(folder: Path, seed: int, chance: random.Random) -> tuple[int, float]:
    """Start a window and kill it; return its process id and the ``monotonic`` time."""
    path = os.pathsep.join(sys.path)
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.kills.worked_window", str(folder), str(seed)],
        env={**os.environ, "PYTHONPATH": path, "QT_QPA_PLATFORM": "offscreen"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + START_S
    facts = f"*-{child.pid}-*/{FACTS}"
    awaited: Callable[[], bool] = chance.choices(
        [
            lambda: True,  # it may still start, or open again
            lambda: bool(_journal(folder)),
            # some work is there to lose, however slow the computer is
            lambda: any((folder / "kept").glob(facts)),
        ],
        [0.1, 0.5, 0.4],
    )[0]
    while not awaited():
        if child.poll() is not None or time.monotonic() > deadline:
            break
        time.sleep(0.02)
    time.sleep(chance.uniform(0, LIVES_S))
    killed = time.monotonic()
    child.kill()
    child.wait()
    return child.pid, killed


def _journal(folder: Path) -> list[dict[str, Any]]:
    path = folder / "journal"
    if not path.exists():
        return []
    lines = path.read_text("utf-8").split("\n")
    return [json.loads(line) for line in lines[:-1]]  # the last may be cut


def _wanted(recipe: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in recipe["wanted"].items() if k not in ("step", "edit")}


def _check_kept(
    report: Report, work: KeptWork | None, lines: list[dict[str, Any]], killed: float
) -> None:
    """What is kept was wanted at some moment, and not long before the kill."""
    steps = [line for line in lines if "recipe" in line]
    if work is None or not steps:
        first = steps[0]["at"] if steps else killed
        _lost(report, killed - first, len(steps))
        return
    report.kept += 1
    kept = _wanted(json.loads(bytes(work.facts.recipe)))
    at = [n for n, line in enumerate(steps) if _wanted(line["recipe"]) == kept]
    if not at:
        report.faults.append(f"kill {report.kills}: kept what was never wanted: {kept}")
        return
    later = steps[at[-1] + 1 :]
    changed = [line for line in later if _wanted(line["recipe"]) != kept]
    if changed:
        _lost(report, killed - changed[0]["at"], len(changed))
    else:
        _lost(report, 0.0, 0)


def _lost(report: Report, seconds: float, actions: int) -> None:
    report.lost_s.append(seconds)
    report.lost_actions.append(actions)
    if seconds > MOST_S and actions > MOST_ACTIONS:
        report.faults.append(
            f"kill {report.kills}: {seconds:.1f} s and {actions} actions are lost"
        )


def _check_restored(
    report: Report, before: KeptWork, lines: list[dict[str, Any]]
) -> None:
    """A window began with what the one before it left behind."""
    ready = next((line for line in lines if line["what"] == "ready"), None)
    if ready is None:
        return  # it was killed before
    kept = _wanted(json.loads(bytes(before.facts.recipe)))
    if "recipe" in ready and _wanted(ready["recipe"]) == kept:
        report.restored += 1
    else:
        report.faults.append(f"kill {report.kills}: {kept} was not opened again")


def _check_once(
    report: Report, before: KeptWork, work: KeptWork, found: list[KeptWork]
) -> None:
    """A session that goes on stands once: what came of it, not what it came from."""
    both = before.folder in [each.folder for each in found]
    was, is_now = (json.loads(bytes(each.facts.recipe)) for each in (before, work))
    if both and _wanted(was) != _wanted(is_now):
        report.faults.append(f"kill {report.kills}: a session stands twice")


def _check_run(report: Report, work: KeptWork, checkpoint: Checkpoint) -> None:
    """The run that is kept is what the model makes of its recipe."""
    if work.runs is None:
        return
    report.with_runs += 1
    trace = read_session(work.runs).shown.trace
    fault = difference(trace, work.recipe.wanted, checkpoint)
    if fault or trace.missing:
        report.faults.append(f"kill {report.kills}: {fault or trace.missing}")


def difference(trace: Trace, wanted: WantedRun, checkpoint: Checkpoint) -> str:
    """Return how a run differs from what the model makes of a recipe; "" if not."""
    if trace.source_text != wanted.sentence:
        return f"{trace.source_text!r} under {wanted.sentence!r}"
    if trace.intervention != wanted.intervention:
        return f"changed by {trace.intervention}, not {wanted.intervention}"
    decoding = Decoding(
        checkpoint,
        wanted.sentence,
        strategy=wanted.strategy,
        limit=wanted.limit,
        intervention=wanted.intervention,
    )
    # a run that has not come further: where the mask is not causal, later tokens change
    # the rows before them
    decoding.follow(wanted.prefix[: len(trace)])
    while len(decoding.trace) < len(trace):
        decoding.step()
    made = decoding.trace.until(len(trace))
    if made.target != trace.target:
        return f"{trace.target} instead of {made.target}"
    if [s.id for s in made.steps] != [s.id for s in trace.steps]:
        return "another choice"
    for kind in trace.kinds:
        for layer in range(trace.layers(kind)):
            own = made.attention(kind, layer=layer)
            if not np.allclose(own, trace.attention(kind, layer=layer), atol=1e-4):
                return f"other weights: {kind}, layer {layer}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = run(Path(folder), options.kills, options.seed)
    print("", report.words(), *report.faults, sep="\n")
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
