"""Traces of every sort of model, a window on them, and their heads' numbers by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from PySide6.QtWidgets import QApplication

from tests.general_traces import SCALES, Shape, any_trace
from visformer.trace_file.saved_session import SavedRun
from visformer.ui.window.window import MainWindow
from visformer.values.arrays import Floats
from visformer.values.attention_heads import bias_rows
from visformer.values.facts import KINDS, Kind
from visformer.values.trace import Trace

Subsets = tuple[tuple[Kind, ...], ...]
# What models have, and watched ones whose encoder was not found. One window shows them
# all, one after the other: what one leaves must not stay.
SUBSETS = [
    pytest.param((("encoder",), ("decoder",), KINDS), id="models"),
    pytest.param((("decoder", "cross"),), id="watched", marks=pytest.mark.slow),
]


@dataclass(frozen=True)
class Case:
    """A Trace and the numbers that its model's heads were made with.

    Its name says what is special, and the kinds.
    """

    name: str
    trace: Trace
    shape: Shape


def cases(kinds: tuple[Kind, ...]) -> list[Case]:
    plain = Shape(kinds=kinds)
    shapes: dict[str, tuple[Shape, dict[str, Any]]] = {
        "grouped keys": (plain, {}),
        "keys of their own": (replace(plain, key_heads=4), {}),
        "one key head": (replace(plain, key_heads=1, masked_value=-1e9), {}),
        "bias by distance": (plain, {"bias": "distance"}),
        "bias per cell": (plain, {"bias": "full"}),
        "captured": (plain, {"captured": True}),
        "no hidden states": (replace(plain, hidden=False, output=False), {}),
        "only the output": (replace(plain, hidden=False), {}),
        "no steps": (plain, {"steps": False}),
        "prompt": (plain, {"prompt": 2, "bias": "distance"}),
        "nothing decoded": (plain, {"target": 0}),
    }
    if "decoder" not in kinds and "cross" not in kinds:  # no target, so no prompt
        del shapes["prompt"], shapes["nothing decoded"], shapes["no steps"]
    return [
        Case(f"{name} {'+'.join(kinds)}", any_trace(shape, **given), shape)
        for name, (shape, given) in shapes.items()
    ]


def some(kinds: tuple[Kind, ...]) -> list[Case]:
    """Return the cases to draw: all where all kinds are, else each of a kind's own.

    A picture draws one kind as it draws the others; what differs without them is what
    is absent, and what a shape has of a kind that is alone: half of them with each.
    """
    whole = cases(kinds)
    return whole if len(kinds) == len(KINDS) else whole[kinds == ("decoder",) :: 2]


def every(subsets: Subsets) -> Iterator[tuple[tuple[Kind, ...], Case]]:
    """Yield all cases, each with its kinds."""
    return ((kinds, case) for kinds in subsets for case in cases(kinds))


def each(subsets: Subsets) -> Iterator[tuple[tuple[Kind, ...], Case]]:
    """Yield the cases to draw, each with its kinds."""
    return ((kinds, case) for kinds in subsets for case in some(kinds))


def weights(case: Case, trace: Trace, kind: Kind, layer: int, head: int) -> Floats:
    """Derive a head's weights [Q, K] from the rows, without asking the Trace."""
    if (kind, layer) in trace.captured:
        captured: Floats = trace.captured[kind, layer][head]
        return captured
    scores = scaled(case, trace, kind, layer, head)
    biases = trace.biases.get(kind)
    if biases is not None:
        bias = bias_rows(biases[layer], slice(None), scores.shape)
        scores += bias[head if len(bias) > 1 else 0].astype(np.float64)
    masked: Floats = np.where(trace.masks[kind], scores, case.shape.masked_value)
    powers = np.exp(masked - masked.max(-1, keepdims=True, initial=-1e30))
    made: Floats = powers / powers.sum(-1, keepdims=True)
    return made


def scaled(case: Case, trace: Trace, kind: Kind, layer: int, head: int) -> Floats:
    """Derive q.k times the scale, [Q, K], in double precision."""
    shape, part = case.shape, trace.columns.part
    rows: Floats = trace.encoder_rows if kind == "encoder" else trace.decoder_rows
    if kind == "cross":
        q = rows[:, part("decoder", "cross queries", layer)]
        k = trace.memory_rows[:, part("memory", "keys", layer)]
    else:
        q, k = (rows[:, part(kind, name, layer)] for name in ("queries", "keys"))
    group = shape.heads // shape.key_heads
    query = q.reshape(-1, shape.heads, shape.head_size)[:, head]
    key = k.reshape(-1, shape.key_heads, shape.head_size)[:, head // group]
    return np.asarray(query.astype(float) @ key.T.astype(float) * SCALES[layer])


def show_in(window: MainWindow, trace: Trace) -> None:
    """Show a recorded Trace, as ``visformer.show`` does, until it is painted."""
    window.show_run(SavedRun(trace=trace))
    QApplication.processEvents()


def shown(window: MainWindow) -> Trace:
    trace = window.session.state.visible
    assert trace is not None
    return trace


def view(window: MainWindow, kind: type[Any], name: str) -> Any:
    window.session.set(tab=name)
    found = window.tabs.view(name)
    assert isinstance(found, kind)
    return found
