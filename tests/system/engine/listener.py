"""What tests of a real engine share: what it says, and what is asked of it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from visformer.engine.handle import Engine
from visformer.engine.messages import Decode, Event, Finished
from visformer.engine.mirror import Decoded

SECONDS = 60


class Listener:
    """Collects events; waits for the one that is looked for."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._arrived = threading.Condition()

    def __call__(self, event: Event) -> None:
        with self._arrived:
            self.events.append(event)
            self._arrived.notify_all()

    def wait(self, wanted: Callable[[Event], bool]) -> Event:
        """Return the first event that is wanted, and forget it and those before."""
        with self._arrived:
            assert self._arrived.wait_for(
                lambda: any(map(wanted, self.events)), SECONDS
            )
            at = next(i for i, event in enumerate(self.events) if wanted(event))
            found, self.events = self.events[at], self.events[at + 1 :]
            return found

    def gather(self, *kinds: type) -> list[Event]:
        """Return all events once there is one of each of these kinds; forget them."""
        with self._arrived:
            assert self._arrived.wait_for(
                lambda: {type(event) for event in self.events} >= set(kinds), SECONDS
            )
            found, self.events = self.events, []
            return found

    def wait_for(self, *kinds: type) -> Event:
        """Return the first event of these kinds."""
        return self.wait(lambda event: isinstance(event, kinds))


def request(source: str, **given: object) -> Decode:
    return Decode(source=source, **given)  # type: ignore[arg-type]


def process_id(handle: Engine) -> int:
    """Return that of the process that works."""
    return int(handle._current.process.pid)


def decoded(listener: Listener, number: int) -> Decoded:
    """Return the last Trace of a finished decode."""
    last: list[Decoded] = []

    def done(event: Event) -> bool:
        if isinstance(event, Decoded) and event.number == number:
            last.append(event)
        return isinstance(event, Finished) and event.number == number

    listener.wait(done)
    return last[-1]
