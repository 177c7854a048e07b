"""Long work of a generator, done at once."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

Result = TypeVar("Result")


def drained(work: Generator[Any, None, Result]) -> Result:
    """Return what it returns in the end."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            made: Result = end.value
            return made
