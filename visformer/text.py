"""Making text from outside safe to process and to show."""

import re
import unicodedata
from functools import lru_cache

MAX_CHARACTERS = 1_000_000
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")  # of Unicode's category Cc
_IN_NO_SENTENCE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def clean(text: str) -> str:
    """Replace lone surrogates, which no encoder takes, by U+FFFD; join valid pairs."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def without_controls(sentence: str) -> str:
    """Return a clean sentence whose control characters are spaces, one for one.

    Tabs and newlines stay. A terminal would obey the others, wherever they are copied.
    """
    if sentence.isprintable():
        return sentence
    return _IN_NO_SENTENCE.sub(" ", clean(sentence))


@lru_cache(maxsize=2048)
def visible(text: str) -> str:
    """Return ``text`` with control and direction characters spelt out, as ``[U+202E]``.

    They would otherwise be invisible, or reverse the text around them.
    """
    if text.isprintable():
        return text
    return "".join(_spelt(c) for c in text)


def _spelt(character: str) -> str:
    category = unicodedata.category(character)
    joiner = character in "\u200c\u200d"  # part of many scripts and emoji
    if category in ("Cc", "Cf", "Zl", "Zp", "Cs") and not joiner:
        return f"[U+{ord(character):04X}]"
    return character
