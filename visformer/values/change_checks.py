"""The fields of a change to a run, each checked when the change is made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from visformer.arguments import one_of, real_number, whole_number, wrong_type
from visformer.language import _

FARTHEST = 1 << 20  # positions that a diagonal can be moved by


def check_fields(change: Any, choices: Iterable[str] = ()) -> None:
    """Raise InputError or TypeError unless every field of a change can be had.

    ``choices`` are of its ``kind`` or ``form``. numpy's numbers become Python's.
    """
    for name in (field.name for field in fields(change)):
        value = getattr(change, name)
        if name in ("kind", "form"):
            one_of(name, value, choices)
        elif name == "allowed":
            if not isinstance(value, bool):
                raise wrong_type(name, value, _("True or False"))
        elif name == "amount" or (name == "factor" and value is not None):
            real_number(name, value, _("a number"))
        elif value is not None or name not in ("layer", "offset", "factor"):
            least = -FARTHEST if name == "offset" else 0
            number = whole_number(name, value, least=least, most=2**63 - 1)
            object.__setattr__(change, name, number)
