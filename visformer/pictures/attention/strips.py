"""The two token strips: how strongly each token is tinted, which is current."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from visformer.analysis.subwords import SPACE, has_word_marks
from visformer.pictures.absent import has_source
from visformer.pictures.attention.maps import layer_and_head
from visformer.pictures.attention.reading import reading
from visformer.pictures.attention.reading_words import done_words
from visformer.pictures.attention.weights import head_weights
from visformer.pictures.look import Look
from visformer.pictures.selection import AttentionCell, Selection
from visformer.text import visible
from visformer.values.arrays import Floats
from visformer.values.facts import Kind
from visformer.values.trace import Trace


@dataclass(frozen=True, slots=True)
class Chip:
    """One token of a strip."""

    token: str
    id: int
    tint: float  # attention paid to it by the row in focus, in [0, 1]; NaN kept
    current: bool  # the current step chose it
    marked: bool  # the query or key of the cell in focus
    forced: bool = False  # chosen by the user, not by the model
    done: str = ""  # what was done to the weight that tints, in words
    filled: bool = False  # masked, and the best tokens in its place are known


def focus(trace: Trace, selection: Selection) -> AttentionCell | None:
    """Return the row whose attention tints the strips.

    It is that of the cell in focus, or what the current step reads: of the source if
    there is cross-attention, otherwise of the sequence itself.
    """
    if selection.cell is not None:
        return selection.cell
    kind: Kind = "cross" if "cross" in trace.kinds else "decoder"
    return AttentionCell(kind, len(trace) - 1, -1) if len(trace) else None


def _tints(
    trace: Trace, selection: Selection, look: Look, reads: tuple[Kind, ...], length: int
) -> Floats:
    """Return the weights of the row in focus; 0 if it does not read this strip."""
    cell = focus(trace, selection)
    if cell is None or cell.kind not in reads:
        return np.zeros(length, np.float32)
    if not look.raw:
        shown = reading(trace, selection, look, cell.kind)
        return np.zeros(length, np.float32) if shown is None else shown.tints(cell)
    layer, head = layer_and_head(trace, selection, cell.kind)
    weights: Floats = head_weights(trace, cell.kind, layer, head)[cell.query]
    return weights


def _done(trace: Trace, selection: Selection, look: Look) -> str:
    cell = focus(trace, selection)
    if cell is None:
        return ""
    layer, _ = layer_and_head(trace, selection, cell.kind)
    return done_words(trace, look, cell.kind, layer)


def source_line(trace: Trace) -> str:
    """Return what stands in the source line: a decoder that ran alone has a prompt."""
    if trace.source_text or has_source(trace):
        return trace.source_text
    prompt = trace.target[: trace.prompt]
    if not has_word_marks(prompt):
        return " ".join(prompt)
    return "".join(prompt).replace(SPACE, " ").strip()


def source_strip(
    trace: Trace | None, selection: Selection, look: Look, masked: int | None = None
) -> tuple[Chip, ...]:
    """Return the source tokens; of a decoder that ran alone, its prompt.

    ``masked``: the masked token whose candidates are shown.
    """
    if trace is None:
        return ()
    if not has_source(trace):
        return _sequence(trace, selection, look)[: trace.prompt]
    cell, length = selection.cell, len(trace.source)
    tints = _tints(trace, selection, look, ("encoder", "cross"), length)
    marks, done = set(), _done(trace, selection, look)
    if cell is not None and cell.kind != "decoder":
        marks = {cell.key} | ({cell.query} if cell.kind == "encoder" else set())
    return tuple(
        Chip(
            visible(token),
            int(id),
            float(tint),
            index == masked,
            index in marks,
            done=done,
            filled=index in trace.fills,
        )
        for index, (token, id, tint) in enumerate(
            zip(trace.source, trace.source_ids, tints, strict=True)
        )
    )


def target_strip(
    trace: Trace | None, selection: Selection, look: Look
) -> tuple[Chip, ...]:
    """Return the target tokens read so far, then the current step's choice.

    Of a decoder that ran alone, only what follows its prompt.
    """
    if trace is None or not len(trace):
        return ()
    chips = _sequence(trace, selection, look)[first_chip(trace) :]
    if not trace.steps:
        return chips
    last = trace.steps[-1]
    return (
        *chips,
        Chip(visible(last.token), last.id, 0.0, True, False, last.origin == "forced"),
    )


def first_chip(trace: Trace) -> int:
    """Return which target token the target strip begins with."""
    return 0 if has_source(trace) else trace.prompt


def _sequence(trace: Trace, selection: Selection, look: Look) -> tuple[Chip, ...]:
    """Return all target tokens read so far."""
    cell = selection.cell
    tints = _tints(trace, selection, look, ("decoder",), len(trace))
    marks, done = set(), _done(trace, selection, look)
    if cell is not None and cell.kind != "encoder":
        marks = {cell.query} | ({cell.key} if cell.kind == "decoder" else set())
    origins = [False, *(step.origin == "forced" for step in trace.steps)]
    tokens = zip(trace.target, trace.target_ids, tints, strict=True)
    return tuple(
        Chip(
            visible(token),
            int(id),
            float(tint),
            False,
            index in marks,
            bool(trace.steps) and origins[index],
            done,
        )
        for index, (token, id, tint) in enumerate(tokens)
    )
