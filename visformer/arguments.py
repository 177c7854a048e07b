"""What callers pass: accepted where it is clear, refused in one sentence elsewhere.

A wrong type is a TypeError, a wrong value an InputError; both name the argument, what
was given and what is allowed.
"""

import math
import numbers
import operator
import os
from collections.abc import Iterable, Mapping, Sequence, Set
from io import IOBase
from pathlib import Path
from typing import Any, TypeGuard

from visformer.errors import InputError
from visformer.files import short
from visformer.language import _

MOST = 3.4e38  # what float32 holds
Nth = int | Sequence[int] | slice | None  # one of several, some of them, or all


def wrong_type(argument: str, given: object, allowed: str) -> TypeError:
    """Return the error of an argument that is of no kind that is allowed."""
    return TypeError(wrong_words(argument, given, allowed))


def wrong_value(argument: str, given: object, allowed: str) -> InputError:
    """Return the error of an argument whose value is not allowed."""
    return InputError(wrong_words(argument, given, allowed))


def wrong_words(argument: str, given: object, allowed: str) -> str:
    """Say what an argument is, and what it must be."""
    return _(
        "{argument} is {given}, but must be {allowed}.",
        argument=argument,
        given=written(given),
        allowed=allowed,
    )


def written(given: object) -> str:
    """Write a value as Python does where that is short, else its type."""
    if given is None or isinstance(given, str | bytes | numbers.Number | tuple | list):
        return short(repr(given), 40)
    return _("of type {type}", type=type(given).__name__)


def whole_number(
    argument: str, given: object, *, least: int = 0, most: int | None = None
) -> int:
    """Return a whole number, of Python's or numpy's; an error for anything else."""
    if type(given) is int and least <= given <= (given if most is None else most):
        return given
    allowed = _("a whole number from {least} on", least=least)
    if most is not None:
        allowed = _("a whole number from {least} to {most}", least=least, most=most)
    try:
        number = operator.index(given)  # type: ignore[arg-type]
    except (TypeError, ValueError, RuntimeError):  # a tensor of several raises those
        raise wrong_type(argument, given, allowed) from None
    if isinstance(given, bool):
        raise wrong_type(argument, given, allowed)
    if number < least or (most is not None and number > most):
        raise wrong_value(argument, number, allowed)
    return number


def place(argument: str, given: object, count: int) -> int:
    """Return a number from 0 below ``count``; negative ones count from the end."""
    return whole_number(argument, given, least=-count, most=count - 1) % count


def places(argument: str, given: object, count: int) -> int | list[int]:
    """Return one place, or several: a list or a slice of them; None is all."""
    if given is None or isinstance(given, slice):
        try:
            given = [*range(count)][given or slice(None)]
        except (TypeError, ValueError):  # a slice of no numbers
            allowed = _("a whole number, a list of them or a slice")
            raise wrong_type(argument, given, allowed) from None
    if not is_several(given) or getattr(given, "ndim", 1) == 0:
        return place(argument, given, count)
    several = [place(argument, one, count) for one in given]
    if not several:
        raise wrong_value(argument, several, _("at least one number"))
    return several


def is_several(given: object) -> TypeGuard[Iterable[Any]]:
    """Whether a value is several in an order: no text, set, dict or file."""
    alone = isinstance(given, str | bytes | Mapping | Set | IOBase)
    return isinstance(given, Iterable) and not alone


def name_of(given: object) -> str:
    """Return a name as it was given, shortened; of what is none, its type."""
    return short(given) if isinstance(given, str) else written(given)


def real_number(argument: str, given: object, allowed: str) -> float:
    """Return a number that float32 can hold; -inf too. An error for anything else."""
    if isinstance(given, bool) or not isinstance(given, numbers.Real):
        raise wrong_type(argument, given, allowed)
    try:
        number = float(given)
    except OverflowError:
        number = math.inf
    if not (abs(number) <= MOST or number == -math.inf):  # NaN is neither
        raise wrong_value(argument, given, allowed)
    return number


def one_of(argument: str, given: object, choices: Iterable[str]) -> str:
    """Return a word that is among the choices; an error for anything else."""
    known = list(choices)
    if isinstance(given, str) and given in known:
        return given
    allowed = _("one of {choices}", choices=", ".join(known))
    wrong = wrong_value if isinstance(given, str) else wrong_type
    raise wrong(argument, given, allowed)


def as_path(argument: str, given: object) -> Path:
    """Return a path, ``~`` expanded; an error for what is none or empty."""
    allowed = _("the path of a file or folder")
    if not isinstance(given, str | os.PathLike):
        raise wrong_type(argument, given, allowed)
    text: Any = os.fspath(given)
    if not isinstance(text, str):
        raise wrong_type(argument, text, allowed)
    if not text.strip():
        raise wrong_value(argument, text, allowed)
    try:
        return Path(text).expanduser()
    except RuntimeError:  # no such user
        return Path(text)
