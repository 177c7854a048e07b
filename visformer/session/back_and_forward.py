"""Back and Forward through the places where the user has looked."""

from __future__ import annotations

from dataclasses import replace

from visformer.session.places import Place, Trail
from visformer.session.state import Next, State


def back(state: State) -> Next:
    """Go to the place before the current one."""
    return _gone(state, state.trail.go_back(state.place, state.trace))


def forward(state: State) -> Next:
    """Go to the place that Back came from."""
    return _gone(state, state.trail.go_forward(state.place, state.trace))


def ways(state: State) -> tuple[bool, bool]:
    """Tell whether Back and Forward lead anywhere."""
    here = state.place, state.trace
    return (
        state.trail.go_back(*here) is not None,
        state.trail.go_forward(*here) is not None,
    )


def _gone(state: State, to: tuple[Place, Trail] | None) -> Next:
    if to is None:
        return Next(state)
    place, trail = to
    return Next(replace(state, trail=trail, **place._asdict()))
