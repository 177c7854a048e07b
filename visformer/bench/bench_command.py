"""The command ``bench``: each group of figures in a fresh process of its own."""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import platform
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict

from visformer.bench.measurements import Measurement
from visformer.errors import InputError

# module of this package -> the budgets it measures. A group has a process to itself:
# what one imports (torch, transformers, Qt) must not weigh on another.
GROUPS: dict[str, tuple[int, ...]] = {
    "decoding": (1, 2, 3, 4, 17, 18, 19),
    "window": (5, 7, 8, 9, 10),
    "storage": (12, 13),
    "starting": (14, 15),
    "training": (22,),
}

FAILED = "failed"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what ``visformer bench`` takes."""
    groups = "; ".join(
        f"{name} {', '.join(map(str, group))}" for name, group in GROUPS.items()
    )
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.add_argument(
        "--only", metavar="N,N", help=f"measure these only, of {groups}", default=""
    )


def measured() -> list[int]:
    """Return the numbers of the budgets that are measured."""
    return sorted(number for group in GROUPS.values() for number in group)


def run(options: argparse.Namespace) -> int:
    """Measure, and print each figure as it comes.

    Returns 0 also where a budget is missed, 1 where a measurement failed. Raises
    InputError for numbers that are no budgets.
    """
    budgets = _budgets(options.only)
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
        numbers = ", ".join(map(str, known))
        raise InputError(
            f"“{wrong[0]}” is no budget measured here: these are {numbers}."
        )
    return {int(part) for part in parts}


def measure(budgets: set[int]) -> Iterator[Measurement]:
    """Yield the figures of the wanted budgets, in the order of their numbers."""
    spawn = multiprocessing.get_context("spawn")
    groups = {budget: name for name, group in GROUPS.items() for budget in group}
    for budget in sorted(budgets):
        with ProcessPoolExecutor(1, mp_context=spawn) as pool:
            try:
                yield from pool.submit(_figures, groups[budget], budget).result()
            except Exception as error:  # a peer's fault must not lose the other figures
                note = f"{type(error).__name__}: {error}"
                yield Measurement(budget, FAILED, None, "", "at most", 0, note=note)


def _figures(name: str, budget: int) -> list[Measurement]:
    """Measure one budget, in a process of its own."""
    module = importlib.import_module(f"visformer.bench.time_{name}")
    benchmarks: dict[int, Callable[[], list[Measurement]]] = module.BENCHMARKS
    return benchmarks[budget]()
