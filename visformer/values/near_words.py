"""A token's nearest tokens by their embeddings, and a map of them: plain values."""

from __future__ import annotations

from dataclasses import dataclass

from visformer.values.arrays import Floats, Ids
from visformer.values.facts import SentenceSide


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class NearWords:
    """N tokens of one side: the one asked for, then its nearest, best first.

    ``cosines`` are of the angles between its embedding row and theirs, in [-1, 1].
    ``places`` [N, 2] are the rows, each scaled to length 1, on their first two
    principal components, which hold the ``shares`` of their variance.
    """

    side: SentenceSide
    ids: Ids  # [N]; of a text that names no token [0]
    tokens: tuple[str, ...]
    cosines: Floats  # [N]
    places: Floats  # [N, 2]
    shares: tuple[float, float]  # in [0, 1]
    vocabulary: int
    width: int  # numbers in a row
    asked: str = ""  # the text, where none is named so
