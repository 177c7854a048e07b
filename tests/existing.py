"""What must be there, told to the type checker in the same breath."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def existing(value: T | None) -> T:
    """Return a value that is not None."""
    assert value is not None
    return value
