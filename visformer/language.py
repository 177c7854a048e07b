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

import gettext
import locale
import os
import re
import sys
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from visformer.paths import resource

DOMAIN = "visformer"
# around a name in Arabic or Hebrew, so that the words beside it stay in their order
ISOLATE, END_ISOLATE = "\u2068", "\u2069"
VARIABLE = "VISFORMER_LANGUAGE"  # inherited by the engine's process
LANGUAGES = {"en": "English", "zh": "中文"}  # to choose from, each as it names itself
_TRADITIONAL = {"tw", "hk", "mo", "hant"}  # Chinese that is written otherwise
_WIDE = "[\u3001-\u303f\u4e00-\u9fff\uff00-\uffef“”]"  # no blank is between two of them
_EDGE = "\ue000"  # for a moment, around a field whose text may be such
_GAP = re.compile(f"(?<={_WIDE})(?:{_EDGE} {_EDGE}?| {_EDGE})(?={_WIDE})")

_catalogue = gettext.NullTranslations()
_tag = "en"


def use(language: str = "en") -> None:
    """Speak a language of the catalogue; one that has none is English.

    Names of locales are understood: zh_CN.UTF-8 and zh-Hans are ``"zh"``. Processes
    started from here on speak it as well.
    """
    os.environ[VARIABLE] = language
    _speak(language)


def tag() -> str:
    """Return the language in use as HTML and SVG name it, such as ``"zh-CN"``."""
    return _tag


def _speak(name: str) -> None:
    global _catalogue, _tag
    if not re.fullmatch(r"\w[\w.@-]*", name):  # a path to a stranger's catalogue
        name = "en"
    first, *rest = re.split(r"[-_.@]", name.lower())
    chinese = first == "zh" and _TRADITIONAL.isdisjoint(rest)
    found = gettext.find(DOMAIN, resource("languages"), ["zh" if chinese else name])
    if found is None or (first == "zh" and not chinese):
        _catalogue, _tag = gettext.NullTranslations(), "en"
        return
    with open(found, "rb") as file:
        _catalogue = gettext.GNUTranslations(file)
    _tag = "zh-CN" if chinese else name.replace("_", "-")


def _of_the_system() -> str:
    if sys.platform == "win32":
        import ctypes

        code = ctypes.windll.kernel32.GetUserDefaultUILanguage()
        return locale.windows_locale.get(code, "")
    names = map(os.environ.get, ("LC_ALL", "LC_MESSAGES", "LANG"))
    return next(filter(None, names), "")


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


def clauses(parts: Iterable[str]) -> str:
    """Return parts of a sentence in one line, without those that are empty."""
    return p_("between parts of a sentence", "; ").join(filter(None, parts))


def sentences(parts: Iterable[str]) -> str:
    """Return whole sentences in one line, without those that are empty."""
    text = "\0".join(filter(None, parts))
    return re.sub("(?<=[。！？])\0", "", text).replace("\0", " ")


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
    said = text.format(**{name: _written(value) for name, value in fields.items()})
    return _GAP.sub("", said).replace(_EDGE, "") if _EDGE in said else said


def _written(value: object) -> object:
    if isinstance(value, float):
        return _Number(value)
    if isinstance(value, str) and not value.isascii():
        if _reads_leftwards(value):
            return f"{ISOLATE}{value}{END_ISOLATE}"
        if _tag == "zh-CN":
            return f"{_EDGE}{value}{_EDGE}"
    return value


@lru_cache(maxsize=1024)  # of tokens and names, which recur
def _reads_leftwards(text: str) -> bool:
    """Tell whether a text would turn around what stands beside it in a sentence."""
    return any(unicodedata.bidirectional(c) in ("R", "AL") for c in text)


def signed(text: str) -> str:
    """Return a formatted number with U+2212 for minus, and with NaN and ∞."""
    return text.replace("-", "−").replace("nan", "NaN").replace("inf", "∞")


def N_(message: str, /) -> str:
    """Mark a sentence for the catalogue that ``_`` translates later."""
    return message


_speak(os.environ.get(VARIABLE) or _of_the_system())
