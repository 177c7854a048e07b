"""The arrays of a run in a file: their names, shapes and order; written and read.

They are written one block after the other. Facts are read at once, numbers when asked.
"""

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, BinaryIO, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from visformer.errors import InputError
from visformer.files import short
from visformer.language import _
from visformer.trace_file.file_blocks import BlockFile, BlockWriter
from visformer.trace_file.saved_session import SavedRun, SavedSession
from visformer.trace_file.stored_arrays import (
    NUMBER,
    BlockedArray,
    StoredArray,
    StoredRows,
    packed,
)
from visformer.trace_file.stored_facts import (
    DAMAGE,
    CheckedFacts,
    RunFacts,
    StoredBias,
    facts_json,
    read_facts,
)
from visformer.trace_file.stored_steps import StoredSteps, numbers_of, texts_of
from visformer.values.arrays import read_only
from visformer.values.attention_heads import Bias, DistanceBias
from visformer.values.facts import SIDES, STACK_OF, Kind
from visformer.values.reading_order import reads_later
from visformer.values.row_columns import Columns, RowsName
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
        group=STACK_OF[kind],
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
                group=STACK_OF[kind],
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
            group=STACK_OF[kind],
            name=f"{run}/captured/{kind}/{layer}",
            shape=(heads, *_pair(facts, kind)),
            kind=kind,
            layer=layer,
        )


def _pair(facts: RunFacts, kind: Kind) -> tuple[int, int]:
    """Return how many queries and keys a kind has."""
    lengths = {"source": len(facts.source), "target": len(facts.target)}
    queries, keys = SIDES[kind]
    return lengths[queries], lengths[keys]


class _Contents(msgspec.Struct, frozen=True):
    """What the first block says of the file."""

    runs: Annotated[int, msgspec.Meta(ge=1, le=10_000)]
    shown: Annotated[int, msgspec.Meta(ge=0)]
    baseline: Annotated[int, msgspec.Meta(ge=0)] | None = None


def read_session_file(file: BlockFile, version: tuple[int, int]) -> SavedSession:
    """Return the runs of a file; InputError where not one can be read."""
    contents = _contents(file)
    rows: dict[tuple[object, ...], StoredRows] = {}
    runs: dict[int, SavedRun] = {}
    problems = []
    for number in range(contents.runs):
        try:
            runs[number] = _run(file, number, rows)
        except InputError as error:
            problems.append(str(error))
    if not runs:
        raise InputError(problems[0])
    work = b""
    try:
        if WORK in file.places:
            work = bytes(file.read(WORK))
    except InputError as error:
        problems.append(str(error))
    problems += [run.trace.missing for run in runs.values()]
    numbers = {number: at for at, number in enumerate(runs)}
    return SavedSession(
        runs=tuple(
            replace(run, parent=numbers.get(-1 if run.parent is None else run.parent))
            for run in runs.values()
        ),
        at=numbers.get(contents.shown, 0),
        baseline=numbers.get(-1 if contents.baseline is None else contents.baseline),
        version=version,
        work=work,
        missing=next(filter(None, problems), ""),
    )


@contextlib.contextmanager
def _checking(name: str) -> Iterator[None]:
    """Raise InputError in place of what reading facts that are not valid raises."""
    try:
        yield
    except DAMAGE as error:
        raise InputError(
            "{file} is damaged, or was made by something else: its facts are wrong "
            "({detail}).",
            file=name,
            detail=short(str(error) or type(error).__name__, 90),
        ) from error


def _contents(file: BlockFile) -> _Contents:
    """Return what the file says of itself; one run where it says nothing."""
    if SESSION not in file.places:
        return _Contents(1, 0)
    with _checking(file.file.name):
        return msgspec.json.decode(file.read(SESSION), type=_Contents)


def _run(
    file: BlockFile, number: int, rows: dict[tuple[object, ...], StoredRows]
) -> SavedRun:
    name = f"{number}/facts"
    if name not in file.places:
        raise _cut(file, name)
    payload = file.read(name)
    with _checking(file.file.name):
        known = read_facts(payload, number)
    return SavedRun(
        trace=_StoredRun(file, number, known).trace(rows),
        name=known.facts.name,
        note=known.facts.note,
        selection=known.facts.selection,
        parent=known.facts.parent,
    )


def _cut(file: BlockFile, block: str) -> InputError:
    return InputError(
        "{file} is cut off or damaged: its block “{block}” is missing. Copy or "
        "download the file again.",
        file=file.file.name,
        block=short(block),
    )


