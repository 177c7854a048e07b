"""Pictures of the masks: which query may attend to which key, and why not."""

import math
from dataclasses import dataclass
from functools import reduce
from typing import Literal

import numpy as np

from visformer.language import N_, _, ngettext, sentences
from visformer.pictures.attention.maps import axes, border, labels
from visformer.pictures.attention.strips import source_line
from visformer.pictures.picture import Matrix
from visformer.pictures.token_names import key_placed, names, row_placed
from visformer.pictures.words.absent import has_source
from visformer.values.arrays import Bools, Floats, Ids, later, once
from visformer.values.facts import SIDES, Kind, SentenceSide
from visformer.values.trace import Trace
from visformer.words import KIND_NAMES, layer_words, masked_value_text, number

MaskPart = Literal["padding", "causal", "combined"]
PART_NAMES: dict[MaskPart, str] = {  # translated when shown
    "padding": N_("padding mask"),
    "causal": N_("causal mask"),
    "combined": N_("combined mask"),
}
PARTS: dict[MaskPart, str] = {  # as explained on screen, translated when shown
    "padding": N_(
        "Padding mask. False where the key only fills up a row of the batch, which no "
        "query should read."
    ),
    "causal": N_(
        "Causal mask. False where the key comes after the query, as the decoder's "
        "self-attention should hide it; the others have none."
    ),
    "combined": N_("Combined mask: the one that the model used."),
}
AGREES = N_("It is True exactly where both other masks are.")
NO_CELLS = N_("Nothing is decoded yet: there are no cells.")
# by whether a cell may attend, whether its key is a pad, whether its key is later
CELL_WORDS = {
    (True, False, False): N_("{kind}, {layer}: query {query} may attend to key {key}."),
    (True, True, False): N_(
        "{kind}, {layer}: query {query} may attend to key {key}, although the key is "
        "padding."
    ),
    (True, False, True): N_(
        "{kind}, {layer}: query {query} may attend to key {key}, although the key "
        "comes after the query."
    ),
    (True, True, True): N_(
        "{kind}, {layer}: query {query} may attend to key {key}, although the key is "
        "padding and comes after the query."
    ),
    (False, False, False): N_(
        "{kind}, {layer}: query {query} may not attend to key {key}: it is "
        "hidden, although padding and causal mask would not hide it."
    ),
    (False, True, False): N_(
        "{kind}, {layer}: query {query} may not attend to key {key}: the key is "
        "padding."
    ),
    (False, False, True): N_(
        "{kind}, {layer}: query {query} may not attend to key {key}: the key comes "
        "after the query."
    ),
    (False, True, True): N_(
        "{kind}, {layer}: query {query} may not attend to key {key}: the key is "
        "padding and comes after the query."
    ),
}


NOT_ALLOWED = N_("{kind}, {layer}: query {query} may not attend to key {key}.")
ITS_OWN = N_("The mask that the model used; the rules behind it are unknown.")


def parts_of(trace: Trace | None) -> dict[MaskPart, str]:
    """Return the known parts of the masks, each with its explanation."""
    if trace is None or trace.model.known is not None:
        return {part: _(words) for part, words in PARTS.items()}
    return {"combined": _(ITS_OWN)}


def chosen(batch: tuple[Trace, ...], shown: Trace | None, row: int) -> Trace | None:
    """Return the batch's row, or the Trace shown if there is no batch."""
    return batch[max(0, min(row, len(batch) - 1))] if batch else shown


def part_mask(trace: Trace, kind: Kind, part: MaskPart, layer: int) -> Bools:
    """Return one part of a layer's mask, bool [Q, K], True = may attend.

    The combined mask is the model's own; it differs between layers only in a modified
    run. Padding and causal mask follow from the ids and are the same in every layer.
    """
    if part == "combined":
        return trace.mask(kind, layer)
    return padding_mask(trace, kind) if part == "padding" else causal_mask(trace, kind)


