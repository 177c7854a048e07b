"""Sentences and formulas whose queries, keys and values are coloured by role."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from visformer.language import N_, _
from visformer.pictures.picture import AttentionRole

# Symbols in formulas, outside quoted tokens: Q, W_Q, b_Q and q are the queries'.
_SYMBOLS = re.compile(
    r"“[^”]*”|(?<!\w)(?:(?P<query>(?:[Wb]_)?Q(?=\W|Kᵀ|$)|q\b)"
    r"|(?P<key>(?:[Wb]_)?K(?:ᵀ|\b)|k\b)|(?P<value>(?:[Wb]_)?V\b|v\b))"
    r"|(?<=Q)(?P<transposed>Kᵀ)"
)
ROLES: tuple[AttentionRole, ...] = ("query", "key", "value")
# Chinese writes words without spaces: with these before them, the signs for key and
# value are part of "mean", "number", "largest", "smallest", "threshold", "keyboard key"
_OTHER_WORDS = "(?<![均数大小阈按])"
_WORDS: dict[AttentionRole, str] = {  # words in sentences, in all their forms
    # i18n: with a space after each comma where the language has spaces between words
    "query": N_("query, queries"),
    "key": N_("key, keys"),
    "value": N_("value, values"),
}


class RoleSpan(NamedTuple):
    """``length`` letters from ``start`` on belong to a role."""

    start: int
    length: int
    role: AttentionRole


class RoleText(str):
    """A text that knows which of its words belong to a role."""

    spans: tuple[RoleSpan, ...]

    def __new__(cls, text: str, spans: tuple[RoleSpan, ...] = ()) -> RoleText:
        made = super().__new__(cls, text)
        made.spans = spans
        return made

    def parts(self) -> Iterator[tuple[str, AttentionRole]]:
        """Yield the text in pieces, each with its role; "" without one."""
        done = 0
        for start, length, role in (*self.spans, RoleSpan(len(self), 0, "")):
            end = start + length
            if done < start:
                yield self[done:start], ""
            if start < end:
                yield self[start:end], role
            done = end


@lru_cache(maxsize=256)
def role_text(text: str, *, query: str = "", key: str = "") -> RoleText:
    """Find queries, keys and values in a text: symbols, words and tokens.

    ``query`` and ``key`` are the names of a cell's tokens. If they are equal, the first
    occurrence is the query.
    """
    found = [
        *_named(text, query, "query", 1 if query == key else len(text)),
        *(_named(text, key, "key", len(text), skip=1 if query == key else 0)),
        *_symbols(text),
        *_words(text),
    ]
    spans: list[RoleSpan] = []
    for span in sorted(found):
        if not spans or span.start >= spans[-1].start + spans[-1].length:
            spans.append(span)
    return RoleText(text, tuple(spans))


def _named(
    text: str, name: str, role: AttentionRole, most: int, *, skip: int = 0
) -> list[RoleSpan]:
    if not name:
        return []
    places, at = list[int](), text.find(name)
    while at >= 0:
        places.append(at)
        at = text.find(name, at + len(name))
    return [RoleSpan(at, len(name), role) for at in places[skip : skip + most]]


def _words(text: str) -> list[RoleSpan]:
    found = []
    for role, forms in _WORDS.items():
        for word in _pattern(_(forms)).finditer(text):
            if word["form"]:
                found.append(RoleSpan(word.start(), len(word[0]), role))
    return found


@lru_cache(maxsize=8)
def _pattern(forms: str) -> re.Pattern[str]:
    """Return a pattern for these words outside quoted tokens."""
    either = "|".join(re.escape(form.strip()) for form in forms.split(","))
    before, after = (r"\b", r"\b") if " " in forms else (_OTHER_WORDS, "")
    return re.compile(rf"“[^”]*”|{before}(?P<form>{either}){after}", re.IGNORECASE)


def _symbols(text: str) -> list[RoleSpan]:
    spans = []
    for found in _SYMBOLS.finditer(text):
        group = found.lastgroup
        role = "key" if group == "transposed" else group
        for one in ROLES:
            if one == role:
                spans.append(RoleSpan(found.start(), len(found[0]), one))
    return spans
