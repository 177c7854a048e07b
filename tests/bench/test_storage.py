"""The benchmarks of storage at a tiny size: what is counted, and what is opened."""

from __future__ import annotations

import dataclasses
import math
import sys

import pytest

from tests.bench import time_storage as storage
from tests.bench.random_trace import random_facts, random_recording
from tests.traces import make_trace, with_config
from visformer.values.row_columns import Columns
from visformer.values.step import CANDIDATES
from visformer.values.trace import Trace

TINY = random_facts(d_model=8, heads=2, layers=2, vocabulary=60)


def test_the_minimum_is_what_the_rows_hold() -> None:
    """Without a final norm the outputs are the last of the residual streams."""
    layout = Columns(TINY)
    source = layout.width("encoder") + layout.width("memory")
    numbers = 5 * source + 3 * layout.width("decoder")
    assert storage.raw_minimum(TINY, 5, 3) == 4 * numbers
    # with one, the decoder's output is counted and the encoder's is not
    normed = with_config(TINY, final_norm=True)
    assert storage.raw_minimum(normed, 5, 3) == 4 * (numbers + 3 * 8)


def test_rows_are_counted_once_and_reserved_ones_apart() -> None:
    trace = random_recording(TINY, 5, 3, limit=10).trace()
    encoder, memory = trace.encoder_rows.nbytes, trace.memory_rows.nbytes
    masks = 5 * 5 + (2 * 10 + 3) + 3 * 5  # a row of the decoder's has room for 10
    ids = 8 * (5 + 3)
    best = 3 * CANDIDATES * (4 + 4)  # ids and probabilities of a step's candidates
    found = storage.held(trace)
    rows = encoder + memory + trace.decoder_rows.nbytes
    assert found.used == rows + masks + ids + best
    row = trace.decoder_rows.nbytes // 3
    room = encoder + memory + 25 + 10 * row + 100 + 50 + 8 * (5 + 10)
    assert found.reserved == room + best
    shared = dataclasses.replace(trace, memory_rows=trace.encoder_rows[1:])
    assert storage.held(shared).used == found.used - memory


def test_the_objects_of_steps_are_counted() -> None:
    short = random_recording(TINY, 5, 1, limit=10).trace()
    long = random_recording(TINY, 5, 2, limit=10).trace()
    added = storage.held(long).objects - storage.held(short).objects
    candidates = long.steps[1].candidates
    known = {c.token for c in short.steps[0].candidates}
    new = {c.token for c in candidates} - known  # equal tokens are one string
    least = sum(map(sys.getsizeof, new)) + sys.getsizeof((None,) * CANDIDATES)
    assert len(candidates) == CANDIDATES
    assert least < added < 3 * least


def test_figures_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def small(sentence: str) -> Trace:
        return make_trace()

    monkeypatch.setattr(storage, "decoded", small)
    monkeypatch.setattr(storage, "OPUS", TINY)
    for figure in storage.memory():
        assert figure.value is not None
        assert 1 < figure.value < math.inf
