"""The two token strips: how strongly each token is tinted, which is current."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple, TypedDict

import numpy as np

from visformer.language import N_, _, clauses
from visformer.pictures.attention.maps import layer_and_head
from visformer.pictures.attention.reading import done_words, reading, title_words
from visformer.pictures.attention.token_groups import joined_tokens
from visformer.pictures.attention.weights import query_weights
from visformer.pictures.selection import AttentionCell, Look, Selection
from visformer.pictures.token_names import (
    candidate,
    marks,
    name,
    names,
    row_word,
    writes,
)
from visformer.pictures.words.absent import has_source
from visformer.pictures.words.choices import (
    FED,
    is_best,
    is_fed,
    kept_of_step,
    short_choice,
)
from visformer.pictures.words.modified_run import is_taught
from visformer.values.arrays import Floats
from visformer.values.facts import Kind, SentenceSide
from visformer.values.measured import ATTRIBUTIONS
from visformer.values.pieces import running_text
from visformer.values.reading_order import reads_later
from visformer.values.step import step_origins
from visformer.values.trace import Trace

READ_BY = N_("read by “{query}” · {title}")
MOST_LATER = 64  # tokens shown after the current step's


class Chip(NamedTuple):
    """One token of a strip."""

    token: str
    id: int
    tint: float  # attention paid to it by the row in focus, in [0, 1]; NaN kept
    current: bool  # the current step chose it
    marked: bool  # the query or key of the cell in focus
    done: str = ""  # which row's weight is the tint, and how it was changed
    fed: str = ""  # for a teacher-forced token: what the model predicted
    below: str = ""  # in short: whether the model predicted the same
    loss: float | None = None  # −ln p in nats, for a token of a reference
    later: bool = False  # written after the current step
    filled: bool = False  # masked, and the best tokens in its place are known
    read: bool = False  # by the row in focus: its tint is a weight
    joins: bool = False  # it continues the word of the previous chip


def focus(trace: Trace, selection: Selection) -> AttentionCell | None:
    """Return the row whose attention tints the strips.

    It is the row of the cell in focus, or what the current step reads: the source if
    there is cross-attention, otherwise the sequence itself.
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
    return query_weights(trace, cell.kind, layer, head, cell.query)


def _done(
    trace: Trace, selection: Selection, look: Look, reads: tuple[Kind, ...]
) -> str:
    """Say which row's weights tint this strip, and how they were changed."""
    cell = focus(trace, selection)
    if cell is None:
        return ""
    title = title_words(trace, selection, look, cell.kind)
    if cell.kind not in reads:
        return _("not read by {title}", title=title)
    query = row_word(trace, cell.kind, cell.query)
    words = READ_BY
    if look.summary in ATTRIBUTIONS:
        words = N_("measured for “{query}” · {title}")
    whose = _(words, query=query, title=title)
    done = done_words(trace, selection, look, cell.kind)
    return clauses((whose, done))


def source_line(trace: Trace) -> str:
    """Return the text of the source line; for a decoder-only run, its prompt."""
    if trace.source_text or has_source(trace):
        return trace.source_text
    prompt = trace.target[: trace.prompt]
    return running_text(prompt)


def source_strip(
    trace: Trace | None, selection: Selection, look: Look, masked: int | None = None
) -> tuple[Chip, ...]:
    """Return the source tokens; for a decoder-only run, its prompt.

    ``masked`` is the masked token whose candidates are shown.
    """
    if trace is None:
        return ()
    if not has_source(trace):
        return _sequence(trace, selection, look)[: trace.prompt]
    cell, marked = selection.cell, set[int]()
    if cell is not None and cell.kind != "decoder":
        marked = {cell.key} | ({cell.query} if cell.kind == "encoder" else set())
    chips = _chips(trace, selection, look, "source", marked)
    if masked is not None:
        chips[masked] = chips[masked]._replace(current=True)
    for index in trace.fills:
        chips[index] = chips[index]._replace(filled=True)
    return tuple(chips)


def target_strip(
    trace: Trace | None, selection: Selection, look: Look, ahead: Trace | None = None
) -> tuple[Chip, ...]:
    """Return the target tokens read so far, then the current step's choice.

    For a decoder-only run, only those after the prompt. ``ahead`` is the whole run if
    tokens of later steps are shown too.
    """
    if trace is None or not len(trace):
        return ()
    chips = _sequence(trace, selection, look)[first_chip(trace) :]
    if not trace.steps:
        return chips
    current = _after(trace, len(trace.steps) - 1, current=True)
    return (*chips, current, *_later(trace, ahead))


