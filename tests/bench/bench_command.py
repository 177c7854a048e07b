"""The speed of Visformer on this computer against peers: ``python -m tests.bench``.

Each budget is measured in a fresh process; Visformer and its peers take turns. This
takes some minutes and works best on an idle computer.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import os
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path

from tests.bench.measurements import Measurement

# module of this folder -> the budgets it measures; each runs in a separate process, so
# that imports (torch, transformers, Qt) do not affect other measurements
GROUPS: dict[str, tuple[int, ...]] = {
    "decoding": (1, 2, 3, 17, 18, 19, 21),
    "window": (5, 8, 9),
    "tabs": (7, 10),
    "storage": (12,),
    "opening": (13,),
    "starting": (14, 15),
    "training": (22, 28, 29),
    "long": (6, 11, 24, 27),
    "calls": (25, 26, 30, 31, 32),
}

FAILED = "failed"
FEW = 8  # figures of a budget that are printed one by one


def _parser() -> argparse.ArgumentParser:
    """Return the parser of the command's options."""
    parser = argparse.ArgumentParser("python -m tests.bench", description=__doc__)
    groups = "; ".join(
        f"{name} {', '.join(map(str, group))}" for name, group in GROUPS.items()
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--all",
        action="store_true",
        help=f"print every figure, also where a budget has more than {FEW}",
    )
    parser.add_argument(
        "--against",
        metavar="OLD.json",
        help="name beside each figure what an earlier run printed with --json",
    )
    parser.add_argument(
        "--only",
        metavar="N,N",
        help=f"numbers of the budgets to measure ({groups})",
        default="",
    )
    return parser


def measured() -> list[int]:
    """Return the numbers of the budgets that are measured."""
    return sorted(number for group in GROUPS.values() for number in group)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a summary and the figures; a terminal shows how far it is.

    Returns 0 even if a budget is missed, 1 if a measurement failed. Exits with 2 for
    unknown numbers of budgets, and for a file that is no earlier run.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        budgets = _budgets(options.only)
        before = _earlier(options.against) if options.against else {}
    except ValueError as error:
        parser.error(str(error))
    # inherited by the processes: as the program sets them, and Qt warns about what its
    # platforms lack
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("QT_LOGGING_RULES", "default.warning=false")
    figures: list[Measurement] = []
    told = sys.stderr if sys.stderr and sys.stderr.isatty() else None
    for figure in measure(budgets):
        figures.append(figure)
        if told:
            print(f"\r{figure.budget}", end="", file=told, flush=True)
    if told:
        print("\r", end="", file=told)
    if options.json:
        rows = [{**asdict(figure), "met": figure.met} for figure in figures]
        computer = {"machine": platform.machine(), "system": platform.platform()}
        print(json.dumps({"computer": computer, "figures": rows}, indent=2))
    else:
        for line in report(figures, before, every=options.all):
            print(line)
    return int(any(figure.what == FAILED for figure in figures))


Before = dict[tuple[int, str], float | None]  # budget, what -> value


def report(
    figures: list[Measurement], before: Before, *, every: bool = False
) -> Iterator[str]:
    """Yield a summary by budget, and the figures: of many the worst and all missed."""
    budgets: dict[int, list[Measurement]] = {}
    for figure in figures:  # a benchmark may measure two budgets in turn
        budgets.setdefault(figure.budget, []).append(figure)
    met = {
        budget: [figure.met for figure in group] for budget, group in budgets.items()
    }
    missed = [str(budget) for budget, all_met in met.items() if False in all_met]
    absent = [str(budget) for budget, all_met in met.items() if None in all_met]
    yield f"Budgets met: {sum(map(all, met.values()))} of {len(met)}"
    if missed:
        yield f"Missed: {', '.join(missed)}"
    if absent:
        yield f"Not all measured: {', '.join(absent)}"
    for budget, group in budgets.items():
        shown = group
        if len(group) > FEW and not every:
            worst = max(group, key=_strain)
            shown = [one for one in group if not one.met or one is worst]
            count = f"{len(group)} figures, {met[budget].count(True)} met"
            yield f"{budget:>3}  {count}; the worst and the missed ones:"
        for figure in shown:
            line, old = figure.line(), before.get((budget, figure.what))
            if old is not None:
                line += "  " + f"before: {old:.3g} {figure.unit}"
            yield line


def _strain(figure: Measurement) -> float:
    """Return how near a figure is to its bound; over 1 it misses it."""
    if figure.value is None:
        return 0.0
    pair = figure.value, figure.must
    of, by = pair if figure.bound == "at most" else pair[::-1]
    return of / by if by else float(bool(of))


def _earlier(path: str) -> Before:
    """Read what an earlier run printed."""
    try:
        rows = json.loads(Path(path).read_text("utf-8"))["figures"]
        values = [None if row["value"] is None else float(row["value"]) for row in rows]
        named = [(row["budget"], row["what"]) for row in rows]
        return dict(zip(named, values, strict=True))
    except (OSError, ValueError, KeyError, TypeError):
        raise ValueError(f"{path} is not what --json prints.") from None


def _budgets(only: str) -> set[int]:
    """Read ``--only``."""
    known = measured()
    if not only:
        return set(known)
    parts = [part.strip() for part in only.split(",")]
    wrong = [part for part in parts if not part.isdigit() or int(part) not in known]
    if wrong:
        choices = ", ".join(map(str, known))
        raise ValueError(f"“{wrong[0]}” is not a budget. Choose from {choices}.")
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
    module = importlib.import_module(f"tests.bench.time_{name}")
    benchmarks: dict[int, Callable[[], list[Measurement]]] = module.BENCHMARKS
    return benchmarks[budget]()
