"""Events: what happens to the engine's processes, beside their answers."""

from __future__ import annotations

from dataclasses import dataclass

from visformer.engine.messages import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaced:
    """The working process ended and another one took over; nothing shown was lost."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Silent:
    """The engine has not answered for long; without a reason: it answers again."""

    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """The open model is lost: its file can no longer be opened, or has changed."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Down:
    """No process could be started; the next request tries again."""

    reason: str


Event = Answer | Replaced | Silent | Closed | Down
