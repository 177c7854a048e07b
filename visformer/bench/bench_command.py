"""The command ``bench``: measures each budget in a fresh process."""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import os
import platform
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict

from visformer.bench.measurements import Measurement
from visformer.errors import InputError
from visformer.language import _

# module of this package -> the budgets it measures; each runs in a separate process, so
# that imports (torch, transformers, Qt) do not affect other measurements
GROUPS: dict[str, tuple[int, ...]] = {
    "decoding": (1, 2, 3, 4, 17, 18, 19),
    "window": (5, 8, 9),
    "tabs": (7, 10),
    "storage": (12,),
    "opening": (13,),
    "starting": (14, 15),
    "training": (22, 28, 29),
}

FAILED = "failed"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``visformer bench``."""
    groups = "; ".join(
        f"{name} {', '.join(map(str, group))}" for name, group in GROUPS.items()
    )
    parser.add_argument("--json", action="store_true", help=_("print JSON"))
    parser.add_argument(
        "--only",
        metavar="N,N",
        help=_("numbers of the budgets to measure ({groups})", groups=groups),
        default="",
    )


def measured() -> list[int]:
    """Return the numbers of the budgets that are measured."""
    return sorted(number for group in GROUPS.values() for number in group)


def run(options: argparse.Namespace) -> int:
    """Measure, and print each figure when it is ready.

    Returns 0 even if a budget is missed, 1 if a measurement failed. Raises InputError
    for unknown numbers of budgets.
    """
    budgets = _budgets(options.only)
    # inherited by the processes: Qt warns about what its platforms lack
    os.environ.setdefault("QT_LOGGING_RULES", "default.warning=false")
    figures: list[Measurement] = []
    for figure in measure(budgets):
        figures.append(figure)
        if not options.json:
            print(figure.line(), flush=True)
    if options.json:
        rows = [{**asdict(figure), "met": figure.met} for figure in figures]
        computer = {"machine": platform.machine(), "system": platform.platform()}
        print(json.dumps({"computer": computer, "figures": rows}, indent=2))
    return int(any(figure.what == FAILED for figure in figures))


def _budgets(only: str) -> set[int]:
    """Read ``--only``."""
    known = measured()
    if not only:
        return set(known)
    parts = [part.strip() for part in only.split(",")]
    wrong = [part for part in parts if not part.isdigit() or int(part) not in known]
    if wrong:
        raise InputError(
            "“{number}” is not a budget. Choose from {choices}.",
            number=wrong[0],
            choices=", ".join(map(str, known)),
        )
    return {int(part) for part in parts}


def measure(budgets: set[int]) -> Iterator[Measurement]:
    """Yield the requested measurements in numerical order."""
    spawn = multiprocessing.get_context("spawn")
    groups = {budget: name for name, group in GROUPS.items() for budget in group}
    for budget in sorted(budgets):
        with ProcessPoolExecutor(1, mp_context=spawn) as pool:
            try:
                yield from pool.submit(_figures, groups[budget], budget).result()
            except Exception as error:  # a peer's error must not lose other figures
                note = f"{type(error).__name__}: {error}"
                yield Measurement(budget, FAILED, None, "", "at most", 0, note=note)


def _figures(name: str, budget: int) -> list[Measurement]:
    """Measure one budget; runs in a separate process."""
    module = importlib.import_module(f"visformer.bench.time_{name}")
    benchmarks: dict[int, Callable[[], list[Measurement]]] = module.BENCHMARKS
    return benchmarks[budget]()
