"""What the engine and the user were asked: not yet answered, or answered for good."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from visformer.engine.messages import Decode, Open, Request, SideRequest
from visformer.session.recipe import Recipe
from visformer.values.questions import Overrides

MOST = 100  # checkpoints whose answers are remembered


@dataclass(frozen=True, slots=True)
class Sent:
    """A request, by the number that its answers carry."""

    number: int
    request: Request
    ended: bool = False  # answered completely; a replaced engine may answer it again


@dataclass(frozen=True, slots=True)
class Awaiting:
    """The requests whose answers are wanted; any other answer is late."""

    sent: tuple[Sent, ...] = ()

    def get(self, number: int) -> Sent | None:
        """Return the request with a number; None if its answers are late."""
        return next((sent for sent in self.sent if sent.number == number), None)

    def newest(self, kind: type[Request]) -> Sent | None:
        """Return the request of a class, ended or not."""
        return next((s for s in self.sent if isinstance(s.request, kind)), None)

    def waits(self, kind: type[Request]) -> bool:
        """Tell whether the answer to a request of a class is still to come."""
        return any(isinstance(s.request, kind) and not s.ended for s in self.sent)

    @property
    def decoding(self) -> bool:
        """Whether a decode has not ended yet."""
        return self.waits(Decode)

    @property
    def side_requests(self) -> bool:
        """Whether an answer to a side request is still to come."""
        return self.waits(SideRequest)

    def add(self, number: int, request: Request) -> Awaiting:
        """Add a request; it supersedes those of its own group.

        An opening supersedes openings, a side request those of its class, and any
        other request all others.
        """

        def other(sent: Sent) -> bool:
            return _sort(sent.request) != _sort(request)

        return Awaiting((*filter(other, self.sent), Sent(number, request)))

    def end(self, number: int) -> Awaiting:
        """Mark a request as answered completely."""
        return Awaiting(
            tuple(replace(s, ended=s.ended or s.number == number) for s in self.sent)
        )

    def without(self, drop: Callable[[Sent], bool]) -> Awaiting:
        """Stop waiting for some of them."""
        return Awaiting(tuple(sent for sent in self.sent if not drop(sent)))


def is_side_request(sent: Sent) -> bool:
    """Tell whether a request is answered during a decode."""
    return isinstance(sent.request, SideRequest)


def is_opening(sent: Sent) -> bool:
    """Tell whether a request opens a checkpoint."""
    return isinstance(sent.request, Open)


def is_question(sent: Sent) -> bool:
    """Tell whether a request is one that a newer one supersedes."""
    return not is_side_request(sent) and not is_opening(sent)


def _sort(request: Request) -> type[Request]:
    alone = isinstance(request, SideRequest | Open)
    return type(request) if alone else Request


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenWish:
    """A checkpoint that is to be opened."""

    request: Open
    certain: Overrides | None = None  # given now, if earlier answers are used too
    then: str = ""  # what is translated once it is open
    resume: Recipe | None = None  # what is worked on once it is open
    keys: tuple[int, ...] = ()  # of the runs in that session's file


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
        """Return them as the text that ``read_answers`` reads."""
        return json.dumps(dict(self.known))


def read_answers(text: str) -> Answers:
    """Read what ``Answers.text`` returned; malformed entries are skipped."""
    known = {}
    try:
        written = json.loads(text or "{}")
    except ValueError:
        return Answers()
    for path, entry in written.items() if isinstance(written, dict) else ():
        with contextlib.suppress(msgspec.ValidationError):
            known[path] = msgspec.convert(entry, tuple[str, Overrides])
    return Answers(known)
