"""Words aligned by attention, and how far that is from a gold alignment.

A target word's pieces are averaged, a source word's summed, and each target word goes
with the source word of most weight; special tokens are no words (Zenkel et al. 2019,
Kobayashi et al. 2020). The error rate is Och and Ney's:
1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|).
"""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from visformer.errors import InputError
from visformer.values.arrays import Floats, Ids
from visformer.values.step import Step

WordTokens = list[list[int]]  # the tokens of each word


class Gold(NamedTuple):
    """The gold alignment of a pair: source and target words, from 0."""

    sure: frozenset[tuple[int, int]]
    possible: frozenset[tuple[int, int]]  # the sure ones among them


def read_gold(lines: Iterable[str], name: str) -> dict[int, Gold]:
    """Read the Pharaoh format by line, from 1: “i-j” is sure, “ipj” possible.

    InputError for a line that is not of that format.
    """
    return {at: _gold(line, at, name) for at, line in enumerate(lines, 1)}


def _gold(line: str, at: int, name: str) -> Gold:
    found: dict[str, set[tuple[int, int]]] = {"-": set(), "p": set()}
    for word in line.split():
        match = re.fullmatch(r"([0-9]{1,6})([-p])([0-9]{1,6})", word)
        if match is None:
            raise InputError(
                "Line {n} of {file} is no alignment: “{word}” is neither i-j (sure) "
                "nor ipj (possible), words from 0.",
                n=at,
                file=name,
                word=word[:24],
            )
        found[match[2]].add((int(match[1]), int(match[3])))
    sure = frozenset(found["-"])
    return Gold(sure, sure | found["p"])


def words_of(spans: Sequence[tuple[int, int]], text: str) -> WordTokens:
    """Return the tokens of each word of a text: that in which they end."""
    ends = [one.span() for one in re.finditer(r"\S+", text)]
    return [
        [at for at, (a, b) in enumerate(spans) if a < b and start < b <= end]
        for start, end in ends
    ]


def written_spans(steps: Sequence[Step]) -> list[tuple[int, int]]:
    """Return where each step's token stands in the text that was written."""
    texts = ["", *(step.text for step in steps)]
    return [
        (len(before) if after.startswith(before) else 0, len(after))
        for before, after in pairwise(texts)
    ]


def aligned(weights: Floats, targets: WordTokens, sources: WordTokens) -> Ids:
    """Return the source word of each target word, int [H, words] of [H, Q, K].

    −1 for a word without pieces or with a row of NaN.
    """
    rows = np.zeros((len(targets), weights.shape[1]), np.float32)
    columns = np.zeros((weights.shape[2], len(sources)), np.float32)
    for word, tokens in enumerate(targets):
        rows[word, tokens] = 1 / max(1, len(tokens))
    for word, tokens in enumerate(sources):
        columns[tokens, word] = 1
    lost = np.isnan(weights).any(-1) @ (rows > 0).T  # [H, words]
    found = rows @ np.nan_to_num(weights) @ columns  # [H, words, words]
    if not sources:
        return np.full(lost.shape, -1, np.int64)
    best: Ids = np.where(lost | ~(rows > 0).any(1), -1, found.argmax(-1))
    return best


def errors(found: Ids, gold: Gold) -> tuple[Floats, Floats]:
    """Return the sums and counts whose quotient is each head's error rate, [H]."""
    made = [{(int(i), j) for j, i in enumerate(one) if i >= 0} for one in found]
    counts = [len(one) + len(gold.sure) for one in made]
    right = [len(one & gold.sure) + len(one & gold.possible) for one in made]
    return (
        np.array(np.subtract(counts, right), np.float32),
        np.array(counts, np.float32),
    )
