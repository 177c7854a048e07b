"""Which tokens a look keeps, and which of them share a row or column."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np

from visformer.analysis.attention_summary import glued_source, glued_target, written
from visformer.pictures.selection import Look, TokenGroup
from visformer.pictures.token_names import marks, writes
from visformer.values.facts import SIDES, Kind, SentenceSide
from visformer.values.pieces import Groups, is_punctuation, joined, word_groups
from visformer.values.trace import Trace


def token_groups(trace: Trace, kind: Kind, look: Look) -> tuple[Groups, Groups]:
    """Return the tokens of each remaining row and column.

    A row is left out if the token that names it is hidden. A word stays whole as long
    as one of its tokens is visible.
    """
    reads, is_read = SIDES[kind]
    first = int(writes(trace, kind))
    return _groups(trace, reads, look, first), _groups(trace, is_read, look, 0)


def _groups(trace: Trace, side: SentenceSide, look: Look, first: int) -> Groups:
    """Group a side's visible tokens from ``first`` on, counted from there.

    The target has one more token if ``first`` is 1: the choice of the last step.
    """
    hidden = hidden_tokens(trace, side)
    gone = set().union(*(hidden[name] for name in look.hide))
    groups: Groups = tuple((at,) for at in range(len(side_tokens(trace, side))))
    if look.words:
        groups = _words(trace, side)
    end = first + len(trace.source if side == "source" else trace.target)
    left = (
        tuple(at - first for at in group if first <= at < end)
        for group in groups
        if not gone.issuperset(group)
    )
    return tuple(filter(None, left))


def side_tokens(trace: Trace, side: SentenceSide) -> tuple[str, ...]:
    """Return a side's tokens; those of the target end with the last choice."""
    return trace.source if side == "source" else written(trace)


def hidden_tokens(trace: Trace, side: SentenceSide) -> dict[TokenGroup, set[int]]:
    """Return the indices of each group of tokens that can be hidden.

    Special tokens begin and end a sentence. If a target begins with the pad (Marian),
    that counts as a special token, not as padding.
    """
    model, ids = trace.model, trace.source_ids.tolist()
    pads = set(np.flatnonzero(trace.pads(side)).tolist())
    if side == "target":
        last = [step.id for step in trace.steps[-1:]]
        ids = trace.target_ids.tolist() + last
        if last == [model.pad] != [model.eos]:
            pads.add(len(ids) - 1)
    special = {at for at, id in enumerate(ids) if id in (model.bos, model.eos)} - pads
    tokens, how = side_tokens(trace, side), marks(trace, side)
    punctuation = {at for at, token in enumerate(tokens) if is_punctuation(token, how)}
    return {"special": special, "pad": pads, "punctuation": punctuation}


def _words(trace: Trace, side: SentenceSide) -> Groups:
    hidden, tokens = hidden_tokens(trace, side), side_tokens(trace, side)
    return word_groups(tokens, hidden["special"] | hidden["pad"], glued(trace, side))


def glued(trace: Trace, side: SentenceSide) -> frozenset[int]:
    """Return a side's tokens that are marked as word beginnings but begin no word."""
    return glued_source(trace) if side == "source" else glued_target(trace)


def joined_tokens(trace: Trace, side: SentenceSide) -> frozenset[int]:
    """Return a side's tokens that continue the word of the previous token."""
    if side == "source":  # constant over all steps
        name, of = "joined", (trace.source,)
        return trace.memo.made(of, name, lambda: joined(_words(trace, side)))
    if trace not in _JOINED:
        _JOINED[trace] = joined(_words(trace, side))
    return _JOINED[trace]


_JOINED: WeakKeyDictionary[Trace, frozenset[int]] = WeakKeyDictionary()
