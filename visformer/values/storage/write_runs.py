"""Runs, written into a file one block after the other."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, BinaryIO

import msgspec
import numpy as np
from numpy.typing import NDArray

from visformer.values.facts import Kind
from visformer.values.score_bias import Bias, DistanceBias
from visformer.values.storage.file_blocks import BlockWriter
from visformer.values.storage.run_arrays import RunArray, arrays_of
from visformer.values.storage.saved_session import SavedRun
from visformer.values.storage.stored_arrays import NUMBER, packed
from visformer.values.storage.stored_facts import (
    RunFacts,
    StoredBias,
    checked,
    facts_json,
)
from visformer.values.storage.stored_steps import numbers_of, texts_of
from visformer.values.trace import Trace

HEIGHT = 64  # rows, and steps, per block
TOLERANCE = 2e-5  # between a model's own weights and those derived again
SESSION = "session"
WORK = "work"


def write_runs(
    file: BinaryIO, runs: Sequence[SavedRun], shown: int, work: bytes = b""
) -> None:
    """Write a whole file; ``shown`` is the number of the run that is shown.

    ``work`` is what a window needs to go on; the file only carries it.

    Rows that runs share, as those of one source do, are written once.
    """
    writer = BlockWriter(file)
    writer.write(SESSION, json.dumps({"runs": len(runs), "shown": shown}).encode())
    if work:
        writer.write(WORK, work)
    traces: list[Trace] = []
    for number, run in enumerate(runs):
        trace = with_own_weights(run.trace)
        traces.append(trace)
        data = facts_json(
            trace,
            height=HEIGHT,
            layered_masks=[k for k, mask in trace.masks.items() if mask.ndim == 3],
            biases={kind: _biases(trace, kind) for kind in trace.biases},
            captured=list(trace.captured),
            encoder_of=_first([t.encoder_rows for t in traces]),
            memory_of=_first([t.memory_rows for t in traces]),
            name=run.name,
            note=run.note,
            selection=msgspec.to_builtins(run.selection),
        )
        writer.write(f"{number}/facts", data)
        _write_arrays(writer, checked(json.loads(data), number).facts, trace, number)
    writer.finish()


def with_own_weights(trace: Trace) -> Trace:
    """Return a Trace that keeps its model's own weights where derived ones differ.

    Scores of some hundreds leave float32 no room for another order of operations.
    """
    if trace.own_weights is None:
        return trace
    captured = dict(trace.captured)
    for kind in trace.kinds:
        for layer in range(trace.layers(kind)):
            own = trace.own_weights(kind, layer, None)
            derived = trace.attention_heads(kind, layer).weights()
            if not np.allclose(own, derived, rtol=0, atol=TOLERANCE, equal_nan=True):
                captured[kind, layer] = own
    return replace(trace, captured=captured)


def _first(rows: Sequence[object]) -> int:
    """Return the first run that has the very rows of the last one."""
    return next(at for at, one in enumerate(rows) if one is rows[-1])


def _biases(trace: Trace, kind: Kind) -> list[dict[str, Any]]:
    biases = trace.biases[kind]
    return [msgspec.to_builtins(_bias(biases, bias)) for bias in biases]


def _bias(biases: Sequence[Bias], bias: Bias) -> StoredBias:
    layer = next(at for at, one in enumerate(biases) if one is bias)
    if isinstance(bias, DistanceBias):
        heads, width = bias.table.shape
        return StoredBias(
            form="distance", layer=layer, heads=heads, zero=int(bias.zero), width=width
        )
    return StoredBias(form="full", layer=layer, heads=len(bias))


def _write_arrays(writer: BlockWriter, facts: RunFacts, trace: Trace, run: int) -> None:
    """Write what belongs to the source, then the target block by block."""
    arrays = arrays_of(facts, run)
    own = [array for array in arrays if array.name.startswith(f"{run}/")]
    for array in own:
        if not array.by_target:
            for at in range(-(-array.shape[-2] // HEIGHT)):
                _write_block(writer, array, trace, at)
    for at in range(-(-len(trace) // HEIGHT)):
        for array in own:
            if array.by_target:
                _write_block(writer, array, trace, at)
        steps = [*trace.steps[at * HEIGHT : (at + 1) * HEIGHT]]
        if steps:
            texts = json.dumps(
                msgspec.to_builtins(texts_of(steps, facts.text)), ensure_ascii=False
            )
            writer.write(f"{run}/steps/{at}", numbers_of(steps))
            writer.write(f"{run}/texts/{at}", texts.encode("utf-8", "replace"))


def _write_block(writer: BlockWriter, array: RunArray, trace: Trace, at: int) -> None:
    start, stop = at * HEIGHT, min((at + 1) * HEIGHT, array.shape[-2])
    numbers = array.numbers(trace, slice(start, stop))
    if numbers.shape != (*array.shape[:-2], stop - start, array.shape[-1]):
        raise ValueError(f"{array.name} has the shape {numbers.shape}")
    data: NDArray[Any] = packed(numbers) if array.holds == "mask" else numbers
    dtype = data.dtype if array.holds == "mask" else NUMBER
    writer.write(f"{array.name}/{at}", data.astype(dtype, copy=False).tobytes())
