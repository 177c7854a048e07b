"""Benchmark of storage: a Trace's memory (12)."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable
from queue import SimpleQueue
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.bench.measurements import Measurement
from tests.bench.random_trace import random_facts, random_recording
from tests.bench.time_starting import next_event
from visformer import paths
from visformer.engine.handle import Engine
from visformer.engine.messages import Decode, Event, Finished, Open, Opened
from visformer.engine.mirror import Decoded
from visformer.values.facts import ModelFacts
from visformer.values.trace import Trace

MIB = 1 << 20
OPUS = random_facts(d_model=512, heads=8, layers=6, vocabulary=58_101)
SENTENCE = (
    "When I was young, I lived in a small house with my mother and my brother, and we "
    "went to school by bus every day."
)


class Held(NamedTuple):
    """Memory that a Trace keeps alive, in bytes."""

    used: int  # arrays, up to the last row written
    reserved: int  # arrays, including rows reserved for later steps
    objects: int  # Python objects: steps with their candidates, tokens, texts


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
    """Return the addresses where an array's memory begins and ends."""
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
    """Return the Trace that the window keeps after decoding with the bundled model."""
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
    return Measurement(12, what, share, "x", "at most", 1.15, parts, note)


def memory() -> list[Measurement]:
    """Measure the memory of the Traces of two models."""
    opus = random_recording(OPUS, 64, 64, limit=178).trace()
    note = "counts written rows; those reserved for later steps are listed apart"
    return [
        _memory_figure(
            "memory of a Trace relative to its raw minimum, bundled model",
            decoded(SENTENCE),
            note,
        ),
        _memory_figure(
            "memory of a Trace relative to its raw minimum, opus",
            opus,
            f"random numbers; {note}",
        ),
    ]


BENCHMARKS: dict[int, Callable[[], list[Measurement]]] = {12: memory}
