"""Try mutants of every file that Visformer reads: ``python -m tests.fuzz --help``.

A mutant is opened and used, or refused in one sentence; anything else is a fault: a
foreign exception, a death, a hang. Each fault is printed with the seed that makes its
mutant again.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import select
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.fuzz.cases import CASES, Maker, printed
from tests.fuzz.mutations import CANARY

PATIENCE = 20.0  # seconds for one mutant, the imports of a fresh process aside
START = 120.0


class Tried(NamedTuple):
    """What became of one mutant."""

    seed: str
    outcome: str  # used, refused, fault, died or hung
    words: str


class Worker:
    """A process that opens mutants, replaced when it dies or hangs."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def use(self, use: str, path: Path) -> tuple[str, str]:
        """Return the outcome and its words."""
        patience = PATIENCE
        if self._process is None:
            command = [sys.executable, "-m", "tests.fuzz.worker"]
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            patience += START
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # then it has nothing to answer
            process.stdin.write(json.dumps({"use": use, "path": str(path)}) + "\n")
            process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], patience)
        answer = process.stdout.readline() if ready else ""
        if answer:
            said = json.loads(answer)
            return said["outcome"], said["words"]
        code = process.poll() if ready else None
        self.end()
        if ready:
            return "died", f"code {process.wait() if code is None else code}"
        return "hung", f"{patience:g} s"

    def end(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def trials(name: str, count: int, seed: int, worker: Worker) -> Iterator[Tried]:
    """Try ``count`` mutants of a case; the sound file must be usable."""
    with tempfile.TemporaryDirectory() as folder:
        maker = Maker(name, Path(folder))
        use = maker.case.use
        outcome, words = worker.use(use, maker.sound())
        if outcome != "used":
            yield Tried("sound", "fault", f"the sound file: {outcome}, {words}")
            return
        for number in range(count):
            made = f"{name} {seed} {number}"
            yield Tried(made, *worker.use(use, maker.write(made)))


def main(arguments: list[str] | None = None) -> int:
    """Try what was asked for; return 1 if there was a fault."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(CASES)} (all)")
    parser.add_argument("--count", type=int, default=100, help="mutants of each (100)")
    parser.add_argument("--seed", type=int, default=0, help="of every draw (0)")
    chosen = parser.parse_args(arguments)
    worker, faults = Worker(), 0
    canary = Path(CANARY)
    canary.unlink(missing_ok=True)
    try:
        for name in chosen.names or CASES:
            counts: collections.Counter[str] = collections.Counter()
            for tried in trials(name, chosen.count, chosen.seed, worker):
                counts[tried.outcome] += 1
                if tried.outcome not in ("used", "refused"):
                    faults += 1
                    print(f"  {tried.outcome}: {tried.seed}: {printed(tried.words)}")
            told = ", ".join(f"{count:,} {what}" for what, count in counts.items())
            print(f"{name}: {told}", flush=True)
    finally:
        worker.end()
    if canary.exists():
        faults += 1
        print(f"  code of a mutant ran: {canary} is there")
    print(f"{faults:,} faults")
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
