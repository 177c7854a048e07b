"""The arrays of a run in a file: which there are, their names, shapes and order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from visformer.values.facts import Kind
from visformer.values.row_columns import Columns, RowsName
from visformer.values.score_bias import DistanceBias
from visformer.values.storage.stored_facts import RunFacts
from visformer.values.trace import Trace

Holds = Literal["rows", "mask", "bias", "table", "captured"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunArray:
    """One array of a run; its blocks are ``NAME/0``, ``NAME/1`` ..."""

    holds: Holds
    group: RowsName  # written with these rows; the decoder's are cut by target tokens
    name: str
    shape: tuple[int, ...]  # [..., rows, columns]
    columns: slice | None = None  # of the wide rows, where it is a part of them
    kind: Kind | None = None  # of attention, where it is not
    layer: int = 0  # of a bias or of captured weights

    @property
    def by_target(self) -> bool:
        """Whether its rows are those of the target's tokens."""
        return self.group == "decoder" and self.holds != "table"

    def numbers(self, trace: Trace, rows: slice) -> NDArray[Any]:
        """Return some of its rows, taken from a Trace."""
        if self.kind is None:
            wide = {
                "encoder": trace.encoder_rows,
                "memory": trace.memory_rows,
                "decoder": trace.decoder_rows,
            }
            return wide[self.group][rows, self.columns]
        if self.holds == "mask":
            return np.asarray(trace.masks[self.kind][..., rows, :])
        if self.holds == "captured":
            return np.asarray(trace.captured[self.kind, self.layer][:, rows])
        bias = trace.biases[self.kind][self.layer]
        if isinstance(bias, DistanceBias):
            return bias.table[rows]
        return np.asarray(bias[:, rows, : self.shape[-1]])


def arrays_of(facts: RunFacts, run: int) -> list[RunArray]:
    """Return the arrays of run number ``run`` in their order in the file."""
    found = [*_rows(facts, run)]
    for kind in facts.model.kinds:
        found += [_mask(facts, run, kind), *_biases(facts, run, kind)]
        found += _captured(facts, run, kind)
    groups: tuple[RowsName, ...] = "encoder", "memory", "decoder"
    return sorted(found, key=lambda array: (groups.index(array.group), array.by_target))


def _rows(facts: RunFacts, run: int) -> Iterator[RunArray]:
    columns, source = Columns(facts.model), len(facts.source)
    groups: tuple[tuple[RowsName, int, int], ...] = (
        ("encoder", facts.encoder_of, source),
        ("memory", facts.memory_of, source),
        ("decoder", run, len(facts.target)),
    )
    for rows, owner, length in groups:
        for name, layer in columns.names(rows):
            part = columns.part(rows, name, layer)
            yield RunArray(
                holds="rows",
                group=rows,
                name=f"{owner}/{rows}/{name}/{layer}",
                shape=(length, part.stop - part.start),
                columns=part,
            )


def _mask(facts: RunFacts, run: int, kind: Kind) -> RunArray:
    layered = kind in facts.layered_masks
    layers = (facts.model.layers(kind),) if layered else ()
    return RunArray(
        holds="mask",
        group=_group(kind),
        name=f"{run}/mask/{kind}",
        shape=(*layers, *_pair(facts, kind)),
        kind=kind,
    )


def _biases(facts: RunFacts, run: int, kind: Kind) -> Iterator[RunArray]:
    pair = _pair(facts, kind)
    for layer, bias in enumerate(facts.biases.get(kind, ())):
        if bias.layer == layer:  # others share an earlier layer's
            full = bias.form == "full"
            yield RunArray(
                holds="bias" if full else "table",
                group=_group(kind),
                name=f"{run}/{'bias' if full else 'table'}/{kind}/{layer}",
                shape=(bias.heads, *pair) if full else (bias.heads, bias.width),
                kind=kind,
                layer=layer,
            )


def _captured(facts: RunFacts, run: int, kind: Kind) -> Iterator[RunArray]:
    heads = facts.model.attention[kind].heads
    for layer in sorted({layer for of, layer in facts.captured if of == kind}):
        yield RunArray(
            holds="captured",
            group=_group(kind),
            name=f"{run}/captured/{kind}/{layer}",
            shape=(heads, *_pair(facts, kind)),
            kind=kind,
            layer=layer,
        )


def _group(kind: Kind) -> RowsName:
    return "encoder" if kind == "encoder" else "decoder"


def _pair(facts: RunFacts, kind: Kind) -> tuple[int, int]:
    """Return how many queries and keys a kind has."""
    source, target = len(facts.source), len(facts.target)
    queries = source if kind == "encoder" else target
    return queries, target if kind == "decoder" else source
