"""One matrix from many heads, and parts of it: mean, maximum, fewer tokens, words.

``H`` heads, ``Q`` queries, ``K`` keys. A row of NaN stays NaN throughout.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from visformer.values.arrays import Bools, Floats
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


def running_mean(parts: Iterable[Floats]) -> Iterator[Floats]:
    """Yield the mean of the matrices [Q, K] so far; the last is the mean of all."""
    total: Floats | None = None
    for count, part in enumerate(parts, 1):
        total = part.copy() if total is None else total + part
        yield total / np.float32(count)


def running_maximum(parts: Iterable[Floats]) -> Iterator[Floats]:
    """Yield each cell's maximum so far; the last is that of all. Rows sum to >= 1."""
    highest: Floats | None = None
    for part in parts:
        highest = part if highest is None else np.maximum(highest, part)
        yield highest


def chosen(
    weights: Floats,
    queries: Sequence[int],
    keys: Sequence[int],
    *,
    renormalise: bool = False,
) -> Floats:
    """Return the given rows and columns of [Q, K].

    ``renormalise``: divide each row by its remaining sum, so that it sums to 1 again;
    a row with nothing left stays 0.
    """
    part = weights[np.ix_(list(queries), list(keys))]  # [Q', K']
    if not renormalise or not part.size:
        return part
    left = part.sum(axis=1, keepdims=True)  # [Q', 1]
    # written so that a NaN row is divided by NaN
    return (part / np.where(left == 0, 1, left)).astype(np.float32)


def fewest_keys(weights: Floats, share: float) -> Bools:
    """Mark in each row of [Q, K] the fewest keys that carry ``share`` of its sum.

    Stronger keys come first, and the earlier of two equal ones. Keys without weight
    are never marked, nor is any key in a row of NaN. ``share`` in (0, 1]; 1 marks
    every key that has weight.
    """
    marked = np.zeros(weights.shape, bool)
    if not weights.size:
        return marked
    order = np.argsort(-weights, axis=1, kind="stable")  # [Q, K]
    sorted_ = np.take_along_axis(weights, order, axis=1).astype(np.float64)
    before = np.cumsum(sorted_, axis=1) - sorted_  # carried by the stronger keys
    total = sorted_.sum(axis=1, keepdims=True)  # [Q, 1]
    # a sum of floats reaches 0.9 of itself only up to rounding
    needed = (before < share * total - 1e-7) & (sorted_ > 0)
    np.put_along_axis(marked, order, needed, axis=1)
    return marked
