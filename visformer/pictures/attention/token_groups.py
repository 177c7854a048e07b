"""Which tokens a look leaves, and which of them share a row or column."""

from __future__ import annotations

import numpy as np

from visformer.analysis.subwords import (
    Groups,
    glued_source,
    glued_target,
    is_punctuation,
    word_groups,
)
from visformer.pictures.attention.maps import sides
from visformer.pictures.look import Look, TokenGroup
from visformer.values.facts import Kind, SentenceSide
from visformer.values.trace import Trace


def token_groups(trace: Trace, kind: Kind, look: Look) -> tuple[Groups, Groups]:
    """Return the tokens of each remaining row and column.

    A word stays whole as long as one of its tokens does.
    """
    reads, is_read = sides(kind)
    groups = _words(trace, reads, look), _words(trace, is_read, look)
    hidden = _hidden_queries(trace, kind, look), _hidden(trace, is_read, look)
    rows, columns = (
        tuple(group for group in side if not gone.issuperset(group)) if gone else side
        for side, gone in zip(groups, hidden, strict=True)
    )
    return rows, columns


def hidden_tokens(trace: Trace, side: SentenceSide) -> dict[TokenGroup, set[int]]:
    """Return the indices of each group of tokens that can be hidden.

    Special: beginning and end of a sentence. A target that begins with the pad (Marian)
    begins with a special token, not with a pad.
    """
    model = trace.model
    source = side == "source"
    tokens, ids = (
        (trace.source, trace.source_ids) if source else (trace.target, trace.target_ids)
    )
    pads = set(np.flatnonzero(trace.pads(side)).tolist())
    ends = {model.bos, model.eos}
    special = {at for at, id in enumerate(ids.tolist()) if id in ends} - pads
    punctuation = {at for at, token in enumerate(tokens) if is_punctuation(token)}
    return {"special": special, "pad": pads, "punctuation": punctuation}


def _hidden(trace: Trace, side: SentenceSide, look: Look) -> set[int]:
    kinds = hidden_tokens(trace, side)
    return set().union(*(kinds[name] for name in look.hide))


def _hidden_queries(trace: Trace, kind: Kind, look: Look) -> set[int]:
    """Return the hidden rows: a target row stays if it predicts a shown token."""
    hidden = _hidden(trace, sides(kind)[0], look)
    if kind == "encoder":
        return hidden
    return {at for at in hidden if _predicts_hidden(trace, at, hidden, look)}


def _predicts_hidden(trace: Trace, at: int, hidden: set[int], look: Look) -> bool:
    if at + 1 < len(trace):
        return at + 1 in hidden
    if not trace.steps:
        return True
    last = trace.steps[at]
    ends = {trace.model.eos, trace.model.bos}
    return (
        ("special" in look.hide and last.id in ends)
        or ("pad" in look.hide and last.id == trace.model.pad)
        or ("punctuation" in look.hide and is_punctuation(last.token))
    )


def _words(trace: Trace, side: SentenceSide, look: Look) -> Groups:
    """Return every token of a side, as words if the look merges them."""
    tokens = trace.source if side == "source" else trace.target
    if not look.words:
        return tuple((at,) for at in range(len(tokens)))
    kinds = hidden_tokens(trace, side)
    return word_groups(tokens, kinds["special"] | kinds["pad"], glued(trace, side))


def glued(trace: Trace, side: SentenceSide) -> frozenset[int]:
    """Return a side's tokens that begin no word although they are marked as if."""
    return glued_source(trace) if side == "source" else glued_target(trace)
