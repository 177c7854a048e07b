"""The language of every sentence that people see: the one door to the catalogue.

A sentence is one whole template with named fields, never glued from halves, so that a
translation may order them as its language does. ``_`` translates at once, and so do our
errors; a table made when a module is imported marks its sentences with ``N_`` and
translates them with ``_`` where they are shown. A word of two meanings is told apart by
a context, ``p_("keyboard", "Keys")``; a comment ``# i18n: …`` on the line before a call
explains to translators what is short. The template in the code is English and
the key of the catalogue (``resources/languages``); tokens, formulas and names of
options are never translated.
"""

from __future__ import annotations

import gettext
import os
import unicodedata
from collections.abc import Iterable

from visformer.paths import resource

DOMAIN = "visformer"
# around a name in Arabic or Hebrew, so that the words beside it stay in their order
ISOLATE, END_ISOLATE = "\u2068", "\u2069"
VARIABLE = "VISFORMER_LANGUAGE"  # inherited by the engine's process

_catalogue = gettext.NullTranslations()


def use(language: str = "") -> None:
    """Speak a language of the catalogue, such as ``"fr"``, or English for ``""``.

    A language that has no catalogue is English too. Processes started from here on
    speak it as well.
    """
    global _catalogue
    os.environ[VARIABLE] = language
    _catalogue = gettext.translation(
        DOMAIN, resource("languages"), [language] if language else [], fallback=True
    )


def _(message: str, /, **fields: object) -> str:
    """Return a sentence in the language in use, its ``{fields}`` filled in.

    A literal brace is doubled where there are fields, as in ``str.format``.
    """
    text = _catalogue.gettext(message)
    return _filled(text, fields) if fields else text


def p_(context: str, message: str, /) -> str:
    """Return a word that has other meanings elsewhere; ``context`` tells which."""
    return _catalogue.pgettext(context, message)


def listed(parts: Iterable[str]) -> str:
    """Return parts as a list in one line."""
    return p_("between the parts of a list", ", ").join(parts)


def ngettext(one: str, many: str, n: int, /, **fields: object) -> str:
    """Return the form of a sentence that suits an amount; ``{n}`` is that amount."""
    return _filled(_catalogue.ngettext(one, many, n), {"n": n, **fields})


class _Number(float):
    """A number as a template rounds it: with U+2212 for minus, and ∞ and NaN.

    Without a format it is quoted, as it may be typed, and stays as Python writes it.
    """

    def __format__(self, how: str) -> str:
        written = super().__format__(how)
        return signed(written) if how else written


def _filled(text: str, fields: dict[str, object]) -> str:
    return text.format(**{name: _written(value) for name, value in fields.items()})


def _written(value: object) -> object:
    if isinstance(value, float):
        return _Number(value)
    if isinstance(value, str) and not value.isascii() and _reads_leftwards(value):
        return f"{ISOLATE}{value}{END_ISOLATE}"
    return value


def _reads_leftwards(text: str) -> bool:
    """Tell whether a text would turn around what stands beside it in a sentence."""
    return any(unicodedata.bidirectional(c) in ("R", "AL") for c in text)


def signed(text: str) -> str:
    """Return a formatted number with U+2212 for minus, and with NaN and ∞."""
    return text.replace("-", "−").replace("nan", "NaN").replace("inf", "∞")


def N_(message: str, /) -> str:
    """Mark a sentence for the catalogue that ``_`` translates later."""
    return message


use(os.environ.get(VARIABLE, ""))
