"""Benchmarks of the window with its engine: live decoding, long sources, memory."""

from __future__ import annotations

import json
import multiprocessing
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from PySide6.QtCore import QEventLoop, QTimer

from visformer import paths
from visformer.bench.measurements import Measurement, seconds, take_turns
from visformer.bench.time_opening import status
from visformer.bench.time_starting import started
from visformer.bench.time_tabs import (
    SENTENCE,
    look_at_all,
    shown_app,
    translated,
    wait_for,
)
from visformer.bench.windows import attention_of, settle, wait_until
from visformer.engine.messages import Event, Finished, Opened
from visformer.language import _
from visformer.ui.window.window import MainWindow

ROUNDS, LONG, LATER = 5, 4096, 0.3  # LATER: seconds until a newer sentence is typed
TIMES = 400  # repetitions: more tokens than the positions
MB = 1e6
_MEMORY = """
import {module}, json
lines = open("/proc/self/status").read().splitlines()
print(json.dumps({{"kb": next(int(x.split()[1]) for x in lines if "VmRSS" in x)}}))
"""
_QT = "os; os.environ['QT_QPA_PLATFORM'] = 'offscreen'; import pyqtgraph as pg; "
_QT += "app = pg.mkQApp(); plot = pg.plot([1, 2]); app.processEvents(); import sys"


def memory_of(module: str) -> int:
    """Return the bytes in memory of a process that has imported something."""
    kilobytes: int = started(_MEMORY.format(module=module)).line["kb"]
    return kilobytes << 10


# ---- 6: beside decoding --------------------------------------------------------


def live() -> list[Measurement]:
    """Compare decoding into the live window with decoding in a process alone."""
    text = SENTENCE * 3
    with shown_app() as (window, seen):
        wait_until(lambda: window.session.state.opened is not None)
        with multiprocessing.get_context("spawn").Pool(1) as pool:

            def ours() -> float:
                taken = seconds(lambda: decoded(window, seen, text), time.perf_counter)
                decoded(window, seen, SENTENCE)
                return taken

            turns = take_turns(ours, lambda: pool.apply(alone, (text,)), rounds=ROUNDS)
    parts = turns.milliseconds("live", "alone")
    what = _("time of decoding into the live window relative to alone: bundled model")
    return [Measurement(6, what, turns.slower, "x", "at most", 1.5, parts)]


def decoded(window: MainWindow, seen: list[Event], text: str) -> None:
    """Decode a text in the window."""
    seen.clear()
    window.translate(text)
    wait_for(Finished, seen)


def alone(text: str) -> float:
    """Return the seconds of decoding a text without a window."""
    import torch

    import visformer

    torch.set_num_threads(1)
    decoding = visformer.Decoding(visformer.load(paths.checkpoint()), text)
    return seconds(decoding.finish, time.perf_counter)


# ---- 11 and 24: long sources ---------------------------------------------------


@contextmanager
def long_model() -> Iterator[tuple[MainWindow, list[Event]]]:
    """Show the window with the bundled model, given 4,096 positions."""
    with tempfile.TemporaryDirectory() as folder, shown_app() as (window, seen):
        model = shutil.copytree(paths.checkpoint(), Path(folder) / "long")
        config = json.loads((model / "config.json").read_text())
        config["model"]["max_positions"] = LONG
        (model / "config.json").write_text(json.dumps(config))
        wait_until(lambda: window.session.state.opened is not None)
        seen.clear()
        window.open(str(model))
        wait_for(Opened, seen)
        settle()
        yield window, seen


def long_source() -> list[Measurement]:
    """Measure a source of 4,096 tokens, in wall time, and memory after a tour."""
    with long_model() as (window, _seen):
        began = time.perf_counter()
        window.translate(SENTENCE * TIMES)
        wait_until(lambda: _shows(window, LONG))
        first = time.perf_counter() - began
        heads = [_head(window, at) for at in (1, 2, 3)]
        look_at_all(window)
        processes = multiprocessing.active_children()
        engine = [status("VmRSS", f"/proc/{one.pid}/status") for one in processes]
        own, kept = status("VmRSS"), status("VmRSS") + sum(engine)
    bare = memory_of("pyqtgraph") + memory_of("torch")
    tokens = {"n": LONG}
    what = _("source of {n:,} tokens, until its first picture: bundled model", **tokens)
    head = _("source of {n:,} tokens, another head: bundled model", **tokens)
    memory = _("source of {n:,} tokens, memory beyond imports after a tour", **tokens)
    parts = {"window MB": own / MB, "bare imports MB": bare / MB}
    return [
        Measurement(11, what, first, "s", "at most", 4),
        Measurement(11, head, 1e3 * statistics.median(heads), "ms", "at most", 300),
        Measurement(11, memory, (kept - bare) / 1e9, "GB", "at most", 1.5, parts),
    ]


def _shows(window: MainWindow, tokens: int) -> bool:
    trace = window.session.state.trace
    there = trace is not None and len(trace.source) == tokens and len(trace) > 0
    return there and not attention_of(window).drawing


def _head(window: MainWindow, head: int) -> float:
    began = time.perf_counter()
    window.session.set(head=head)
    window.repaint()
    wait_until(lambda: not attention_of(window).drawing)
    return time.perf_counter() - began


def newer_sentence() -> list[Measurement]:
    """Measure how long a newer sentence waits for a long one that is encoded."""
    times = []
    with long_model() as (window, _seen):
        for number in range(ROUNDS):
            window.translate(f"{number} " + SENTENCE * TIMES)
            loop = QEventLoop()
            QTimer.singleShot(int(1e3 * LATER), loop.quit)
            loop.exec()
            newer = f"I see {number} cats."
            began = time.perf_counter()
            window.translate(newer)
            wait_until(lambda: _newer(window, newer))  # noqa: B023
            times.append(time.perf_counter() - began)
    what = _("a newer sentence while {n:,} tokens are encoded: bundled model", n=LONG)
    value, parts = 1e3 * statistics.median(times), {"longest ms": 1e3 * max(times)}
    return [Measurement(24, what, value, "ms", "at most", 200, parts)]


def _newer(window: MainWindow, text: str) -> bool:
    trace = window.session.state.trace
    return trace is not None and trace.source_text == text and len(trace) > 0


# ---- 27: memory ----------------------------------------------------------------


def tour() -> list[Measurement]:
    """Measure the window's own memory after all tabs and pages were looked at."""
    with translated() as window:
        look_at_all(window)
        kept = status("VmRSS")
    bare = memory_of(_QT)
    what = _("memory of the window after a tour of all tabs, beyond a bare plot's")
    parts = {"window MB": kept / MB, "bare plot MB": bare / MB}
    return [Measurement(27, what, (kept - bare) / MB, "MB", "at most", 90, parts)]


BENCHMARKS: dict[int, Callable[[], list[Measurement]]] = {
    6: live,
    11: long_source,
    24: newer_sentence,
    27: tour,
}
