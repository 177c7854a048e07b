"""Benchmarks of storage: a Trace's memory (12), opening a recorded one (13)."""

from __future__ import annotations

import gc
import multiprocessing
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from visformer import paths
from visformer.bench.measurements import Measurement
from visformer.bench.random_trace import random_facts, random_recording, random_trace
from visformer.bench.time_starting import next_event
from visformer.engine.events import Event
from visformer.engine.handle import Engine
from visformer.engine.messages import Decode, Finished, Open, Opened
from visformer.engine.mirror import Decoded
from visformer.language import _
from visformer.pictures.attention.attention import attention_map
from visformer.pictures.picture import Matrix
from visformer.session.state import Session
from visformer.values.facts import KINDS, ModelFacts
from visformer.values.trace import Trace
from visformer.values.trace_file import read_trace, write_trace

MIB = 1 << 20
OPUS = random_facts(d_model=512, heads=8, layers=6, vocabulary=58_101)
WIDE = random_facts(  # mBART's shape
    d_model=1024, heads=16, layers=12, vocabulary=250_027
)
SENTENCE = (
    "When I was young, I lived in a small house with my mother and my brother, and we "
    "went to school by bus every day."
)
ROUNDS = 3
SOURCE = 16  # tokens, for every target length, so the first step is the same work
SHORT, LONG = 20, 4_000  # target tokens: 10 MB and 1 GB of WIDE


# ---- 12: memory ------------------------------------------------------------------


class Held(NamedTuple):
    """Bytes that a Trace keeps alive."""

    used: int  # of arrays, up to the last row written
    reserved: int  # of arrays, including rows reserved for later steps
    objects: int  # of Python objects: steps with their candidates, tokens, texts


def raw_minimum(model: ModelFacts, source: int, target: int) -> int:
    """Bytes of keys, queries, values, residual stream and decoder output, float32."""
    config = model.config
    encoder = 4 * config.encoder_layers + 1
    memory = 2 * config.decoder_layers
    decoder = 5 * config.decoder_layers + 1 + config.final_norm
    return 4 * config.d_model * (source * (encoder + memory) + target * decoder)


def held(trace: Trace) -> Held:
    """Add up everything that a Trace refers to, counting shared objects once."""
    seen: set[int] = set()
    arrays: list[NDArray[Any]] = []
    todo: list[object] = [trace]
    objects = 0
    while todo:
        item = todo.pop()
        if id(item) in seen or isinstance(item, type | FunctionType | ModuleType):
            continue
        seen.add(id(item))
        if isinstance(item, np.ndarray):
            arrays.append(item)
            own = item.nbytes if item.base is None else 0
            objects += sys.getsizeof(item) - own  # without its numbers
        else:
            objects += sys.getsizeof(item)
            todo.extend(gc.get_referents(item))
    owners = {id(owner): owner.nbytes for owner in map(_owner, arrays)}
    return Held(_covered(map(_span, arrays)), sum(owners.values()), objects)


