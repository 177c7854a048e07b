"""The fields of changes: what values each takes, and how its text form writes them."""

import json
import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Annotated, Any, NamedTuple

from visformer.arguments import one_of, real_number, whole_number, wrong_type
from visformer.errors import InputError
from visformer.language import _
from visformer.values.facts import KINDS, Kind


class FieldText(NamedTuple):
    """How one field is written, and what it takes."""

    pattern: str  # a regular expression of its text
    read: Callable[[str], Any]
    write: Callable[[Any], str]
    check: Callable[[str, Any], Any]  # its name, a value -> the value; or it raises
    where: bool = False  # it says where something is changed, not to what


def or_none(field: FieldText, none: str = "off") -> FieldText:
    """Return a field that takes None as well, and what that is called."""
    return field._replace(
        pattern=f"{none}|{field.pattern}",
        read=lambda text: None if text == none else field.read(text),
        write=lambda value: none if value is None else field.write(value),
        check=lambda name, value: None if value is None else field.check(name, value),
    )


def one_word(choices: Iterable[str], *, where: bool = False) -> FieldText:
    """Return a field that takes one of some words."""
    known = tuple(choices)
    check = partial(one_of, choices=known)
    return FieldText("|".join(map(re.escape, known)), str, str, check, where)


def whole(least: int = 0) -> Callable[[str, Any], int]:
    """Return the check of a whole number."""
    return partial(whole_number, least=least, most=2**63 - 1)


def _written(number: float) -> str:
    brief = f"{number:g}"
    return brief if float(brief) == number else repr(number)


def _real(name: str, value: object) -> float:
    return real_number(name, value, _("a number"))


def truth(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise wrong_type(name, value, _("True or False"))
    return value


def _layer(text: str) -> int:
    number = int(text.lstrip(" @Llayer"))
    if number == 0:
        raise InputError("Layers count from 1: there is no layer 0.")
    return number - 1


def _head(text: str) -> int:
    number = int(text.removeprefix("H"))
    if number == 0:
        raise InputError("Heads count from 1: there is no head 0.")
    return number - 1


def _unquoted(text: str) -> str:
    try:
        return str(json.loads(text)) if text.startswith('"') else text
    except ValueError:  # a backslash that is one, as in a path of Windows
        return text.strip('"')


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise wrong_type(name, value, _("a text"))
    return value


def _named(name: str) -> str:
    return name if re.fullmatch(_BARE, name) else QUOTED.write(name)


QUOTED = FieldText(
    *(r'"(?:[^"\\]|\\.)*"', _unquoted, partial(json.dumps, ensure_ascii=False), _text)
)
_BARE = r'[^\s;@"]+'
RUN = QUOTED._replace(pattern=rf"{QUOTED.pattern}|{_BARE}", write=_named)
NUMBER = FieldText(r"[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?|-?inf", float, _written, _real)
ROW = FieldText(
    r"[1-9]\d*", lambda text: int(text) - 1, lambda row: f"{row + 1}", whole(), True
)
LAYER = FieldText(
    r" @ (?:L|layer )\d+", _layer, lambda layer: f" @ L{layer + 1}", whole(), True
)
HEAD = FieldText(r"H\d+", _head, lambda head: f"H{head + 1}", whole(), True)
_SWITCH = FieldText(
    "on|off", "on".__eq__, lambda allowed: "on" if allowed else "off", truth
)
_SEED = FieldText(r"\d+", int, str, whole())

# types of the fields; tokens and layers count from 0, and in texts from 1
RowField = Annotated[int, ROW]  # a token
LayerField = Annotated[int | None, or_none(LAYER, "")]  # None: every layer
HeadField = Annotated[int | None, or_none(HEAD, "")]  # None: every head
KindField = Annotated[Kind, one_word(KINDS, where=True)]
SwitchField = Annotated[bool, _SWITCH]
NumberField = Annotated[float, NUMBER]
SeedField = Annotated[int, _SEED]
