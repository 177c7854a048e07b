"""Pauses: where a long pass through a model is looked at, and may be ended.

A pass over thousands of tokens takes seconds, most of them in the products of a layer.
These compute it in blocks, and pause between them. What runs the pass says what is done
there; by default, nothing is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any


class InterruptedPass(BaseException):
    """Raised by who looks at a pass, to end it."""


@dataclass(frozen=True, slots=True)
class _Watch:
    """Who looks at a pass, and which part of it runs."""

    look: Callable[[float | None], object] = lambda share: None
    told: bool = False  # whether it is said how much is done
    start: float = 0.0
    size: float = 1.0


_WATCH = ContextVar("_WATCH", default=_Watch())  # noqa: B039 - it is frozen


def pause(share: float | None = None) -> None:
    """Let who runs the pass look: this share, 0 to 1, of its current part is done."""
    watch = _WATCH.get()
    said = watch.told and share is not None
    watch.look(watch.start + (share or 0.0) * watch.size if said else None)


@contextmanager
def part(at: int, of: int) -> Iterator[None]:
    """Run part ``at``, from 0, of so many equal ones; ends with a pause."""
    watch = _WATCH.get()
    size = watch.size / of
    with _watched(start=watch.start + at * size, size=size):
        yield
        pause(1.0)


@contextmanager
def looked_at(look: Callable[[float | None], object]) -> Iterator[None]:
    """Call ``look`` at every pause; an exception that it raises ends the pass.

    It gets the share that is done, 0 to 1, of work within ``telling``, or None.
    """
    with _watched(look=look, told=False):
        yield


@contextmanager
def telling() -> Iterator[None]:
    """Say at every pause how much of what is run here is done."""
    with _watched(told=True, start=0.0, size=1.0):
        yield


@contextmanager
def _watched(**changed: Any) -> Iterator[None]:
    token = _WATCH.set(replace(_WATCH.get(), **changed))
    try:
        yield
    finally:
        _WATCH.reset(token)
