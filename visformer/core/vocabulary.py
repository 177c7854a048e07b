"""The vocabulary of a model that has a tokenizer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from visformer.arguments import whole_number
from visformer.tokenizers.sides import NumberSide
from visformer.tokenizers.tokenizer import Tokenizer
from visformer.values.pieces import SPACE, begins_word, marks_of, plain

MOST_FOUND = 50  # tokens of one name


class TokenizerVocabulary:
    """What all vocabularies of a tokenizer have in common."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer

    @property
    def size(self) -> int:
        """The number of target tokens."""
        return self.tokenizer.target.size

    @property
    def numbers(self) -> int:
        """How many source tokens there are if they are typed as numbers; else 0."""
        source = self.tokenizer.source
        return source.size if isinstance(source, NumberSide) else 0

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the target token of each id."""
        return [*map(self.tokenizer.target.token, ids)]

    def text(self, ids: Sequence[int]) -> str:
        """Return the text of target ids, without special tokens."""
        return self.tokenizer.decode(ids)

    def find(self, text: str) -> tuple[tuple[int, str], ...]:
        """Return the ids and target tokens that a text names, the likest first."""
        return named(text, self.pieces(range(self.size)))

    def one(self, token: str | int) -> int:
        """Return the id of exactly one target token; InputError otherwise."""
        if isinstance(token, str):
            return self.tokenizer.target_id(token)
        return whole_number("token", token, most=self.size - 1)


def named(text: str, tokens: Iterable[str]) -> tuple[tuple[int, str], ...]:
    """Return the ids and tokens that a text names, the most alike first.

    Of tokens as alike the one that begins a word comes first, then one of the same
    case: that is what is meant where nobody types its mark. With the mark, or "_" for
    it, only such are meant.
    """
    typed, every = text.strip().casefold(), tuple(tokens)
    marks = marks_of(every)
    begins_only = typed[:1] == SPACE or (typed[:1] == "_" and len(typed) > 1)
    wanted = typed[begins_only:]
    found: list[tuple[int, bool, bool, int, str]] = []
    for id, token in enumerate(every if typed else ()):
        begins, read = begins_word(token, "", marks), plain(token, marks)
        place = read.casefold().find(wanted)
        if place >= 0 and (begins or not begins_only):
            unlike = max(place, len(read) - len(wanted))
            other_case = text.strip()[begins_only:] not in read
            found.append((unlike, not begins, other_case, id, token))
    return tuple((id, token) for *_unlike, id, token in sorted(found)[:MOST_FOUND])
