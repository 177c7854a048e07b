"""What was answered about checkpoints, kept from one start to the next."""

from __future__ import annotations

import json
from typing import Any, Protocol

from visformer.values.questions import Overrides

MOST = 100  # checkpoints remembered


class Store(Protocol):
    """Where texts are kept from one start to the next."""

    def text(self, key: str, default: str) -> str:
        """Return a text."""

    def keep(self, key: str, value: object) -> None:
        """Remember a value."""


class Answers:
    """What was told of each path, and the digest of the weights it was told of."""

    def __init__(self, memory: Store | None = None) -> None:
        self._memory = memory
        self._known: dict[str, tuple[str, Overrides]] = {}
        if memory is not None:
            self._known = _read(memory.text("answers", ""))

    def told(self, path: str) -> Overrides | None:
        """Return what was told of a path; None where nobody was asked."""
        return self._known[path][1] if path in self._known else None

    def changed(self, path: str, digest: str) -> bool:
        """Tell whether a path now holds other weights than its answers were for."""
        return path in self._known and self._known[path][0] != digest

    def keep(self, path: str, digest: str, told: Overrides) -> None:
        """Remember what was told of a path."""
        self._known.pop(path, None)
        self._known[path] = (digest, told)
        for old in list(self._known)[:-MOST]:
            del self._known[old]
        if self._memory is not None:
            self._memory.keep("answers", json.dumps(self._known))


def _read(text: str) -> dict[str, tuple[str, Overrides]]:
    """Read what ``keep`` wrote; what another hand changed is passed over."""
    try:
        written = json.loads(text or "{}")
    except ValueError:
        return {}
    made = {}
    for path, entry in written.items() if isinstance(written, dict) else ():
        if _is_entry(entry):
            digest, told = entry
            made[path] = (digest, tuple((name, value) for name, value in told))
    return made


def _is_entry(entry: Any) -> bool:
    match entry:
        case [str(), [*told]]:
            return all(_is_answer(pair) for pair in told)
    return False


def _is_answer(pair: Any) -> bool:
    match pair:
        case [str(), bool() | int() | float() | str()]:
            return True
    return False