def padding_mask(trace: Trace, kind: Kind) -> Bools:
    """Return where the key is not a pad, bool [Q, K]."""
    queries, keys = trace.tokens(kind)
    return np.broadcast_to(~_key_pads(trace, kind), (len(queries), len(keys)))


def causal_mask(trace: Trace, kind: Kind) -> Bools:
    """Return where the key is not later, bool [Q, K]; all True but for the decoder."""
    queries, keys = trace.tokens(kind)
    if kind != "decoder":
        return np.broadcast_to(np.True_, (len(queries), len(keys)))
    return ~later(len(queries), len(keys))


def mask_picture(trace: Trace, kind: Kind, part: MaskPart, layer: int) -> Matrix:
    """Return one part of a layer's mask as a picture: 1 is True, 0 is False."""
    mask = part_mask(trace, kind, part, layer)
    solid = once(mask).all()  # one number stands for all: a long sentence has millions
    numbers = np.broadcast_to(np.float32(1), mask.shape) if solid else mask.astype("f4")
    rows, columns = labels(trace, kind)
    fields = {"kind": _(KIND_NAMES[kind]), "mask": _(PART_NAMES[part])}
    title = _("{kind}: {mask}", **fields)
    if part == "combined":
        title = _("{kind}, {layer}: {mask}", layer=layer_words(layer), **fields)
    return Matrix(
        title=title,
        values=numbers,
        shade=numbers,
        rows=rows,
        columns=columns,
        row_axis=axes(trace, kind)[0],
        column_axis=axes(trace, kind)[1],
        ends=("False", "True"),
        boolean=True,
        row_role="query",
        column_role="key",
        note="" if mask.size else _(NO_CELLS),
        border=border(trace, kind),
        masked=None if solid else ~mask,
    )


def note(trace: Trace, kind: Kind, part: MaskPart, layer: int, head: int) -> str:
    """Say how many cells of one part of a layer's mask may attend, and what is unusual.

    ``head`` is the head whose weights are quoted for a row that may attend to nothing.
    """
    mask = part_mask(trace, kind, part, layer)
    if not mask.size:
        return _(NO_CELLS)
    cells = ngettext(
        "{allowed:,} of {n:,} cell may attend.",
        "{allowed:,} of {n:,} cells may attend.",
        mask.size,
        allowed=mask.size if once(mask).all() else np.count_nonzero(mask),
    )
    said = [cells]
    if part == "padding":
        said.append(_padding_words(trace, kind))
    elif part == "combined":
        known = trace.model.known is not None  # otherwise the rules are unknown
        said.append(surprise(trace, kind, layer) or (_(AGREES) if known else ""))
        said.append(nothing_words(trace, kind, layer, head))
    elif kind != "decoder":
        said.append(_("There is none: every query may attend to every key."))
    return sentences(said)


def solid_words(trace: Trace, kind: Kind, part: MaskPart, layer: int) -> str:
    """Say, in place of a picture, that a mask hides nothing.

    "" if it hides something, or if it should: the picture then shows what it lets
    through.
    """
    mask = part_mask(trace, kind, part, layer)
    if not mask.size:
        return _(NO_CELLS)
    if not once(mask).all() or (part == "combined" and surprise(trace, kind, layer)):
        return ""
    fields = {"kind": _(KIND_NAMES[kind]), "rows": len(mask), "columns": mask.shape[1]}
    if part == "padding":
        return _(
            "{kind}: no key is padding, so nothing is hidden ({rows} × {columns} "
            "cells).",
            **fields,
        )
    if part == "causal" and kind != "decoder":
        return _(
            "{kind}: there is no causal mask. Every query may attend to every key "
            "({rows} × {columns} cells).",
            **fields,
        )
    return _(
        "{kind}: nothing is hidden. Every query may attend to every key ({rows} × "
        "{columns} cells).",
        **fields,
    )


