"""The pseudo-language in tests: switched on, and English found beside it."""

from __future__ import annotations

import gettext
import io
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from tests.catalogue import ACCENTED, CLOSE, OPEN, PSEUDO, compiled, pseudo
from visformer import language

WORD = re.compile(r"[A-Za-z]{2,}")


class Unmarked(gettext.NullTranslations):
    """What the catalogue asks for a template that it does not have."""

    def __init__(self) -> None:
        super().__init__()
        self.templates: set[str] = set()

    def gettext(self, message: str) -> str:
        if OPEN not in message:  # an error may be given a text that is translated
            self.templates.add(message)
        return message

    def pgettext(self, context: str, message: str) -> str:
        return self.gettext(message)

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        self.templates.add(msgid1)
        return msgid1 if n == 1 else msgid2


@cache
def _compiled() -> bytes:
    return compiled(pseudo())


def install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``language.use(PSEUDO)`` find the pseudo-language, which no wheel has."""
    path = folder / PSEUDO / "LC_MESSAGES" / f"{language.DOMAIN}.mo"
    path.parent.mkdir(parents=True)
    path.write_bytes(_compiled())
    monkeypatch.setattr(language, "resource", lambda name: folder)


@contextmanager
def spoken() -> Iterator[Unmarked]:
    """Speak the pseudo-language, made from the code as it is now.

    Gives what was asked of the catalogue without being in it.
    """
    before, missing = language._catalogue, Unmarked()
    made = gettext.GNUTranslations(io.BytesIO(_compiled()))
    made.add_fallback(missing)
    language._catalogue = made
    try:
        yield missing
    finally:
        language._catalogue = before


def english(text: str, allowed: Collection[str]) -> list[str]:
    """Return the words of a text that no translation put there."""
    outside, depth = [], 0
    for sign in text:
        depth += sign == OPEN
        if not depth:
            outside.append(sign)
        depth -= sign == CLOSE
    return [word for word in WORD.findall("".join(outside)) if word not in allowed]


def painted_english(text: str, allowed: Collection[str]) -> list[str]:
    """Return the same of a painted line: brackets may be on other lines, or cut off."""
    if any(sign in text for sign in (*ACCENTED, OPEN, CLOSE, "~")):
        return []
    whole, cut, rest = text.partition("…")
    start = WORD.findall(whole)[-1:] if cut else []
    if any(word.startswith(tuple(start)) for word in allowed if start):
        text = whole.removesuffix(start[0]) + rest
    return english(text, allowed)
