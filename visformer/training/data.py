"""Sentence pairs: reading, splitting without leaks, batches of similar lengths."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

from visformer.files import Pair


class Example(NamedTuple):
    """The token ids of a pair."""

    source: list[int]  # ends with the end-of-sentence token
    target: list[int]  # begins with bos and ends with eos


class Split(NamedTuple):
    """Three parts of a data set; no sentence occurs in two of them."""

    train: list[Pair]
    valid: list[Pair]
    test: list[Pair]


def split_pairs(
    pairs: Sequence[Pair], *, valid: int, test: int, seed: int = 0
) -> Split:
    """Split ``pairs`` by connected groups of sentences.

    Two pairs are connected if they share a source or a target (ignoring case), so no
    sentence of one part occurs in another. ``valid`` and ``test`` are numbers of pairs,
    reached as closely as whole groups allow.
    """
    groups = _groups(pairs)
    random.Random(seed).shuffle(groups)
    parts: list[list[Pair]] = [[], [], []]
    sizes = (test, valid)
    for group in groups:
        part = next(
            (i for i, n in enumerate(sizes) if len(parts[i]) + len(group) <= n), 2
        )
        parts[part].extend(pairs[index] for index in group)
    return Split(train=parts[2], valid=parts[1], test=parts[0])


def _groups(pairs: Sequence[Pair]) -> list[list[int]]:
    """Return indices of pairs, by connected group (union-find over sentences)."""
    leader = list(range(len(pairs)))

    def find(i: int) -> int:
        while leader[i] != i:
            leader[i] = leader[leader[i]]
            i = leader[i]
        return i

    first: dict[tuple[int, str], int] = {}
    for index, pair in enumerate(pairs):
        for key in enumerate(text.casefold() for text in pair):
            leader[find(index)] = find(first.setdefault(key, index))
    groups: dict[int, list[int]] = {}
    for index in range(len(pairs)):
        groups.setdefault(find(index), []).append(index)
    return list(groups.values())


def references(pairs: Sequence[Pair]) -> dict[str, list[str]]:
    """Return every source with all its translations, in order of first mention."""
    gathered: dict[str, list[str]] = {}
    for source, target in pairs:
        gathered.setdefault(source, []).append(target)
    return gathered


def batches(
    examples: Sequence[Example], *, tokens: int, seed: int | None = None
) -> list[list[int]]:
    """Group examples of similar length into batches of at most ``tokens`` per side.

    Padding counts as tokens. With a seed, equal lengths and the batches are shuffled.
    """
    order = list(range(len(examples)))
    generator = random.Random(seed)
    if seed is not None:
        generator.shuffle(order)
    order.sort(key=lambda i: (len(examples[i].target), len(examples[i].source)))
    groups: list[list[int]] = []
    longest = 0
    for index in order:
        length = max(map(len, examples[index]))
        longest = max(longest, length)
        if not groups or longest * (len(groups[-1]) + 1) > tokens:
            groups.append([])
            longest = length
        groups[-1].append(index)
    if seed is not None:
        generator.shuffle(groups)
    return groups
