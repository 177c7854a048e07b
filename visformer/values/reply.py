"""What was asked of the engine about something, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from visformer.values.memo import same

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Reply(Generic[T]):
    """The reply to what was asked: still awaited, a value, or why there is none."""

    of: tuple[object, ...]  # what it was asked of, compared by identity
    about: Any = ""  # what was asked of that, compared by equality
    value: T | None = None
    reason: str = ""  # why it was refused
    arrived: bool = False  # even without a value: there is none

    @property
    def settled(self) -> bool:
        """Whether it is no longer awaited."""
        return self.arrived or bool(self.reason)

    def is_of(self, of: tuple[object, ...], about: object = "") -> bool:
        """Tell whether it is the reply to this question."""
        return self.about == about and same(self.of, of)
