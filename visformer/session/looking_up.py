"""A token's nearest tokens: asked of the engine when the Positions tab needs them.

Every function here is pure, as those of ``runs``.
"""

from __future__ import annotations

from dataclasses import replace

from visformer.engine.messages import Nearest, NearestDone
from visformer.session.state import Next, State
from visformer.text import clean
from visformer.values.facts import SentenceSide


def look_up(state: State, side: SentenceSide, asked: int | str) -> Next:
    """Look for the nearest tokens of one, by its id or as a text names it."""
    opened, is_text = state.opened, isinstance(asked, str)
    asked = clean(asked).strip() if isinstance(asked, str) else asked
    if opened is None or (is_text and not asked):
        return Next(state)
    request = Nearest(side=side, asked=asked)
    return Next(replace(state, near_of=opened), (request,))


def needed(state: State) -> Next:
    """Look up the first token that is shown of a model: the longest of its source."""
    trace, opened = state.visible, state.opened
    if trace is None or opened is None or state.near_of is opened:
        return Next(state)
    ids = trace.source_ids.tolist()
    if not ids or opened.model.known is None or state.about is None:
        return Next(state)
    longest = max(range(len(ids)), key=lambda at: len(trace.source[at]))
    return look_up(replace(state, near=None), "source", ids[longest])


def done(state: State, event: NearestDone) -> Next:
    """Keep the tokens that were found."""
    awaiting = state.awaiting.without(lambda sent: sent.number == event.number)
    return Next(replace(state, awaiting=awaiting, near=event.near))
