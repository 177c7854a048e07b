"""Subwords into words: which gaps between them are not there, the weights of words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from visformer.values.arrays import Floats
from visformer.values.pieces import Groups, begins_word, marks_of, plain
from visformer.values.step import chosen_tokens
from visformer.values.trace import Trace


def glued_source(trace: Trace) -> frozenset[int]:
    """Return the source tokens whose mark stands for no space in the typed text."""
    return glued_tokens(trace.source, trace.source_spans, trace.source_text)


def glued_tokens(
    tokens: tuple[str, ...], spans: Sequence[tuple[int, int]], typed: str
) -> frozenset[int]:
    """Return the tokens of a typed text whose mark stands for no space in it.

    Some normalisers insert a space, for example after the apostrophe of "l'animal".
    """
    marks = marks_of(tokens)
    return frozenset(
        at
        for at in range(1, len(spans))
        if begins_word(tokens[at], tokens[at - 1], marks)
        and 0 < spans[at - 1][1] == spans[at][0] < spans[at][1]
        and not any(map(str.isspace, typed[slice(*spans[at])]))
    )


def written(trace: Trace) -> tuple[str, ...]:
    """Return the target's tokens, and last the one that the last step chose."""
    return trace.target + chosen_tokens(trace.steps)[-1:]


def glued_target(trace: Trace) -> frozenset[int]:
    """Return the tokens written whose mark stands for none in the decoded text.

    They are counted as in ``written``.
    """
    tokens = written(trace)
    marks = marks_of(tokens)
    texts = ["", *(step.text for step in trace.steps)]
    return frozenset(
        at
        for at in range(1, len(texts))
        if begins_word(tokens[at], tokens[at - 1], marks)
        and texts[at - 1]
        and texts[at] == texts[at - 1] + plain(tokens[at], marks)
    )


def merged(weights: Floats, queries: Groups, keys: Groups) -> Floats:
    """Return [words, words] of [Q, K]: the sum over keys, the mean over queries.

    A row that sums to 1 still does (Clark et al. 2019, section 4.1). A word that
    contains a query of NaN is NaN. ``queries`` and ``keys`` hold every index once, in
    order.
    """
    if not weights.size:
        return np.zeros((len(queries), len(keys)), np.float32)
    columns = np.add.reduceat(weights, [group[0] for group in keys], axis=1)
    rows = np.add.reduceat(columns, [group[0] for group in queries], axis=0)
    sizes = np.array([len(group) for group in queries], np.float32)
    return (rows / sizes[:, None]).astype(np.float32)
