"""Embedding: another word in a token's place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from visformer.values.changes.run_change import LocalChanges, RunChange
from visformer.values.changes.written_fields import QUOTED, RowField, one_word
from visformer.values.facts import SentenceSide


@dataclass(frozen=True)
class Embedding(RunChange):
    """Embed another word in the place of a token; its position stays.

    The word must be one token of the vocabulary, as it is shown or as it is typed.
    """

    name = "embedding"
    forms = ("embedding {side} {row} = {word}",)
    examples = ('embedding source 2 = "dog"',)
    point = "embedding"

    side: Annotated[SentenceSide, one_word(("source", "target"), where=True)]
    row: RowField
    word: Annotated[str, QUOTED]

    def looked_up(self, find: Callable[[SentenceSide, str], int]) -> RunChange:
        """Return it with the word's id; raises InputError if it is not one token."""
        return _EmbeddedId(self.side, self.row, self.word, find(self.side, self.word))


@dataclass(frozen=True)
class _EmbeddedId(Embedding):
    id: int

    def apply(self, x: Any, place: LocalChanges) -> Any:
        """Replace the token's row, [..., T, D]."""
        x[place.at(self.row)] = place.beside([self.id])
        return x
