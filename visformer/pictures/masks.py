"""Pictures of the masks: which query may attend to which key, and why not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from visformer.pictures.picture import Matrix
from visformer.values.arrays import Bools, Floats, Ids
from visformer.values.facts import Kind, SentenceSide
from visformer.values.trace import Trace
from visformer.words import (
    KIND_NAMES,
    count,
    layer_words,
    masked_value_text,
    number,
    token_words,
)

MaskPart = Literal["padding", "causal", "combined"]
PARTS: dict[MaskPart, str] = {  # as explained on screen
    "padding": "False where the key only fills up the row of a batch: no query may "
    "read it.",
    "causal": "False where the key comes after the query: only the decoder's self "
    "attention has one.",
    "combined": "What the model really used: True where both others are, unless said "
    "below a map.",
}
NO_CELLS = "Nothing is decoded yet: there are no cells."


def chosen(batch: tuple[Trace, ...], shown: Trace | None, row: int) -> Trace | None:
    """Return the batch's row, or what is shown where there is no batch."""
    return batch[max(0, min(row, len(batch) - 1))] if batch else shown


def part_mask(trace: Trace, kind: Kind, part: MaskPart, layer: int) -> Bools:
    """Return one part of a layer's mask, bool [Q, K], True = may attend.

    Combined is the model's own, which differs between layers where the run was modified
    so. Padding and causal are derived from the ids, the same for every layer.
    """
    if part == "combined":
        return trace.mask(kind, layer)
    return padding_mask(trace, kind) if part == "padding" else causal_mask(trace, kind)


def padding_mask(trace: Trace, kind: Kind) -> Bools:
    """Return where the key is no pad, bool [Q, K]."""
    queries, keys = trace.tokens(kind)
    return np.broadcast_to(~_key_pads(trace, kind), (len(queries), len(keys)))


def causal_mask(trace: Trace, kind: Kind) -> Bools:
    """Return where the decoder's self attention sees no later key, bool [Q, K]."""
    queries, keys = trace.tokens(kind)
    full = np.ones((len(queries), len(keys)), bool)
    return np.tril(full) if kind == "decoder" else full


def mask_picture(trace: Trace, kind: Kind, part: MaskPart, layer: int) -> Matrix:
    """Return one part of a layer's mask as a picture: 1 is True, 0 is False."""
    mask = part_mask(trace, kind, part, layer)
    numbers = mask.astype(np.float32)
    rows, columns = trace.tokens(kind)
    where = f", {layer_words(layer)}" if part == "combined" else ""
    return Matrix(
        title=f"{KIND_NAMES[kind]}{where}: {part}",
        values=numbers,
        shade=numbers,
        rows=rows,
        columns=columns,
        row_axis="query (reads)",
        column_axis="key (is read)",
        ends=("False", "True"),
        note="" if mask.size else NO_CELLS,
        masked=~mask,
    )


def note(trace: Trace, kind: Kind, part: MaskPart, layer: int, head: int) -> str:
    """Say how many cells of one part of a layer's mask may attend, and what is odd.

    ``head``: whose weights are quoted of a row that may attend to nothing.
    """
    mask = part_mask(trace, kind, part, layer)
    if not mask.size:
        return NO_CELLS
    cells = f"{np.count_nonzero(mask):,} of {mask.size:,} cells may attend."
    if part == "padding":
        return f"{cells} {_padding_words(trace, kind)}"
    if part == "causal":
        words = "" if kind == "decoder" else "None: every query may see every key."
        return f"{cells} {words}".rstrip()
    odd = surprise(trace, kind, layer), nothing_words(trace, kind, layer, head)
    return " ".join(filter(None, (cells, *odd)))


def cell_words(trace: Trace, kind: Kind, layer: int, query: int, key: int) -> str:
    """Say whether a query may attend to a key in a layer, and why or why not."""
    queries, keys = trace.tokens(kind)
    allowed = bool(trace.mask(kind, layer)[query, key])
    reasons = []
    if not padding_mask(trace, kind)[query, key]:
        reasons.append("the key is padding")
    if not causal_mask(trace, kind)[query, key]:
        reasons.append("the key comes after the query")
    reason = " and ".join(reasons)
    if allowed:
        ending = f", although {reason}" if reason else ""
        verb = "may attend to"
    else:
        ending = f": {reason or 'the model hides it, padding and causal do not'}"
        verb = "may not attend to"
    reader, read = token_words(queries[query], query), token_words(keys[key], key)
    where = f"{KIND_NAMES[kind]}, {layer_words(layer)}"
    return f"{where}: query {reader} {verb} key {read}{ending}."