def shortest_row(traces: tuple[Trace, ...]) -> int:
    """Return the row of a batch with the most padding; the first of several."""
    pads = [
        int(_key_pads(t, "cross").sum() + _key_pads(t, "decoder").sum()) for t in traces
    ]
    return pads.index(max(pads)) if pads else 0


def cell_words(trace: Trace, kind: Kind, layer: int, query: int, key: int) -> str:
    """Say whether a query may attend to a key in a layer, and why or why not."""
    allowed = bool(trace.mask(kind, layer)[query, key])
    padded = not padding_mask(trace, kind)[query, key]
    later = not causal_mask(trace, kind)[query, key]
    words = CELL_WORDS[allowed, padded, later]
    if trace.model.known is None:
        words = CELL_WORDS[True, False, False] if allowed else NOT_ALLOWED
    return _(
        words,
        kind=_(KIND_NAMES[kind]),
        layer=layer_words(layer),
        query=row_placed(trace, kind, query),
        key=key_placed(trace, kind, key),
    )


def surprise(trace: Trace, kind: Kind, layer: int) -> str:
    """Say where a layer's mask differs from padding and causal mask; "" if nowhere."""
    if trace.model.known is None:
        return ""  # the model's rules are unknown
    mask = trace.mask(kind, layer)
    name = "mask differs", kind, layer, mask.shape
    count, first = trace.memo.made(
        trace.storage, name, lambda: _differing(trace, kind, layer)
    )
    if not count:
        return ""
    query, key = divmod(first, mask.shape[1])
    cell = _difference_words(trace, kind, query, key, allowed=bool(mask[query, key]))
    return ngettext(
        "Differs from padding and causal mask in {n:,} cell: {cell}",
        "Differs from padding and causal mask in {n:,} cells: {cell}",
        count,
        cell=cell,
    )


def _differing(trace: Trace, kind: Kind, layer: int) -> tuple[int, int]:
    """Count the cells that neither padding nor causal mask explain; name the first."""
    expected = padding_mask(trace, kind)
    if kind == "decoder":
        expected = expected & causal_mask(trace, kind)
    differ = trace.mask(kind, layer) != expected
    return int(np.count_nonzero(differ)), int(differ.argmax()) if differ.size else 0


def attends_to_nothing(trace: Trace, kind: Kind, layer: int) -> tuple[int, ...]:
    """Return the query rows of a layer that may attend to no key."""
    mask = trace.mask(kind, layer)
    return tuple(np.flatnonzero(~mask.any(axis=1)).tolist())


def nothing_words(trace: Trace, kind: Kind, layer: int, head: int) -> str:
    """Describe a head's weights in rows that may attend to nothing; "" if none."""
    rows = attends_to_nothing(trace, kind, layer)
    if not rows:
        return ""
    said = ngettext(
        "Query {first} may attend to nothing.",
        "{n:,} queries, {first} first, may attend to nothing.",
        len(rows),
        first=row_placed(trace, kind, rows[0]),
    )
    weights = trace.attention(kind, layer, head)[rows[0]]
    return sentences((said, _empty_row_words(trace, kind, layer, weights)))


def false_words(trace: Trace) -> str:
    """Say what False does to a score, quoting the model's masked value."""
    values = (facts.masked_value for facts in trace.model.attention.values())
    value = reduce(
        lambda one, other: _("{one} or {other}", one=one, other=other),
        dict.fromkeys(map(masked_value_text, values)),
    )
    return _(
        "False (hidden: score replaced by {value} before the softmax)", value=value
    )


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class BatchTable:
    """One side of a batch as the model read it: one padded sentence per row."""

    side: SentenceSide
    tokens: tuple[tuple[str, ...], ...]  # B rows of L tokens
    ids: Ids  # [B, L]
    pads: Bools  # [B, L]: True where the token is padding

    @property
    def summary(self) -> str:
        """The length of the rows and their amount of padding, in words."""
        rows, length = self.ids.shape
        pads = np.count_nonzero(self.pads)
        return _(
            _SUMMARIES[self.side, bool(pads)],
            rows=rows,
            length=length,
            pads=pads,
            tokens=self.pads.size,
        )


