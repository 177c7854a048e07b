"""The State's record of requests that the engine has yet to answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from visformer.engine.messages import Decode, Open, Parameters, Request


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
