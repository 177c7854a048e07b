"""The text form of an Intervention, read: what ``--change`` and the window take."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from visformer.errors import InputError
from visformer.files import short
from visformer.values.changes.run_change import RunChange
from visformer.values.intervention import CHANGES, Intervention

_PART = re.compile(r"""(?:"(?:[^"\\]|\\.)*"|[^;"]|")+""")  # a word may hold “;”
_BLANKS = re.compile(r'("(?:[^"\\]|\\.)*")|\s+')  # those in quotes stay
_PLACES = re.compile(r"(.+?) ?@ ?(L\d+(?:H\d+)?(?: ?, ?L\d+(?:H\d+)?)*)")


def examples() -> list[str]:
    """Return examples of every form."""
    return [example for kind in CHANGES.values() for example in kind.examples]


def parse(texts: Iterable[str]) -> Intervention:
    """Read the text form: changes, each alone or several separated by semicolons.

    A list of places, as in “@ L2H1,L2H5”, is one change in each. Raises InputError,
    with the nearest valid change, for anything else.
    """
    whole = _BLANKS.sub(lambda found: found[1] or " ", ";".join(texts))
    parts = (part.strip() for part in _PART.findall(whole))
    return Intervention(*(one for part in filter(None, parts) for one in _each(part)))


def _each(words: str) -> Iterator[RunChange]:
    if found := _PLACES.fullmatch(words):
        for place in found[2].split(","):
            yield _read(f"{found[1]} @ {place.strip()}")
    else:
        yield _read(words)


def _read(words: str) -> RunChange:
    for kind in CHANGES.values():
        if (change := kind.read(words)) is not None:
            return change
    raise InputError(
        "“{words}” is not a valid change. The nearest valid form is “{example}”; "
        "“visformer render --help” lists all.",
        words=short(words, 40),
        example=get_close_matches(words, examples(), 1, 0)[0],
    )
