"""Runs, read from a file: facts at once, numbers when asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from visformer.errors import InputError
from visformer.files import short
from visformer.language import _
from visformer.values.arrays import read_only
from visformer.values.facts import Kind
from visformer.values.row_columns import Columns, RowsName
from visformer.values.score_bias import Bias, DistanceBias
from visformer.values.storage.file_blocks import BlockFile
from visformer.values.storage.run_arrays import Holds, arrays_of
from visformer.values.storage.saved_session import SavedRun, SavedSession
from visformer.values.storage.stored_arrays import (
    BlockedArray,
    StoredArray,
    StoredRows,
)
from visformer.values.storage.stored_facts import (
    DAMAGE,
    CheckedFacts,
    RunFacts,
    read_facts,
)
from visformer.values.storage.stored_steps import StoredSteps
from visformer.values.storage.write_runs import SESSION, WORK
from visformer.values.trace import Trace

MOST_RUNS = 10_000


class _Contents(msgspec.Struct, frozen=True):
    """What the first block says of the file."""

    runs: int
    shown: int


def read_session_file(file: BlockFile, version: tuple[int, int]) -> SavedSession:
    """Return the runs of a file; InputError where not one can be read."""
    contents = _contents(file)
    rows: dict[tuple[object, ...], StoredRows] = {}
    runs: dict[int, SavedRun] = {}
    problem = ""
    for number in range(contents.runs):
        try:
            runs[number] = _run(file, number, rows)
        except InputError as error:
            problem = problem or str(error)
    if not runs:
        raise InputError(problem)
    work = b""
    try:
        if WORK in file.places:
            work = bytes(file.read(WORK))
    except InputError as error:
        problem = problem or str(error)
    at = [*runs].index(contents.shown) if contents.shown in runs else 0
    traces = (run.trace.missing for run in runs.values())
    return SavedSession(
        runs=tuple(runs.values()),
        at=at,
        version=version,
        work=work,
        missing=problem or next(filter(None, traces), ""),
    )


def damaged(name: str, error: Exception) -> InputError:
    """Return the sentence for facts that do not pass a check."""
    return InputError(
        _(
            "{file} is damaged, or was made by something else: its facts are wrong "
            "({detail}).",
            file=name,
            detail=short(str(error) or type(error).__name__, 90),
        )
    )


def _contents(file: BlockFile) -> _Contents:
    """Return what the file says of itself; one run where it says nothing."""
    if SESSION not in file.places:
        return _Contents(1, 0)
    try:
        contents = msgspec.json.decode(file.read(SESSION), type=_Contents)
        if not 1 <= contents.runs <= MOST_RUNS or contents.shown < 0:
            raise ValueError("runs")
    except DAMAGE as error:
        raise damaged(file.file.name, error) from error
    return contents


def _run(
    file: BlockFile, number: int, rows: dict[tuple[object, ...], StoredRows]
) -> SavedRun:
    name = f"{number}/facts"
    if name not in file.places:
        raise _cut(file, name)
    payload = file.read(name)
    try:
        known = read_facts(payload, number)
    except DAMAGE as error:
        raise damaged(file.file.name, error) from error
    run = _StoredRun(file, number, known)
    facts = known.facts
    return SavedRun(
        trace=run.trace(rows),
        name=facts.name,
        note=facts.note,
        selection=facts.selection,
    )


def _cut(file: BlockFile, block: str) -> InputError:
    return InputError(
        _(
            "{file} is cut off or damaged: its block “{block}” is missing. Copy or "
            "download the file again.",
            file=file.file.name,
            block=short(block),
        )
    )


class _StoredRun:
    """One run of a file, put together as a Trace."""

    def __init__(self, file: BlockFile, number: int, known: CheckedFacts) -> None:
        self._file, self._number, self._known = file, number, known
        facts = self._facts = known.facts
        self._arrays = [
            (
                array,
                BlockedArray(
                    file,
                    array.name,
                    array.shape,
                    facts.height,
                    packed=array.holds == "mask",
                ),
            )
            for array in arrays_of(facts, number)
        ]

    def trace(self, rows: dict[tuple[object, ...], StoredRows]) -> Trace:
        """Return the run; ``rows`` are those that earlier runs have, by place."""
        facts, source = self._facts, len(self._facts.source)
        steps = self._steps(facts)
        whole = self._whole(steps)
        if self._file.verified:  # the steps, too, so that nothing is refused later
            tuple(steps[:whole])
        trace = Trace(
            model=facts.model,
            source_text=facts.source_text,
            source=facts.source,
            source_ids=read_only(np.array(facts.source_ids, np.int64)),
            source_spans=facts.source_spans,
            target=facts.target,
            target_ids=read_only(np.array(facts.target_ids, np.int64)),
            steps=steps if facts.chosen else (),
            encoder_rows=self._shared("encoder", source, facts.encoder_of, rows),
            memory_rows=self._shared("memory", source, facts.memory_of, rows),
            decoder_rows=self._rows("decoder", len(facts.target)),
            masks={kind: array for (kind, _layer), array in self._held("mask").items()},
            biases={kind: self._biases(kind) for kind in facts.biases},
            captured=self._held("captured"),
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
        return replace(trace.until(whole), cut_from=None, missing=missing)

    def _whole(self, steps: StoredSteps) -> int:
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
        return min(whole, steps.whole()) if self._facts.chosen else whole

    def _steps(self, facts: RunFacts) -> StoredSteps:
        run = str(self._number)
        return StoredSteps(self._file, run, facts.chosen, facts.height, facts.text)

    def _held(self, holds: Holds) -> dict[tuple[Kind, int], Any]:
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
        self,
        rows: RowsName,
        length: int,
        owner: int,
        known: dict[tuple[object, ...], StoredRows],
    ) -> Any:
        """Return the source's rows: the very object that another run has as well."""
        shape = length, Columns(self._facts.model).width(rows)
        return known.setdefault((owner, rows, shape), self._rows(rows, length))

    def _biases(self, kind: Kind) -> tuple[Bias, ...]:
        full, tables = self._held("bias"), self._held("table")
        made: dict[int, Bias] = {}
        for at, bias in enumerate(self._facts.biases[kind]):
            if bias.layer == at and bias.form == "full":
                made[at] = full[kind, at]
            elif bias.layer == at:
                made[at] = DistanceBias(np.asarray(tables[kind, at]), bias.zero)
        return tuple(made[bias.layer] for bias in self._facts.biases[kind])
