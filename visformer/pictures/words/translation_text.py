"""The translation as a sentence, and where it differs from another one.

Words and punctuation are compared; in Chinese, Japanese and Korean text, characters.
"""

import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Literal

from visformer.language import N_
from visformer.text import visible
from visformer.values.trace import Trace

Against = Literal["reference", "original", "before", ""]
AGAINST: dict[Against, str] = {  # the text to compare with, translated when shown
    "reference": N_("reference: {text}"),
    "original": N_("original run: {text}"),
    "before": N_("run before: {text}"),
}
MOST_COMPARED = 2000  # words and signs in both; longer texts are not compared
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
# a string, compiled on use: large ranges take milliseconds, and few runs need it
_PIECE = rf"\s*(?:[{_CJK}]|[^\W{_CJK}]+|[^\w\s])"


@dataclass(frozen=True, slots=True)
class TextPart:
    """Some words of a sentence, with the space before them."""

    text: str
    differs: bool  # from the other sentence


@dataclass(frozen=True, slots=True)
class TranslationText:
    """A sentence and the text it is compared with; either may be empty."""

    parts: tuple[TextPart, ...]  # the sentence up to the current step
    rest: str = ""  # the remaining text
    other: tuple[TextPart, ...] = ()
    against: Against = ""  # the origin of ``other``

    @property
    def text(self) -> str:
        """The sentence as plain text, for copying."""
        return "".join(part.text for part in self.parts) + self.rest


def translation_text(
    shown: Trace | None,
    other: str = "",
    against: Against = "",
    *,
    whole: Trace | None = None,
) -> TranslationText:
    """Return a run's sentence up to its current step, compared with another one.

    ``whole`` is the run with the rest of the sentence, if that is shown too.
    """
    text = "" if shown is None else visible(shown.text.strip())
    if shown is None:
        return TranslationText(())
    all_of_it = text if whole is None else visible(whole.text.strip())
    rest = all_of_it.removeprefix(text) if all_of_it.startswith(text) else ""
    if not text:
        return TranslationText((), rest)
    if not other or not against:
        return TranslationText((TextPart(text, differs=False),), rest)
    ended = len(shown) == len(shown.whole)
    parts, others = differences(text, visible(other.strip()), ended=ended)
    return TranslationText(parts, rest, others, against)


@lru_cache(maxsize=256)
def differences(
    text: str, other: str, *, ended: bool = True
) -> tuple[tuple[TextPart, ...], tuple[TextPart, ...]]:
    """Split both texts into parts that occur in both and parts that do not.

    If ``text`` has not ended, its last word may still grow, and in ``other`` nothing
    after the last common word counts as different.
    """
    mine, theirs = re.findall(_PIECE, text), re.findall(_PIECE, other)
    if len(mine) + len(theirs) > MOST_COMPARED:
        return (TextPart(text, differs=False),), (TextPart(other, differs=False),)
    words, others = ([piece.strip() for piece in side] for side in (mine, theirs))
    if not ended and words:
        grown = (word for word in others if word.startswith(words[-1]))
        words[-1] = next(grown, words[-1])
    found = SequenceMatcher(None, words, others, autojunk=False)
    blocks = found.get_matching_blocks()
    same = {at for block in blocks for at in range(block.a, block.a + block.size)}
    known = {at for block in blocks for at in range(block.b, block.b + block.size)}
    reached = len(others) if ended else max(known, default=-1) + 1
    known |= set(range(reached, len(others)))
    return _parts(mine, same), _parts(theirs, known)


def first_difference(text: str, other: str) -> tuple[TextPart, ...]:
    """Split a text where it first differs from another one: that word differs.

    The last word does where only the other text goes on.
    """
    mine, theirs = re.findall(_PIECE, text), re.findall(_PIECE, other)
    pairs = enumerate(zip(mine, theirs, strict=False))
    at = next((at for at, (a, b) in pairs if a != b), min(len(mine), len(theirs)))
    if not mine or len(mine) == len(theirs) == at:
        return (TextPart(text, differs=False),)
    at = min(at, len(mine) - 1)
    texts = "".join(mine[:at]), mine[at], "".join(mine[at + 1 :])
    parts = (TextPart(text, differs=which == 1) for which, text in enumerate(texts))
    return tuple(part for part in parts if part.text)


def _parts(pieces: list[str], same: set[int]) -> tuple[TextPart, ...]:
    """Join equal neighbours."""
    parts: list[TextPart] = []
    for at, piece in enumerate(pieces):
        differs = at not in same
        if parts and parts[-1].differs == differs:
            parts[-1] = TextPart(parts[-1].text + piece, differs)
        else:
            parts.append(TextPart(piece, differs))
    return tuple(parts)