class _StoredRun:
    """One run of a file, put together as a Trace."""

    def __init__(self, file: BlockFile, number: int, known: CheckedFacts) -> None:
        facts = known.facts
        self._file, self._known, self._facts = file, known, facts
        self._steps = StoredSteps(file, number, facts.chosen, facts.height, facts.text)
        self._arrays = [
            (array, BlockedArray(file, array.name, array.shape, facts.height, mask))
            for array in arrays_of(facts, number)
            for mask in [array.holds == "mask"]
        ]

    def trace(self, rows: dict[tuple[object, ...], StoredRows]) -> Trace:
        """Return the run; ``rows`` are those that earlier runs have, by place."""
        facts, whole = self._facts, self._whole()
        if self._file.verified:  # the steps, too, so that nothing is refused later
            tuple(self._steps[:whole])
        trace = Trace(
            model=facts.model,
            source_text=facts.source_text,
            source=facts.source,
            source_ids=read_only(np.array(facts.source_ids, np.int64)),
            source_spans=facts.source_spans,
            target=facts.target,
            target_ids=read_only(np.array(facts.target_ids, np.int64)),
            steps=self._steps if facts.chosen else (),
            encoder_rows=self._shared("encoder", facts.encoder_of, rows),
            memory_rows=self._shared("memory", facts.memory_of, rows),
            decoder_rows=self._rows("decoder", len(facts.target)),
            masks={kind: array for (kind, _), array in self._by_kind("mask").items()},
            biases={kind: self._biases(kind) for kind in facts.biases},
            captured=self._by_kind("captured"),
            prompt=facts.prompt,
            fills=self._known.fills,
            intervention=self._known.intervention,
            truncated_from=facts.truncated_from,
            certificate=facts.certificate,
        )
        if whole == len(trace):
            return trace
        missing = _(
            "{file} is cut off or damaged: {whole:,} of {all:,} target tokens could "
            "be read.",
            file=self._file.file.name,
            whole=whole,
            all=len(trace),
        )
        cut = replace(trace.until(whole), cut_from=None)
        if reads_later(cut):
            missing += " " + _("Weights are over these alone; the run had others, too.")
        return replace(cut, missing=missing)

    def _whole(self) -> int:
        """Return how many target tokens have all their numbers in the file.

        Raises InputError where something else is missing.
        """
        whole = len(self._facts.target)
        for array, blocks in self._arrays:
            found = blocks.whole_rows()
            if array.by_target:
                whole = min(whole, found)
            elif found < array.shape[-2]:
                at = found // self._facts.height
                raise _cut(self._file, f"{array.name}/{at}")
        return min(whole, self._steps.whole()) if self._facts.chosen else whole

    def _by_kind(self, holds: Holds) -> dict[tuple[Kind, int], Any]:
        """Return the arrays of one sort, unread, by kind and layer."""
        return {
            (array.kind, array.layer): StoredArray(blocks)
            for array, blocks in self._arrays
            if array.kind is not None and array.holds == holds
        }

    def _rows(self, rows: RowsName, length: int) -> Any:
        parts = [
            (array.columns, blocks)
            for array, blocks in self._arrays
            if array.columns is not None and array.group == rows
        ]
        return StoredRows(parts, (length, Columns(self._facts.model).width(rows)))

    def _shared(
        self, rows: RowsName, owner: int, known: dict[tuple[object, ...], StoredRows]
    ) -> Any:
        """Return the source's rows: the very object that another run has as well."""
        made = self._rows(rows, len(self._facts.source))
        return known.setdefault((owner, rows, made.shape), made)

    def _biases(self, kind: Kind) -> tuple[Bias, ...]:
        full, tables = self._by_kind("bias"), self._by_kind("table")

        def bias(of: StoredBias) -> Bias:
            if of.form == "distance":
                return DistanceBias(np.asarray(tables[kind, of.layer]), of.zero)
            array: Bias = full[kind, of.layer]
            return array

        made = {of.layer: bias(of) for of in self._facts.biases[kind]}
        return tuple(made[of.layer] for of in self._facts.biases[kind])


HEIGHT = 64  # rows, and steps, per block
TOLERANCE = 2e-5  # between a model's own weights and those derived again
SESSION = "session"
WORK = "work"


def write_runs(
    file: BinaryIO,
    runs: Sequence[SavedRun],
    shown: int,
    baseline: int | None = None,
    work: bytes = b"",
) -> None:
    """Write a whole file; ``shown`` is the number of the run that is shown.

    ``baseline`` is that of the one that others are compared with, ``work`` what a
    window needs to go on. Rows that runs share are written once.
    """
    writer = BlockWriter(file)
    contents = {"runs": len(runs), "shown": shown}
    contents |= {} if baseline is None else {"baseline": baseline}
    writer.write(SESSION, json.dumps(contents).encode())
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
            biases={
                kind: [_bias(biases, bias) for bias in biases]
                for kind, biases in trace.biases.items()
            },
            captured=list(trace.captured),
            encoder_of=_first([t.encoder_rows for t in traces]),
            memory_of=_first([t.memory_rows for t in traces]),
            name=run.name,
            note=run.note,
            selection=run.selection,
            parent=run.parent,
        )
        writer.write(f"{number}/facts", data)
        _write_arrays(writer, read_facts(data, number).facts, trace, number)
    writer.finish()


def with_own_weights(trace: Trace) -> Trace:
    """Return a Trace that keeps its model's own weights where derived ones differ.

    Scores of some hundreds leave float32 no room for another order of operations.
    """
    if trace.own_weights is None and trace.whole is trace:
        return trace
    captured, alone = dict(trace.captured), replace(trace, cut_from=None)
    for kind in trace.kinds:
        for layer in range(trace.layers(kind)):
            own = trace.attention(kind, layer)
            derived = alone.attention_heads(kind, layer).weights()
            if not np.allclose(own, derived, rtol=0, atol=TOLERANCE, equal_nan=True):
                captured[kind, layer] = own
    return replace(trace, captured=captured)


def _first(rows: Sequence[object]) -> int:
    """Return the first run that has the very rows of the last one."""
    return next(at for at, one in enumerate(rows) if one is rows[-1])


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
