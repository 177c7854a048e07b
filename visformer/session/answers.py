"""What was answered about checkpoints, kept from one start to the next."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from visformer.values.questions import Overrides

MOST = 100  # checkpoints remembered


@dataclass(frozen=True, slots=True)
class Answers:
    """What was answered about each path, and the digest of the weights it was for."""

    known: Mapping[str, tuple[str, Overrides]] = field(default_factory=dict)

    def about(self, path: str) -> Overrides | None:
        """Return what was answered about a path; None if nothing was asked."""
        return self.known[path][1] if path in self.known else None

    def changed(self, path: str, digest: str) -> bool:
        """Tell whether a path has other weights than its answers were given for."""
        return path in self.known and self.known[path][0] != digest

    def keep(self, path: str, digest: str, given: Overrides) -> Answers:
        """Add what was answered about a path; the oldest are dropped."""
        others = [item for item in self.known.items() if item[0] != path]
        return Answers(dict([*others, (path, (digest, given))][-MOST:]))

    def text(self) -> str:
        """Return them as the text that ``read`` reads."""
        return json.dumps(dict(self.known))


def read(text: str) -> Answers:
    """Read what ``text`` returned; malformed entries are skipped."""
    try:
        written = json.loads(text or "{}")
    except ValueError:
        return Answers()
    known = {}
    for path, entry in written.items() if isinstance(written, dict) else ():
        if _is_entry(entry):
            digest, given = entry
            known[path] = (digest, tuple((name, value) for name, value in given))
    return Answers(known)


def _is_entry(entry: Any) -> bool:
    match entry:
        case [str(), [*given]]:
            return all(_is_answer(pair) for pair in given)
    return False


def _is_answer(pair: Any) -> bool:
    match pair:
        case [str(), bool() | int() | float() | str()]:
            return True
    return False
