"""What the engine and the user were asked: not yet answered, or answered for good."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from visformer.engine.messages import Decode, Open, Parameters, Request, SearchBeams
from visformer.session.recipe import Recipe
from visformer.values.beam_search import BeamSearch
from visformer.values.questions import Overrides
from visformer.values.step import Strategy

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

    @property
    def decoding(self) -> bool:
        """Whether a decode has not ended yet."""
        decode = self.newest(Decode)
        return decode is not None and not decode.ended

    @property
    def side_requests(self) -> bool:
        """Whether an answer to a side request is still to come."""
        return any(
            sent.request.is_side_request and not sent.ended for sent in self.sent
        )

    @property
    def weights(self) -> bool:
        """Whether a layer's weights are still to come."""
        asked = self.newest(Parameters)
        return asked is not None and not asked.ended

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
    return sent.request.is_side_request


def is_opening(sent: Sent) -> bool:
    """Tell whether a request opens a checkpoint."""
    return isinstance(sent.request, Open)


def is_question(sent: Sent) -> bool:
    """Tell whether a request is one that a newer one supersedes."""
    return not is_side_request(sent) and not is_opening(sent)


def _sort(request: Request) -> type[Request]:
    alone = request.is_side_request or isinstance(request, Open)
    return type(request) if alone else Request


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenWish:
    """A checkpoint that is to be opened."""

    request: Open
    certain: Overrides | None = None  # given now, if earlier answers are used too
    then: str = ""  # what is translated once it is open
    resume: Recipe | None = None  # what is worked on once it is open
    keys: tuple[int, ...] = ()  # of the runs in that session's file


@dataclass(frozen=True, slots=True, kw_only=True)
class LensAsked:
    """What the lens was requested for."""

    of: tuple[object, ...]  # what the Trace is made of, compared by identity
    rows: tuple[int, ...]
    strategy: Strategy


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchAsked:
    """A beam search that was requested of an open model, and what came of it."""

    opened: int  # the number of the model's opening
    request: SearchBeams
    found: BeamSearch | None = None  # None: not yet, or it was stopped or refused
    reason: str = ""  # why it was refused

    def is_of(self, opened: int, request: SearchBeams) -> bool:
        """Tell whether it is this search of this model."""
        return (self.opened, self.request) == (opened, request)


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