def surprise(trace: Trace, kind: Kind, layer: int) -> str:
    """Say where a layer's own mask is not padding and causal; "" where it is."""
    mask = trace.mask(kind, layer)
    differ = np.argwhere(mask != (padding_mask(trace, kind) & causal_mask(trace, kind)))
    if not len(differ):
        return ""
    query, key = (int(index) for index in differ[0])
    cell = _difference_words(trace, kind, query, key, allowed=bool(mask[query, key]))
    return f"Not padding and causal in {count(len(differ), 'cell')}: {cell}"


def attends_to_nothing(trace: Trace, kind: Kind, layer: int) -> tuple[int, ...]:
    """Return a layer's query rows that may attend to no key at all."""
    mask = trace.mask(kind, layer)
    return tuple(np.flatnonzero(~mask.any(axis=1)).tolist())


def nothing_words(trace: Trace, kind: Kind, layer: int, head: int) -> str:
    """Say what a head makes of the rows that may attend to nothing; "" for none."""
    rows = attends_to_nothing(trace, kind, layer)
    if not rows:
        return ""
    first = token_words(trace.tokens(kind)[0][rows[0]], rows[0])
    name = f"query {first}"
    if len(rows) > 1:
        name = f"{len(rows):,} queries, {first} first,"
    weights = trace.attention(kind, layer, head)[rows[0]]
    return f"{name} may attend to nothing: {_empty_row_words(trace, weights)}"


def false_words(trace: Trace) -> str:
    """Say what False does to a score, with the model's own number."""
    value = masked_value_text(trace.model.config.masked_value)
    return f"False (hidden: score replaced by {value} before the softmax)"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class BatchTable:
    """One side of a batch as the model read it: a sentence a row, pads included."""

    side: SentenceSide
    tokens: tuple[tuple[str, ...], ...]  # B rows of L tokens
    ids: Ids  # [B, L]
    pads: Bools  # [B, L]: True where the token is padding

    @property
    def summary(self) -> str:
        """How long the rows are and how much of them is padding, in words."""
        rows, length = self.ids.shape
        pads = np.count_nonzero(self.pads)
        hatched = " (hatched)" if pads else ""
        return (
            f"{self.side} {rows} × {length}: {pads:,} of {self.pads.size:,} tokens are "
            f"padding{hatched}"
        )


def batch_table(traces: tuple[Trace, ...], side: SentenceSide) -> BatchTable:
    """Return one side of a batch; rows of unequal length raise ValueError, as numpy."""
    source = side == "source"
    ids = np.stack([t.source_ids if source else t.target_ids for t in traces])  # [B, T]
    return BatchTable(
        side=side,
        tokens=tuple(trace.source if source else trace.target for trace in traces),
        ids=ids,
        pads=ids == (_source_pad(traces[0]) if source else traces[0].model.pad),
    )


def row_name(trace: Trace, row: int) -> str:
    """Name a batch's row: its number from 1, its text, and its padding in words."""
    real = np.count_nonzero(trace.source_ids != _source_pad(trace))
    text = trace.source_text or " ".join(trace.source[:real])
    pads = len(trace.source) - int(real)
    return f"{row + 1}: {text} ({count(pads, 'pad')} in the source)"


def _source_pad(trace: Trace) -> int:
    pad = trace.model.source_pad
    return trace.model.pad if pad is None else pad


def _key_pads(trace: Trace, kind: Kind) -> Bools:
    """Return which keys are pads, bool [K]: each side has its own pad id."""
    if kind == "decoder":
        pads: Bools = trace.target_ids == trace.model.pad
    else:
        pads = trace.source_ids == _source_pad(trace)
    return pads


def _padding_words(trace: Trace, kind: Kind) -> str:
    pads = np.count_nonzero(_key_pads(trace, kind))
    if not pads:
        return "No key is padding."
    return f"{pads:,} key{' is' if pads == 1 else 's are'} padding."


def _difference_words(
    trace: Trace, kind: Kind, query: int, key: int, *, allowed: bool
) -> str:
    """Say what one cell of a layer's mask does that padding and causal do not."""
    queries, keys = trace.tokens(kind)
    reader, read = token_words(queries[query], query), token_words(keys[key], key)
    if not allowed:
        return f"the model's own mask also hides {read} from query {reader}."
    if _key_pads(trace, kind)[key]:
        return f"the model's own mask also lets query {reader} read pad {read}."
    return f"the model's own mask also lets query {reader} read {read}, a later token."


def _empty_row_words(trace: Trace, weights: Floats) -> str:
    """Say what became of a row whose every score was replaced."""
    if np.isnan(weights).any():
        return "the softmax of nothing but −∞ is NaN, and so is all that follows."
    if weights.size and np.ptp(weights) <= 1e-6:
        value = masked_value_text(trace.model.config.masked_value)
        weight = number(float(weights[0]))
        return f"every score is {value}, so every key gets the same weight, {weight}."
    return "its weights are in the Attention tab."
