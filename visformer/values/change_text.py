"""The text form of an Intervention, read: what ``--change`` and the window take."""

from __future__ import annotations

from collections.abc import Iterable

from visformer.errors import InputError
from visformer.files import short
from visformer.values.changes.run_change import RunChange
from visformer.values.intervention import CHANGES, Intervention


def examples() -> list[str]:
    """Return examples of every form."""
    return [example for kind in CHANGES.values() for example in kind.examples]


def parse(texts: Iterable[str]) -> Intervention:
    """Read the text form: changes, each alone or several separated by semicolons.

    Raises InputError, with examples of valid changes, for anything else.
    """
    parts = (" ".join(text.split()) for text in ";".join(texts).split(";"))
    return Intervention(*map(_read, filter(None, parts)))


def _read(words: str) -> RunChange:
    for kind in CHANGES.values():
        if (change := kind.read(words)) is not None:
            return change
    raise InputError(
        "“{words}” is not a valid change. Use, for example, {examples}; "
        "“visformer render --help” lists all.",
        words=short(words, 24),
        examples=", ".join(examples()[:7]),
    )
