"""Benchmarks of the window with its engine: live decoding, long sources, memory."""

from __future__ import annotations

import json
import multiprocessing
import shutil
import statistics
import string
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PySide6.QtCore import QEventLoop, QTimer

from tests.bench.measurements import Measurement, seconds, take_turns
from tests.bench.time_opening import status
from tests.bench.time_starting import started
from tests.bench.time_tabs import (
    SENTENCE,
    look_at_all,
    shown_app,
    translated,
    wait_for,
)
from tests.bench.windows import attention_of, wait_until
from visformer import paths
from visformer.engine.messages import Event, Finished, Opened
from visformer.ui.window.window import MainWindow

ROUNDS, LONG, SHORTER = 5, 4096, 1024
LATER = 0.3  # seconds: until a newer sentence is typed, and between two looks
TIMES = 400  # repetitions: more tokens than the positions
MB = 1e6
_MEMORY = """
import {module}, json
lines = open("/proc/self/status").read().splitlines()
print(json.dumps({{"kb": next(int(x.split()[1]) for x in lines if "VmRSS" in x)}}))
"""
_QT = "os; os.environ['QT_QPA_PLATFORM'] = 'offscreen'; import pyqtgraph as pg; "
_QT += "app = pg.mkQApp(); plot = pg.plot([1, 2]); app.processEvents(); import sys"

_TOUR = """
import gc
gc.disable()  # as the command line does, and so is the next
from visformer.program.plain_imports import import_plainly
import_plainly()
from tests.bench.time_long import tell_toured
tell_toured()
"""


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
    what = "time of decoding into the live window relative to alone: bundled model"
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
def long_model(shape: str, tokens: int) -> Iterator[tuple[MainWindow, list[Event]]]:
    """Show the window with a model for so many tokens: "small" is the bundled one."""
    with tempfile.TemporaryDirectory() as folder, shown_app() as (window, seen):
        model = Path(folder) / shape
        # in another process: this one does without torch, as the window does
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            pool.apply(write_model, (shape, tokens, model))
        wait_until(lambda: window.session.state.opened is not None)
        seen.clear()
        window.open(str(model))
        wait_for(Opened, seen)
        rest()
        yield window, seen


def rest() -> None:
    """Wait until all processes rest: the spare one takes a core while it starts."""
    before, now = -1.0, worked()
    while now != before:
        wait(LATER)
        before, now = now, worked()


def worked() -> float:
    """Return the processor's time that the engine's processes have had, in ticks."""
    taken = 0.0
    for one in multiprocessing.active_children():
        fields = Path(f"/proc/{one.pid}/stat").read_text().rpartition(")")[2].split()
        taken += float(fields[11]) + float(fields[12])  # user's and system's
    return taken


def wait(seconds: float) -> None:
    """Run the event loop for so long."""
    loop = QEventLoop()
    QTimer.singleShot(int(1e3 * seconds), loop.quit)
    loop.exec()


def write_model(shape: str, tokens: int, to: Path) -> None:
    """Write the bundled model, or one with random weights that reads letters."""
    if shape == "small":
        shutil.copytree(paths.checkpoint(), to)
        config = json.loads((to / "config.json").read_text())
        config["model"]["max_positions"] = tokens
        (to / "config.json").write_text(json.dumps(config))
        return
    from tests.bench.time_decoding import SHAPES, random_checkpoint
    from visformer.formats.layouts.native import TokenizerFiles, write_native

    made = random_checkpoint(**SHAPES[shape], max_positions=tokens)
    special = made.tokenizer
    letters = [letter for letter in string.printable if not letter.isspace()]
    names = ["</s>", "<unk>", *letters]
    ids = {name: id for id, name in enumerate(names)}
    ids |= {f"t{id}": id for id in range(len(ids), made.config.target_vocabulary)}
    name, data = "vocab.json", json.dumps(ids).encode()
    write_native(
        to,
        made.model,
        name=shape,
        special={"pad": special.pad, "unk": 1, "bos": special.bos, "eos": special.eos},
        tokenizer=TokenizerFiles("vocabulary", name, name, {name: data}),
    )


def long_sources() -> list[Measurement]:
    """Measure sources of 4,096 tokens in two shapes, and of 1,024 tokens."""
    spawn, figures = multiprocessing.get_context("spawn"), list[Measurement]()
    for shape, must in (("small", 4), ("opus", 8)):
        # a process each: what the first shape leaves would count as the second's
        with ProcessPoolExecutor(1, spawn) as pool:
            figures += pool.submit(long_source, shape, must).result()
    return [*figures, *shorter_source()]


