"""Subwords into words: which tokens make up a word, and the weights of words.

A piece that begins with ``▁`` (sentencepiece's mark for a space) begins a word, and so
does one that follows a token that stands alone. These stand alone: special tokens,
``<unk>``, punctuation other than apostrophes and hyphens, and pieces of scripts written
without spaces (Chinese, Japanese, Thai, Lao, Khmer, Burmese), whose words are not
marked. A mark on its own joins the token that follows it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Sequence
from functools import lru_cache

import numpy as np

from visformer.values.arrays import Floats
from visformer.values.trace import Trace

SPACE = "▁"
JOINERS = "'’-‐‑"  # inside words: "didn't", "well-known"
UNSPACED = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR")

Groups = tuple[tuple[int, ...], ...]


def has_word_marks(tokens: Sequence[str]) -> bool:
    """Whether tokens mark where a word begins; if not, each token is a word."""
    return any(token.startswith(SPACE) for token in tokens)


@lru_cache(maxsize=2048)
def is_punctuation(token: str) -> bool:
    """Whether a piece is punctuation and nothing else (Unicode's P*)."""
    text = bare(token)
    return bool(text) and all(unicodedata.category(c).startswith("P") for c in text)


def bare(token: str) -> str:
    """Return a piece without its space mark; of an unknown piece, its text."""
    if token.startswith("<unk:"):
        token = token.removeprefix("<unk:").removesuffix(">")
    return token.removeprefix(SPACE)


def glued_source(trace: Trace) -> frozenset[int]:
    """Return the source tokens whose space mark stands for no space in the typed text.

    Some normalisers insert a space, for example after the apostrophe of "l'animal".
    """
    spans = trace.source_spans
    return frozenset(
        at
        for at in range(1, len(spans))
        if trace.source[at].startswith(SPACE)
        and 0 < spans[at - 1][1] == spans[at][0] < spans[at][1]
        and not any(map(str.isspace, trace.source_text[slice(*spans[at])]))
    )


def glued_target(trace: Trace) -> frozenset[int]:
    """Return the target tokens whose space mark stands for none in the decoded text."""
    if not trace.steps:
        return frozenset()
    texts = ["", *(step.text for step in trace.steps)]
    return frozenset(
        at
        for at in range(1, len(trace.target))
        if trace.target[at].startswith(SPACE)
        and texts[at - 1]
        and texts[at] == texts[at - 1] + bare(trace.target[at])
    )


def word_groups(
    tokens: Sequence[str],
    special: Collection[int] = (),
    glued: Collection[int] = (),
) -> Groups:
    """Return the indices of each word's tokens, in order; each token once.

    ``special``: tokens that stand alone whatever they look like. ``glued``: tokens
    that begin no word although they begin with a space mark. Both are indices.
    """
    if not has_word_marks(tokens):
        return tuple((index,) for index in range(len(tokens)))
    groups: list[list[int]] = []
    before = ""  # the token before, if its word may go on
    for index, token in enumerate(tokens):
        apart = index in special
        alone = apart or _stands_alone(token)
        begins = token.startswith(SPACE) and index not in glued
        goes_on = bool(before) and not alone and not begins
        if goes_on or (before == SPACE and not apart and token[:1] != SPACE):
            groups[-1].append(index)
        else:
            groups.append([index])
        before = "" if alone else token
    return tuple(tuple(group) for group in groups)


@lru_cache(maxsize=2048)
def _stands_alone(token: str) -> bool:
    text = bare(token)
    if token == "<unk>":  # nothing else is known of it
        return True
    if is_punctuation(token):
        return not all(character in JOINERS for character in text)
    return any(unicodedata.name(c, "").startswith(UNSPACED) for c in text)


def word_text(tokens: Sequence[str]) -> str:
    """Return a word's pieces joined without marks; a mark on its own stays."""
    return "".join(bare(token) for token in tokens) or "".join(tokens)


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