_SUMMARIES: dict[tuple[SentenceSide, bool], str] = {  # side, whether it has pads
    ("source", False): N_("source {rows} × {length}: no token is padding"),
    ("source", True): N_(
        "source {rows} × {length}: {pads:,} of {tokens:,} tokens are padding (hatched)"
    ),
    ("target", False): N_("target {rows} × {length}: no token is padding"),
    ("target", True): N_(
        "target {rows} × {length}: {pads:,} of {tokens:,} tokens are padding (hatched)"
    ),
}


def batch_table(traces: tuple[Trace, ...], side: SentenceSide) -> BatchTable:
    """Return one side of a batch; ValueError for rows of unequal length."""
    source = side == "source"
    ids = np.stack([t.source_ids if source else t.target_ids for t in traces])  # [B, T]
    return BatchTable(
        side=side,
        tokens=tuple(names(trace, side) for trace in traces),
        ids=ids,
        pads=np.stack([trace.pads(side) for trace in traces]),
    )


def row_name(trace: Trace, row: int) -> str:
    """Name a batch's row by its number from 1, its text and its padding."""
    if not has_source(trace):
        text = source_line(trace) or " ".join(trace.target)
        return _("{row}: {text}", row=row + 1, text=text)
    real = np.count_nonzero(~trace.pads("source"))
    text = trace.source_text or " ".join(trace.source[:real])
    pads = len(trace.source) - int(real)
    return ngettext(
        "{row}: {text} ({n:,} pad in the source)",
        "{row}: {text} ({n:,} pads in the source)",
        pads,
        row=row + 1,
        text=text,
    )


def _key_pads(trace: Trace, kind: Kind) -> Bools:
    """Return which keys are pads, bool [K]."""
    return trace.pads(SIDES[kind][1])


def _padding_words(trace: Trace, kind: Kind) -> str:
    pads = int(np.count_nonzero(_key_pads(trace, kind)))
    if not pads:
        return _("No key is padding.")
    return ngettext("{n:,} key is padding.", "{n:,} keys are padding.", pads)


def _difference_words(
    trace: Trace, kind: Kind, query: int, key: int, *, allowed: bool
) -> str:
    """Describe how one cell of a layer's mask differs from padding and causal mask."""
    pair = {
        "query": row_placed(trace, kind, query),
        "key": key_placed(trace, kind, key),
    }
    if not allowed:
        return _("the mask that was used also hides {key} from query {query}.", **pair)
    if _key_pads(trace, kind)[key]:
        return _(
            "the mask that was used also lets query {query} attend to pad {key}.",
            **pair,
        )
    return _(
        "the mask that was used also lets query {query} attend to {key}, a later "
        "token.",
        **pair,
    )


def _empty_row_words(trace: Trace, kind: Kind, layer: int, weights: Floats) -> str:
    """Describe the weights of a row whose scores are all masked."""
    if trace.is_captured(kind, layer):
        return _("See the Attention tab for the weights.")
    if np.isnan(weights).any():
        return _("The softmax of only −∞ is NaN, and so is all that follows.")
    if weights.size and np.ptp(weights) <= 1e-6:
        return _(
            "Every score is {value}, so every key gets the same weight, {weight}.",
            value=masked_value_text(trace.model.attention[kind].masked_value),
            weight=number(float(weights[0])),
        )
    return _("See the Attention tab for the weights.")


def batch_examples(sentence: str) -> tuple[str, ...]:
    """Return the initial sentences of a batch: a sentence and two prefixes of it.

    Its model can read these too.
    """
    words = sentence.split()
    parts, between = (words, " ") if len(words) > 2 else (list(sentence.strip()), "")
    halves = (math.ceil(len(parts) / share) for share in (2, 5))
    begun = (between.join(parts[:count]).strip() for count in halves)
    return tuple(dict.fromkeys((sentence, *begun)))