def _later(trace: Trace, ahead: Trace | None) -> tuple[Chip, ...]:
    """Return the tokens after the current step, if they are shown.

    All tokens of a reference are known in advance; of decoded ones, only as many are
    shown as may fit.
    """
    whole, most = trace.whole, None
    if not is_taught(whole):
        if ahead is None:
            return ()
        whole, most = ahead, MOST_LATER
    rest = range(len(trace), len(whole.steps))[:most]
    name = "chip of a later step" + (", read" if reads_later(whole) else "")
    made = partial(_after, later=True)
    return tuple([kept_of_step(whole, row, name, made) for row in rest])


def _after(
    trace: Trace, row: int, *, current: bool = False, later: bool = False
) -> Chip:
    """Return the chip of a step's own token, which follows all rows shown."""
    step = trace.steps[row]
    token = name(step.token, marks(trace, "target"))
    in_pass = later or row + 1 < len(trace.whole)  # a row may have read it
    unread = "" if in_pass and reads_later(trace) else _("no row has read it yet")
    joins = row + 1 in joined_tokens(trace, "target")
    chip = Chip(token, step.id, 0.0, current, False, unread, later=later, joins=joins)
    return chip._replace(**_fed(trace, row)) if is_fed(step) else chip


class _Fed(TypedDict):
    fed: str
    below: str
    loss: float | None


def _fed(trace: Trace, row: int) -> _Fed:
    """Say what the model predicted instead of a teacher-forced token."""
    return kept_of_step(trace, row, "fed", _fed_words)


def _fed_words(trace: Trace, row: int) -> _Fed:
    step, below = trace.steps[row], _("✓")
    if not step.computed:
        below = ""
    elif not is_best(step):
        best = candidate(step.candidates[0].token, marks(trace, "target"))
        below = _("model: {token}", token=best)
    loss = step.loss if step.origin == "reference" else None
    return {"fed": short_choice(trace, row), "below": below, "loss": loss}


def first_chip(trace: Trace) -> int:
    """Return the index of the first target token of the target strip."""
    return 0 if has_source(trace) else trace.prompt


def _sequence(trace: Trace, selection: Selection, look: Look) -> tuple[Chip, ...]:
    """Return all target tokens read so far."""
    cell, marked = selection.cell, set[int]()
    if cell is not None and cell.kind != "encoder":
        marked = {cell.query + writes(trace, cell.kind)}
        marked |= {cell.key} if cell.kind == "decoder" else set()
    chips = _chips(trace, selection, look, "target", marked)
    for row, origin in enumerate(step_origins(trace.steps)[:-1]):
        if origin in FED:
            chips[row + 1] = chips[row + 1]._replace(**_fed(trace, row))
    return tuple(chips)


def _chips(
    trace: Trace, selection: Selection, look: Look, side: SentenceSide, marked: set[int]
) -> list[Chip]:
    """Return a side's tokens, tinted by the weights of the row in focus."""
    reads: tuple[Kind, ...] = ("decoder",)
    ids = trace.target_ids
    if side == "source":
        reads, ids = ("encoder", "cross"), trace.source_ids
    tints = _tints(trace, selection, look, reads, len(ids))
    done, cell = _done(trace, selection, look, reads), focus(trace, selection)
    read, joins = cell is not None and cell.kind in reads, joined_tokens(trace, side)
    # a source of thousands of tokens is asked for at every drawing of the window
    needs = tints.tobytes(), frozenset(marked), done, read
    of = trace.source, trace.source_ids
    kept = trace.memo.find(of, "chips") if side == "source" else None
    if kept is not None and kept[0] == needs:
        return list(kept[1])
    tokens = zip(names(trace, side), ids.tolist(), tints.tolist(), strict=True)
    made = [
        Chip(
            *(token, id, tint, False, index in marked, done),
            read=read,
            joins=index in joins,
        )
        for index, (token, id, tint) in enumerate(tokens)
    ]
    if side == "source":
        trace.memo.keep(of, "chips", (needs, tuple(made)), 0)
    return made
