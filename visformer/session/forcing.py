"""Tokens that are not the model's own choice: forced by the user, fed by a reference.

Every function here is pure, as those of ``runs``.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from visformer.pictures.attention.strips import source_line
from visformer.pictures.teacher_forcing import is_taught
from visformer.pictures.words.choices import FED
from visformer.session.run import Wish
from visformer.session.runs import decode, fixed_words, remembered
from visformer.session.state import Next, State
from visformer.values.step import Choice, step_origins
from visformer.values.strategy import GREEDY
from visformer.values.trace import Trace


def force(state: State, id: int) -> Next:
    """Replace the current step's choice; what follows is decoded again."""
    if state.visible is None or not state.step or fixed_words(state):
        return Next(state)
    if source_line(state.visible) != state.wish.sentence:
        return Next(state)  # another sentence is on its way: the choice is not of it
    if not state.recorded and state.visible.intervention != state.intervention:
        return Next(state)  # another run is on its way: the choice is not of it
    choices = [step.choice for step in state.visible.steps[:-1]]
    if id != own_choice(state):
        choices.append(Choice(id, "forced"))
    while choices and choices[-1].origin not in FED:  # the model makes these again
        choices.pop()
    wish = replace(state.wish, fed=not state.wish.reference, prefix=tuple(choices))
    return decode(replace(remembered(state, "token"), wish=wish), state.step)


def teach(state: State, *, fed: bool) -> Next:
    """Feed the reference, or let the model decode; the cursor stays at its step.

    The reference of a recorded run is its text.
    """
    trace, wish = state.trace, state.wish
    if trace is None or fixed_words(state) or fed == is_taught(trace):
        return Next(state)
    reference = wish.reference or (trace.text if is_taught(trace) else "")
    if not reference:
        return Next(state)
    wish = replace(wish, reference=reference, fed=fed, prefix=())
    state = replace(remembered(state, "reference"), wish=wish, beside=0)
    return decode(state, max(1, state.step))


def drop_reference(state: State) -> Next:
    """Forget the reference; where it was fed, the model decodes instead."""
    wish = replace(state.wish, reference="", fed=True)
    if state.wish == wish or fixed_words(state):
        return Next(state)
    state, was_fed = remembered(state, "reference"), state.wish.fed
    if not was_fed:
        return Next(replace(state, wish=wish))
    state = replace(state, wish=replace(wish, prefix=()), beside=0)
    return decode(state, max(1, state.step))


def own_choice(state: State) -> int | None:
    """Return the token that the model itself chooses at the current step, if known.

    Under rules of generation, or where tokens are drawn, it is known of an earlier run
    that had the same tokens before the step.
    """
    if state.visible is None or not state.visible.steps:
        return None
    step, at = state.visible.steps[-1], len(state.visible) - 1
    if step.origin not in FED:
        return step.id
    for edit in reversed((*state.history.undo, *state.history.redo)):
        other = state.find(edit.run)
        if other is not None and _alike(state, edit.wish, other.trace, at):
            own = other.trace.steps[at]
            if own.origin not in FED:
                return own.id
    model = state.visible.model
    free = model.known is not None and state.wish.strategy == GREEDY
    restricted = any(origin == "rule" for origin in step_origins(state.visible.steps))
    return step.candidates[0].id if free and not restricted else None


def _alike(state: State, wish: Wish, made: Trace, at: int) -> bool:
    """Tell whether an earlier run is the current one before the step ``at``."""
    shown = state.visible
    if shown is None or len(made) <= at or not made.steps:
        return False
    same_rule = (wish.sentence, wish.strategy) == (
        state.wish.sentence,
        state.wish.strategy,
    )
    ids = made.target_ids[: at + 1], shown.target_ids[: at + 1]
    changed = made.intervention == shown.intervention
    return same_rule and changed and bool(np.array_equal(*ids))
