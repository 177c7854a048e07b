"""Benchmark of opening: a recorded Trace's file to its first step on screen (13)."""

from __future__ import annotations

import gc
import multiprocessing
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

from PySide6.QtCore import QCoreApplication, QEventLoop

from tests.bench.measurements import Measurement
from tests.bench.random_trace import random_facts, random_trace
from tests.bench.windows import attention_of, shown_window
from visformer.trace_file.saved_session import SavedRun
from visformer.trace_file.stored_facts import RunSelection
from visformer.trace_file.trace_file import write_session
from visformer.ui.window.window import MainWindow
from visformer.values.facts import ModelFacts

MIB = 1 << 20
SMALL = random_facts(d_model=256, heads=8, layers=4, vocabulary=8_000)
WIDE = random_facts(  # mBART's shape
    d_model=1024, heads=16, layers=12, vocabulary=250_027
)
ROUNDS = 5
SOURCE = 16  # tokens, for every target length, so that the first step costs the same
TARGETS: tuple[tuple[ModelFacts, int], ...] = (  # of 1 MB, 100 MB and 1 GB
    (SMALL, 28),
    (WIDE, 380),
    (WIDE, 4_000),
)


class OpeningCost(NamedTuple):
    """The cost of opening a file up to the painted first step, in a warm window."""

    read: float  # seconds until the window has the run
    paint: float  # seconds afterwards
    kept: int  # increase of resident memory, in bytes
    most: int  # its peak

    @property
    def seconds(self) -> float:
        """The total time, in seconds."""
        return self.read + self.paint


def write_random(path: Path, model: ModelFacts, target: int) -> None:
    """Write a random Trace that opens at its first step."""
    trace = random_trace(model, SOURCE, target)
    selection = RunSelection(step=1)
    write_session([SavedRun(trace=trace, selection=selection)], path)


def opening(window: MainWindow, path: Path) -> OpeningCost:
    """Open a file that is not in the page cache and paint its first step."""
    forget(path)
    gc.collect()
    _reset_peak()
    before, last = status("VmRSS"), window.session.state.trace
    began = time.perf_counter()
    window.open(str(path))
    while window.session.state.trace is last:
        # sleeps until an event arrives, so that the reading thread can run
        flags = QEventLoop.ProcessEventsFlag.WaitForMoreEvents
        QCoreApplication.processEvents(flags)
        if window.session.state.error:
            raise RuntimeError(window.session.state.error)
    read = time.perf_counter()
    view = attention_of(window)
    window.repaint()
    while view.drawing:
        QCoreApplication.processEvents()
    QCoreApplication.processEvents()
    ended = time.perf_counter()
    after, most = status("VmRSS"), status("VmHWM")
    return OpeningCost(read - began, ended - read, after - before, most - before)


def forget(path: Path) -> bool:
    """Drop a file from the page cache; False if this system cannot."""
    if not hasattr(os, "posix_fadvise"):
        return False
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return True


def status(name: str, file: str = "/proc/self/status") -> int:
    """Return a number of bytes from Linux's status files; 0 on other systems."""
    try:
        lines = Path(file).read_text().splitlines()
    except OSError:
        return 0
    return next(
        (int(line.split()[1]) << 10 for line in lines if line.startswith(f"{name}:")), 0
    )


def _reset_peak() -> None:
    """Reset the peak of resident memory, if the system can."""
    refs = Path("/proc/self/clear_refs")
    if refs.exists():
        refs.write_text("5")


def _longest(folder: Path, model: ModelFacts, target: int) -> tuple[int, str]:
    """Return the longest target that fits into disk and memory, and what limits it."""
    row = 4 * model.config.d_model * (5 * model.config.decoder_layers + 1)  # bytes
    disk = shutil.disk_usage(folder).free
    free = status("MemAvailable", "/proc/meminfo") or 8 * target * row
    rows = min(target, disk // 2 // row, free // 4 // row)
    if rows == target:
        return rows, ""
    why = (
        "too little disk for 1 GB"
        if disk // 2 < free // 4
        else "too little memory for 1 GB"
    )
    return max(20, rows), why


def recorded() -> list[Measurement]:
    """Measure opening small and large files in turn, in a warm window."""
    spawn = multiprocessing.get_context("spawn")
    opened: dict[Path, list[OpeningCost]] = {}
    limits: list[str] = []
    warm: list[OpeningCost] = []
    with tempfile.TemporaryDirectory() as folder:
        tiny = Path(folder) / "tiny.vis"
        write_random(tiny, SMALL, 2)
        # written in another process, so that its memory does not count
        with ProcessPoolExecutor(1, mp_context=spawn) as pool:
            for model, wanted in TARGETS:
                target, why = _longest(Path(folder), model, wanted)
                limits.append(why)
                path = Path(folder) / f"{len(opened)}.vis"
                pool.submit(write_random, path, model, target).result()
                opened[path] = []
        with shown_window(random_trace(SMALL, SOURCE, 3)) as window:
            for _round in range(ROUNDS):
                for path, costs in opened.items():
                    warm.append(opening(window, tiny))
                    costs.append(opening(window, path))
        sizes = [path.stat().st_size / 1e6 for path in opened]
        dropped = forget(tiny)
    by_size = dict(zip(sizes, opened.values(), strict=True))
    cold = "the system was first asked to drop the file from its page cache"
    cached = "the file may have been in the page cache"
    note = "; ".join(filter(None, (cold if dropped else cached, *limits)))
    return [_time_figure(by_size, warm, note), _resident_figure(by_size, note)]


def _time_figure(
    by_size: dict[float, list[OpeningCost]], warm: list[OpeningCost], note: str
) -> Measurement:
    parts = {"tiny ms": _middle(cost.seconds for cost in warm)}
    for size, costs in by_size.items():
        name = f"{size:.0f} MB"
        parts[f"{name} ms"] = _middle(cost.seconds for cost in costs)
        parts[f"{name} reading ms"] = _middle(cost.read for cost in costs)
    largest = max(by_size)
    return Measurement(
        13,
        (
            f"recorded Trace of {largest:.0f} MB, from the file to the first step "
            "painted, more than for a tiny file"
        ),
        _middle(cost.seconds for cost in by_size[largest]) - parts["tiny ms"],
        "ms",
        "at most",
        100.0,
        parts,
        note,
    )


def _resident_figure(by_size: dict[float, list[OpeningCost]], note: str) -> Measurement:
    parts = {}
    for size, costs in by_size.items():
        name = f"{size:.0f} MB"
        parts[f"{name} MiB"] = max(cost.kept for cost in costs) / MIB
        parts[f"{name} peak MiB"] = max(cost.most for cost in costs) / MIB
    known = bool(status("VmRSS"))
    largest = max(by_size)
    return Measurement(
        13,
        f"recorded Trace of {largest:.0f} MB, increase of resident memory",
        max(cost.kept for cost in by_size[largest]) / MIB if known else None,
        "MiB",
        "at most",
        64.0,
        parts if known else {},
        note if known else "resident memory is known only on Linux",
    )


def _middle(times: Iterable[float]) -> float:
    """Return the median of some seconds, in milliseconds."""
    return 1e3 * statistics.median(times)


BENCHMARKS: dict[int, Callable[[], list[Measurement]]] = {13: recorded}
