"""Cells that masks should have hidden, and rows that they hide completely."""

from dataclasses import replace

import numpy as np

from visformer.analysis.leaks import Leak, forbidden, leaks
from visformer.language import _, ngettext, sentences
from visformer.pictures.masks import (
    MaskPart,
    attends_to_nothing,
    mask_picture,
    nothing_words,
)
from visformer.pictures.picture import Matrix
from visformer.pictures.token_names import key_placed, row_placed
from visformer.pictures.words.absent import has_target
from visformer.values.arrays import Bools
from visformer.values.facts import Kind
from visformer.values.reading_order import LEAST, reads_later, sealed, unshown
from visformer.values.trace import Trace
from visformer.words import KIND_NAMES, head_words, layer_words, number, percent

MOST_NAMED = 1  # leaks listed; the maps show the others


def leaking_cells(
    trace: Trace, kind: Kind, layer: int, head: int | None = None
) -> Bools | None:
    """Return where a head reads a later token or a pad, bool [Q, K]; None if nowhere.

    Without a ``head``, where any head of the layer does.
    """
    future, pads, real = found = forbidden(trace, kind)
    if found.nothing:
        return None
    hidden = (future | pads) & real[:, None]
    if not hidden.any() or sealed(trace, kind, layer, future | pads):
        return None
    weights = np.nan_to_num(trace.attention(kind, layer, head))  # [Q, K] or [H, Q, K]
    read: Bools = weights > LEAST
    cells: Bools = hidden & (read if read.ndim == 2 else read.any(0))
    return cells if cells.any() else None


def mask_and_leaks(trace: Trace, kind: Kind, part: MaskPart, layer: int) -> Matrix:
    """Return one part of a layer's mask; the combined one has frames around leaks."""
    picture = mask_picture(trace, kind, part, layer)
    if part != "combined":
        return picture
    return replace(picture, alarms=leaking_cells(trace, kind, layer))


def leak_words(trace: Trace | None) -> str:
    """Name the queries that attend to a later token or a pad, the worst first."""
    if trace is None:
        return ""
    all_leaks = leaks(trace)
    if not all_leaks:
        return _noleak_sentence(trace)
    said = [
        ngettext(
            "{n:,} leak.",
            "{n:,} leaks, at most one for each layer and query.",
            len(all_leaks),
        )
    ]
    said += [leak_sentence(trace, leak) for leak in all_leaks[:MOST_NAMED]]
    more = len(all_leaks) - MOST_NAMED
    if more > 0:
        said.append(ngettext("And {n:,} more.", "And {n:,} more.", more))
    return sentences(said)


def empty_row_words(trace: Trace | None, head: int) -> str:
    """Name the queries that may attend to nothing; "" if there are none.

    For each kind the first layer with such queries, with its number if layers differ.
    """
    if trace is None:
        return ""
    words = []
    for kind in trace.kinds:
        layers = (
            layer
            for layer in range(trace.layers(kind))
            if attends_to_nothing(trace, kind, layer)
        )
        first = next(layers, None)
        if first is not None:
            fields = {
                "kind": _(KIND_NAMES[kind]),
                "layer": layer_words(first),
                "sentence": nothing_words(trace, kind, first, head),
            }
            differ = trace.masks[kind].ndim == 3
            words.append(
                _("{kind}, {layer}: {sentence}", **fields)
                if differ
                else _("{kind}: {sentence}", **fields)
            )
    return sentences(words)


def run_words(trace: Trace | None) -> str:
    """Report the leaks of a run; "" for an unchanged run without leaks."""
    if trace is None or not (trace.intervention or leaks(trace)):
        return ""
    return leak_words(trace)


def batch_words(trace: Trace | None, head: int, *, modified: bool) -> str:
    """Report what is notable about one row of a batch besides its masks.

    ``modified`` means that changes of the run are requested, which a batch ignores.
    """
    note = _("A batch is run without your changes.") if modified else ""
    said = leak_words(trace), empty_row_words(trace, head), note
    return sentences(said)


def _noleak_sentence(trace: Trace) -> str:
    if not has_target(trace):
        return _("No leak: no token reads a pad.")
    layers = range(trace.layers("decoder"))
    reaches, on = reads_later(trace), unshown(trace, "decoder", layers)
    if on > LEAST:
        return _(
            "Rows read later tokens, which are not shown, with up to {share} of their "
            "weight.",
            share=percent(on),
        )
    if len(trace) < 2 and (trace.intervention.reaches_back or reaches):
        return _("There is no later token to read yet: step forward to see what leaks.")
    if not len(trace):
        return ""  # nothing was read yet, so there is nothing to report
    if not reaches:
        return _("No leak: no target token reads a later one, and none reads a pad.")
    if not reads_later(trace, shown=True):
        return _("No leak up to this step: only rows of later steps read later tokens.")
    if trace.prompt > 1:
        return _(
            "No leak: only tokens of the prompt read later ones, which are given with "
            "them, and none reads a pad."
        )
    return _("No leak: only padding reads later tokens, and nothing else reads a pad.")


def leak_sentence(trace: Trace, leak: Leak) -> str:
    """Say who reads what it must not, and by how much."""
    fields = {
        "kind": _(KIND_NAMES[leak.kind]),
        "query": row_placed(trace, leak.kind, leak.query),
        "key": key_placed(trace, leak.kind, leak.key),
        "weight": number(leak.weight, 3),
        "head": head_words(leak.layer, leak.head),
    }
    if leak.what == "future":
        return _(
            "{kind}: {query} reads the later token {key} with weight {weight} "
            "({head}).",
            **fields,
        )
    return _(
        "{kind}: {query} reads the pad {key} with weight {weight} ({head}).", **fields
    )