def _owner(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array that owns the storage of a view."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _span(array: NDArray[Any]) -> tuple[int, int]:
    """Return the address of an array's first number, and the one after its last."""
    first: int = array.__array_interface__["data"][0]
    if not array.size:
        return first, first
    sides = zip(array.shape, array.strides, strict=True)
    return first, first + sum((n - 1) * step for n, step in sides) + array.itemsize


def _covered(spans: Iterable[tuple[int, int]]) -> int:
    """Return how many bytes are in any of the spans."""
    total = end = 0
    for first, after in sorted(spans):
        total += max(0, after - max(first, end))
        end = max(end, after)
    return total


def decoded(sentence: str) -> Trace:
    """Return the Trace that the window holds after the bundled model has decoded."""
    events: SimpleQueue[Event] = SimpleQueue()
    engine = Engine(events.put)
    last: list[Trace] = []

    def keep(event: Event) -> None:
        if isinstance(event, Decoded):
            last[:] = [event.trace]

    try:
        engine.open(Open(path=str(paths.checkpoint())))
        next_event(events, Opened)
        engine.ask(Decode(source=sentence))
        next_event(events, Finished, keep)
        return last[0]
    finally:
        engine.close()


def _memory_figure(what: str, trace: Trace, note: str) -> Measurement:
    minimum = raw_minimum(trace.model, len(trace.source), len(trace))
    bytes_held = held(trace)
    parts = {
        "S": len(trace.source),
        "T": len(trace),
        "arrays alone x": bytes_held.used / minimum,
        "minimum MiB": minimum / MIB,
        "arrays MiB": bytes_held.used / MIB,
        "steps and tokens MiB": bytes_held.objects / MIB,
        "arrays with reserved rows MiB": bytes_held.reserved / MIB,
    }
    share = (bytes_held.used + bytes_held.objects) / minimum
    return Measurement(12, what, share, "x", "at most", 1.1, parts, note)


def memory() -> list[Measurement]:
    """Measure the memory of the Traces of two models."""
    opus = random_recording(OPUS, 64, 64, limit=178).trace()
    note = _("counts written rows; those reserved for later steps are listed apart")
    return [
        _memory_figure(
            _("memory of a Trace relative to its raw minimum, bundled model"),
            decoded(SENTENCE),
            note,
        ),
        _memory_figure(
            _("memory of a Trace relative to its raw minimum, opus"),
            opus,
            _("random numbers; {note}", note=note),
        ),
    ]


# ---- 13: a recorded Trace --------------------------------------------------------


class OpeningCost(NamedTuple):
    """The cost from a file to the maps of the first step."""

    read: float  # seconds, until there is a Trace
    maps: float  # seconds, after that
    kept: int  # bytes of resident memory more than before, with the Trace open
    most: int  # the same at the worst moment

    @property
    def seconds(self) -> float:
        """Time in all, in seconds."""
        return self.read + self.maps


def write_random(path: Path, source: int, target: int) -> None:
    """Write a Trace of WIDE with random numbers and these numbers of tokens."""
    write_trace(random_trace(WIDE, source, target), path)


def first_maps(trace: Trace) -> list[Matrix | None]:
    """Return the three maps of the first step, as the window derives them."""
    session = Session()
    session.set(trace=trace, step=1, recorded=True)
    state = session.state
    looked = state.shown, state.selection, state.look
    return [attention_map(*looked, kind) for kind in KINDS]


def opening(path: Path) -> OpeningCost:
    """Read a recorded Trace that is not in the page cache, and derive the maps."""
    forget(path)
    gc.collect()
    _reset_peak()
    before = _status("VmRSS")
    began = time.perf_counter()
    trace = read_trace(path)
    read = time.perf_counter()
    maps = first_maps(trace)
    ended = time.perf_counter()
    after, most = _status("VmRSS"), _status("VmHWM")
    del trace, maps
    return OpeningCost(read - began, ended - read, after - before, most - before)


def forget(path: Path) -> bool:
    """Ask to drop a file from the page cache; False if this system cannot."""
    if not hasattr(os, "posix_fadvise"):
        return False
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return True


def _status(name: str, file: str = "/proc/self/status") -> int:
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


def _room(folder: Path) -> tuple[int, str]:
    """Return the longest target whose file fits disk and memory, and what limits it."""
    row = 4 * WIDE.config.d_model * (5 * WIDE.config.decoder_layers + 1)  # bytes
    disk = shutil.disk_usage(folder).free
    free = _status("MemAvailable", "/proc/meminfo") or 8 * LONG * row
    rows = min(LONG, disk // 2 // row, free // 4 // row)
    disk_limits = disk // 2 < free // 4
    why = (
        _("too little disk for 1 GB")
        if disk_limits
        else _("too little memory for 1 GB")
    )
    return max(SHORT, rows), "" if rows == LONG else why


def recorded() -> list[Measurement]:
    """Measure opening a large and a small file in turn, in a warm process."""
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        longest, why = _room(Path(folder))
        files = {length: Path(folder) / f"{length}.vis" for length in (SHORT, longest)}
        tiny = Path(folder) / "tiny.vis"
        # written elsewhere, so that writing does not count as this process's memory
        with ProcessPoolExecutor(1, mp_context=spawn) as pool:
            pool.submit(write_random, tiny, 2, 2).result()
            for length, path in files.items():
                pool.submit(write_random, path, SOURCE, length).result()
        opened: dict[int, list[OpeningCost]] = {SHORT: [], longest: []}
        for _round in range(ROUNDS):
            for length, openings in opened.items():
                opening(tiny)  # warms up, and replaces the kept maps
                openings.append(opening(files[length]))
        sizes = {length: files[length].stat().st_size / 1e6 for length in opened}
        dropped = forget(tiny)
    cold = _("the system was first asked to drop the file from its page cache")
    warm = _("the file may have been in the page cache")
    note = "; ".join(filter(None, (cold if dropped else warm, why)))
    return [
        _time_figure(opened, sizes, longest, note),
        _resident_figure(opened, sizes, longest, note),
    ]


def _time_figure(
    opened: dict[int, list[OpeningCost]],
    sizes: dict[int, float],
    longest: int,
    note: str,
) -> Measurement:
    parts = {}
    for length, openings in opened.items():
        name = f"{sizes[length]:.0f} MB"
        parts[f"{name} ms"] = _middle(o.seconds for o in openings)
        parts[f"{name} reading ms"] = _middle(o.read for o in openings)
        parts[f"{name} maps ms"] = _middle(o.maps for o in openings)
    return Measurement(
        13,
        _(
            "recorded Trace of {size:.0f} MB, time from the file to the first step's "
            "maps",
            size=sizes[longest],
        ),
        _middle(o.seconds for o in opened[longest]),
        "ms",
        "at most",
        50.0,
        parts,
        note,
    )


def _resident_figure(
    opened: dict[int, list[OpeningCost]],
    sizes: dict[int, float],
    longest: int,
    note: str,
) -> Measurement:
    parts = {}
    for length, openings in opened.items():
        name = f"{sizes[length]:.0f} MB"
        parts[f"{name} MiB"] = max(o.kept for o in openings) / MIB
        parts[f"{name} peak MiB"] = max(o.most for o in openings) / MIB
    known = bool(_status("VmRSS"))
    return Measurement(
        13,
        _(
            "recorded Trace of {size:.0f} MB, increase of resident memory",
            size=sizes[longest],
        ),
        max(o.kept for o in opened[longest]) / MIB if known else None,
        "MiB",
        "at most",
        64.0,
        parts if known else {},
        note if known else _("resident memory is known only on Linux"),
    )


def _middle(seconds: Iterable[float]) -> float:
    return 1e3 * statistics.median(seconds)


BENCHMARKS: dict[int, Callable[[], list[Measurement]]] = {12: memory, 13: recorded}
