"""What was derived from the Traces of one run, kept for the next picture."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, TypeVar

Made = TypeVar("Made")

# numbers kept of a run, 160 MiB: weights of 2 heads of 4,096 tokens, or 40 of 1,024
MOST_KEPT = 40 << 20


def same(one: tuple[object, ...], other: tuple[object, ...]) -> bool:
    """Tell whether two tuples hold the same objects."""
    pairs = zip(one, other, strict=False)
    return len(one) == len(other) and all(a is b for a, b in pairs)


class _Entry(NamedTuple):
    of: tuple[object, ...]
    value: Any
    numbers: int


class Memo:
    """Results by the objects that they were derived from, and by name.

    Those objects are compared by identity, and held, so that no other can take their
    place. What was longest unused goes first when there is too much.
    """

    def __init__(self, most: int = MOST_KEPT) -> None:
        """``most``: how many numbers are kept."""
        self._most = most
        self._total = 0  # numbers that are kept
        self._kept: dict[Hashable, _Entry] = {}

    def find(self, of: tuple[object, ...], name: Hashable) -> Any:
        """Return what was kept by this name of just these objects; else None."""
        key = (*map(id, of), name)
        kept = self._kept.pop(key, None)
        if kept is None:
            return None
        self._kept[key] = kept  # the last one used is the last to go
        return kept.value

    def made(
        self, of: tuple[object, ...], name: Hashable, make: Callable[[], Made]
    ) -> Made:
        """Return what is kept, or make it, and keep it: a result without numbers."""
        found: Made | None = self.find(of, name)
        if found is None:
            found = make()
            self.keep(of, name, found, 0)
        return found

    def keep(
        self, of: tuple[object, ...], name: Hashable, value: object, numbers: int
    ) -> None:
        """Keep a result, in place of the one of this name; ``numbers``: its size."""
        key = (*map(id, of), name)
        self._drop(key)
        while self._kept and self._total + numbers > self._most:
            self._drop(next(iter(self._kept)))
        self._kept[key] = _Entry(of, value, numbers)
        self._total += numbers

    def clear(self) -> None:
        """Forget everything, such as words in another language."""
        self._kept.clear()
        self._total = 0

    def _drop(self, key: Hashable) -> None:
        if key in self._kept:
            self._total -= self._kept.pop(key).numbers

    def __reduce__(self) -> tuple[type[Memo], tuple[int]]:
        """Pickle it empty: the objects on the other side are others."""
        return Memo, (self._most,)