def long_source(shape: str, must: float) -> list[Measurement]:
    """Measure a source of 4,096 tokens, in wall time, and memory after a tour."""
    with long_model(shape, LONG) as (window, _seen):
        first, whole = seconds_until_shown(window, LONG)
        heads = another_head(window)
        look_at_all(window)
        processes = multiprocessing.active_children()
        spare, engine = sorted(
            status("VmRSS", f"/proc/{one.pid}/status") for one in processes
        )  # the spare one has no model
        own, kept = status("VmRSS"), status("VmRSS") + engine
    bare = memory_of("pyqtgraph") + memory_of("torch")
    facts = {"n": LONG, "shape": shape}
    what = "source of {n:,} tokens, first picture: {shape}".format(**facts)
    head = "source of {n:,} tokens, another head: {shape}".format(**facts)
    memory = (
        "source of {n:,} tokens, memory beyond imports after a tour: {shape}".format(
            **facts
        )
    )
    parts = {
        "window MB": own / MB,
        "bare imports MB": bare / MB,
        "spare engine, not counted, MB": spare / MB,
    }
    return [
        Measurement(11, what, first, "s", "at most", must, {"all drawn s": whole}),
        Measurement(11, head, 1e3 * heads, "ms", "at most", 300),
        Measurement(11, memory, (kept - bare) / 1e9, "GB", "at most", 1.5, parts),
    ]


def shorter_source() -> list[Measurement]:
    """Measure a source of 1,024 tokens, in wall time: a head, and all of a kind."""
    with long_model("small", SHORTER) as (window, _seen):
        seconds_until_shown(window, SHORTER)
        head = another_head(window)
        other, shown = "encoder", window.session.state.kind
        first, _back, again = [
            turned(window, kind=kind) for kind in (other, shown, other)
        ]
    facts = {"n": SHORTER, "shape": "small"}
    figures = (
        ("source of {n:,} tokens, another head: {shape}".format(**facts), head, 50),
        ("source of {n:,} tokens, every head: {shape}".format(**facts), first, 600),
        (
            "source of {n:,} tokens, every head again: {shape}".format(**facts),
            again,
            50,
        ),
    )
    return [
        Measurement(11, what, 1e3 * taken, "ms", "at most", must)
        for what, taken, must in figures
    ]


def seconds_until_shown(window: MainWindow, tokens: int) -> tuple[float, float]:
    """Return the seconds until a source of so many tokens is in the pictures.

    The second number is that of all heads, too. What follows of its decode is stopped:
    each step would be drawn amid what is timed.
    """
    began, view = time.perf_counter(), attention_of(window)
    window.translate(SENTENCE * TIMES)
    wait_until(lambda: _is_there(window, tokens) and not view.summarising)
    first = time.perf_counter() - began
    wait_until(lambda: not view.drawing)
    whole = time.perf_counter() - began
    window.stop()
    wait_until(lambda: not view.drawing)
    return first, whole


def _is_there(window: MainWindow, tokens: int) -> bool:
    trace = window.session.state.trace
    return trace is not None and len(trace.source) == tokens and len(trace) > 0


def another_head(window: MainWindow) -> float:
    """Return the median seconds until another head is drawn."""
    return statistics.median(turned(window, head=head) for head in (1, 2, 3))


def turned(window: MainWindow, **to: Any) -> float:
    """Return the seconds until what is turned to is drawn."""
    began = time.perf_counter()
    window.session.set(**to)
    window.repaint()
    wait_until(lambda: not attention_of(window).drawing)
    return time.perf_counter() - began


def newer_sentences() -> list[Measurement]:
    """Measure how long a newer sentence waits for a long one, in two shapes."""
    return [newer_sentence(shape) for shape in ("small", "opus")]


def newer_sentence(shape: str) -> Measurement:
    """Measure how long a newer sentence waits for a long one that is encoded."""
    times = []
    with long_model(shape, LONG) as (window, _seen):
        for number in range(ROUNDS):
            window.translate(f"{number} " + SENTENCE * TIMES)
            wait(LATER)
            newer = f"I see {number} cats."
            began = time.perf_counter()
            window.translate(newer)
            wait_until(lambda: _newer(window, newer))  # noqa: B023
            times.append(time.perf_counter() - began)
    what = f"a newer sentence while {LONG:,} tokens are encoded: {shape}"
    value, parts = 1e3 * statistics.median(times), {"longest ms": 1e3 * max(times)}
    return Measurement(24, what, value, "ms", "at most", 200, parts)


def _newer(window: MainWindow, text: str) -> bool:
    trace = window.session.state.trace
    return trace is not None and trace.source_text == text and len(trace) > 0


# ---- 27: memory ----------------------------------------------------------------


def tour() -> list[Measurement]:
    """Measure the window's own memory after all tabs and pages were looked at."""
    kept: int = started(_TOUR).line["bytes"]
    bare = memory_of(_QT)
    what = "memory of the window after a tour of all tabs, beyond a bare plot's"
    parts = {"window MB": kept / MB, "bare plot MB": bare / MB}
    return [Measurement(27, what, (kept - bare) / MB, "MB", "at most", 90, parts)]


def tell_toured() -> None:
    """Print the bytes in memory after a tour, while the window is open."""
    with translated() as window:
        look_at_all(window)
        print(json.dumps({"bytes": status("VmRSS")}), flush=True)


BENCHMARKS: dict[int, Callable[[], list[Measurement]]] = {
    6: live,
    11: long_sources,
    24: newer_sentences,
    27: tour,
}
