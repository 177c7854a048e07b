"""Trail: where the user has looked, for Back and Forward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from visformer.values.facts import Kind
from visformer.values.trace import Trace

MOST_PLACES = 100  # that can be gone back to


class Place(NamedTuple):
    """A tab, and what it is turned to."""

    tab: str
    kind: Kind
    layer: int
    head: int
    step: int


def limited(place: Place, trace: Trace) -> Place:
    """Limit a place to what a Trace has; no step comes before the end of its prompt."""
    kind = place.kind if place.kind in trace.kinds else trace.kinds[-1]
    return Place(
        place.tab,
        kind,
        max(0, min(place.layer, trace.layers(kind) - 1)),
        max(0, min(place.head, trace.heads(kind) - 1)),
        max(trace.prompt, min(place.step, len(trace))),
    )


@dataclass(frozen=True, slots=True)
class Trail:
    """Trail before and after the current one, the nearest last."""

    back: tuple[Place, ...] = ()
    forward: tuple[Place, ...] = ()

    def left(self, place: Place, now: Place) -> Trail:
        """Return them after the user has gone from a place to another.

        Step after step counts as one way: Back leads to where it began.
        """
        if place == now:
            return self
        walked = _only_steps(place, now) and abs(now.step - place.step) == 1
        if walked and self.back and _only_steps(self.back[-1], place):
            return Trail(self.back)
        return Trail((*self.back, place)[-MOST_PLACES:])

    def go_back(self, now: Place, trace: Trace | None) -> tuple[Place, Trail] | None:
        """Return the place before ``now`` that differs from it, and what is left."""
        found = _nearest(self.back, now, trace)
        if found is None:
            return None
        place, back = found
        return place, Trail(back, (*self.forward, now))

    def go_forward(self, now: Place, trace: Trace | None) -> tuple[Place, Trail] | None:
        """Return the place after ``now`` that differs from it, and what is left."""
        found = _nearest(self.forward, now, trace)
        if found is None:
            return None
        place, forward = found
        return place, Trail((*self.back, now), forward)


def _only_steps(one: Place, other: Place) -> bool:
    return one[:-1] == other[:-1] and one.step != other.step


def _nearest(
    places: tuple[Place, ...], now: Place, trace: Trace | None
) -> tuple[Place, tuple[Place, ...]] | None:
    """Return the last place that the Trace has and that is not ``now``."""
    for at in range(len(places) - 1, -1, -1):
        place = places[at] if trace is None else limited(places[at], trace)
        if place != now:
            return place, places[:at]
    return None
