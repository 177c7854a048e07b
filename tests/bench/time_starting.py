"""Benchmarks of starting: the first painted window (14), the engine ready (15).

Every measurement runs in a fresh process; times are wall time.
"""

from __future__ import annotations

import compileall
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

from tests.bench.measurements import Measurement, take_turns
from visformer import paths
from visformer.engine.handle import Engine
from visformer.engine.messages import Event, Open, Opened, Refused
from visformer.errors import InputError

PACKAGE = Path(paths.__file__).parent
WINDOW_ROUNDS, ENGINE_ROUNDS = 7, 5
SECONDS = 120.0  # timeout of an engine

# prints how many paints of the window it took until the picture was painted
_WATCH = """
import json, sys
from PySide6.QtCore import QEvent, QObject, QTimer

class Watch(QObject):
    def __init__(self, window, end):
        super().__init__()
        self.window, self.picture, self.end = window, None, end
        self.paints, self.done = 0, False
        window.installEventFilter(self)

    def wait_for(self, picture):
        self.picture = picture
        picture.installEventFilter(self)

    def eventFilter(self, watched, event):
        if event.type() == QEvent.Type.Paint:
            self.paints += watched is self.window
            if watched is self.picture and not self.done:
                self.done = True
                QTimer.singleShot(0, self.report)
        return False

    def report(self):
        print(json.dumps({"paints": self.paints, "torch": "torch" in sys.modules}))
        sys.stdout.flush()
        self.end()
"""
WINDOW = f"""
import gc
gc.disable()  # as the command line does, and so is the next
from visformer.program.plain_imports import import_plainly
import_plainly()
from visformer.app import App
{_WATCH}
from PySide6.QtCore import QSettings
app = App(["visformer"], settings=QSettings(sys.argv[1], QSettings.Format.IniFormat))
watch = Watch(app.window, app.qt.quit)
app.window.show()
app.start()
watch.wait_for(app.window.tabs.view("attention").maps["encoder"].canvas)
app.qt.exec()
app.close()
"""
TRIVIAL = f"""
import numpy as np
import pyqtgraph as pg
{_WATCH}
app = pg.mkQApp()
window = pg.PlotWidget()
window.addItem(pg.ImageItem(np.random.default_rng(0).random((16, 16))))
watch = Watch(window, app.quit)
watch.wait_for(window.viewport())
window.show()
app.exec()
"""
BARE_TORCH = """
import sys
import torch
from safetensors.torch import load_file
weights = load_file(sys.argv[1])
print("{}", flush=True)
"""
# precedes the real package on the path, and records that it was imported
_TRAP = """
from pathlib import Path
Path(__file__).with_name("imported").touch()
raise ImportError("transformers is not to be imported here")
"""

EventType = TypeVar("EventType")


class ProcessRun(NamedTuple):
    """A process that has printed its line."""

    seconds: float  # from its start to the line
    line: dict[str, Any]


def started(program: str, *arguments: str) -> ProcessRun:
    """Run a Python program that prints a line of JSON, and wait for its end.

    Raises InputError if it fails.
    """
    package = str(PACKAGE.parent)  # the running code
    known = os.environ.get("PYTHONPATH")
    environment = {
        **os.environ,
        "QT_QPA_PLATFORM": "offscreen",
        "PYTHONPATH": os.pathsep.join(filter(None, (package, known))),
    }
    began = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as child:
        line = child.stdout.readline() if child.stdout else ""
        seconds = time.perf_counter() - began
        _output, errors = child.communicate()
    if child.returncode or not line:
        reason = (errors.strip().splitlines() or ["it printed nothing"])[-1]
        raise InputError("The measured process failed: {reason}", reason=reason)
    return ProcessRun(seconds, json.loads(line))


def window() -> list[Measurement]:
    """Measure the first painted window, and what its process did until then."""
    compileall.compile_dir(PACKAGE, quiet=2)  # as pip does when installing
    lines: list[dict[str, Any]] = []

    def ours() -> float:
        process = started(WINDOW, str(Path(folder) / f"{len(lines)}.ini"))
        lines.append(process.line)
        return process.seconds

    with tempfile.TemporaryDirectory() as folder:
        turns = take_turns(ours, lambda: started(TRIVIAL).seconds, rounds=WINDOW_ROUNDS)
    return [
        Measurement(
            14,
            "time to the first painted picture, relative to a bare pyqtgraph window",
            turns.slower,
            "x",
            "at most",
            1.8,
            turns.milliseconds("visformer", "bare window"),
            "a window without saved settings; the engine starts in parallel",
        ),
        Measurement(
            14,
            "paints of the window until the first attention picture",
            float(max(line["paints"] for line in lines)),
            "paints",
            "at most",
            1.0,
        ),
        Measurement(
            14,
            "starts of the window that imported torch",
            float(sum(line["torch"] for line in lines)),
            "starts",
            "at most",
            0.0,
            {"starts": len(lines)},
        ),
    ]


def next_event(
    events: SimpleQueue[Event],
    kind: type[EventType],
    on_others: Callable[[Event], object] = lambda event: None,
) -> EventType:
    """Wait for an event of one kind; InputError if the engine refuses."""
    while True:
        event = events.get(timeout=SECONDS)
        if isinstance(event, kind):
            return event
        on_others(event)
        if isinstance(event, Refused):
            raise InputError(event.reason)


def engine_seconds(checkpoint: Path) -> float:
    """Return the seconds from the start of an engine until a checkpoint is open."""
    events: SimpleQueue[Event] = SimpleQueue()
    began = time.perf_counter()
    engine = Engine(events.put)
    try:
        engine.open(Open(path=str(checkpoint)))
        next_event(events, Opened)
        return time.perf_counter() - began
    finally:
        engine.close()


@contextmanager
def trap() -> Iterator[Callable[[], bool]]:
    """Yield a function: whether a process spawned since imported transformers."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "transformers"
        package.mkdir()
        (package / "__init__.py").write_text(_TRAP)
        sys.path.insert(0, folder)  # inherited by spawned processes
        try:
            yield (package / "imported").exists
        finally:
            sys.path.remove(folder)


def engine() -> list[Measurement]:
    """Measure the engine from its start until the bundled checkpoint is open."""
    compileall.compile_dir(PACKAGE, quiet=2)  # as pip does when installing
    checkpoint = paths.checkpoint()
    weights = str(checkpoint / "model.safetensors")
    with trap() as imported:
        turns = take_turns(
            lambda: engine_seconds(checkpoint),
            lambda: started(BARE_TORCH, weights).seconds,
            rounds=ENGINE_ROUNDS,
        )
        tried = imported()
    return [
        Measurement(
            15,
            (
                "time until the engine can decode, relative to importing torch and "
                "reading the weights"
            ),
            turns.slower,
            "x",
            "at most",
            1.2,
            turns.milliseconds("engine", "bare torch"),
        ),
        Measurement(
            15,
            "engines that tried to import transformers",
            float(tried),
            "engines",
            "at most",
            0.0,
        ),
    ]


BENCHMARKS: dict[int, Callable[[], list[Measurement]]] = {14: window, 15: engine}
