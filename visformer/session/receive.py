"""What the engine's answers do to the State."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from visformer.engine import messages
from visformer.engine.mirror import Decoded
from visformer.session import (
    corpus,
    openings,
    runs,
    scans,
    searches,
    side_requests,
    training,
)
from visformer.session.pending import Sent
from visformer.session.state import Next, State
from visformer.values.measured import Attribution


def receive(state: State, event: messages.Event) -> Next:
    """Handle an event of the engine; an answer that is no longer awaited is dropped.

    That is decided only here, on the window's thread: while an answer is queued, the
    user may ask for something else. Which model is open is a fact and never late.
    """
    late = (
        isinstance(event, messages.Answer)
        and not isinstance(event, messages.Opened | messages.Asked)
        and state.awaiting.get(event.number) is None
    )
    return Next(state) if late else RECEIVED[type(event)](state, event)


def _answered(state: State, event: messages.Portion) -> Next:
    """Keep what a request asked for; with the last of it, no longer wait for it."""
    sent = state.awaiting.get(event.number)
    assert sent is not None  # else it is late
    request = sent.request
    if isinstance(event, messages.Done):
        state = _ended(state, sent, again=event.value is not None)
    if type(request) in REPLIES:
        return Next(_replied(state, request, value=event.value, arrived=True))
    return Next(ANSWERED[type(request)](state, request, event.value))


def _ended(state: State, sent: Sent, *, again: bool) -> State:
    """Stop waiting for a request; ``again``: a side request may be repeated."""
    if not isinstance(sent.request, messages.SideRequest):
        return state.answered(sent.number)
    left = state.awaiting.without(lambda one: one is sent)
    return replace(state, awaiting=left if again else state.awaiting.end(sent.number))


def _refused(state: State, event: messages.Refused) -> Next:
    """Say why a request was refused, in its own place where it has one."""
    sent = state.awaiting.get(event.number)
    assert sent is not None  # else it is late
    request, reason = sent.request, event.reason
    if isinstance(request, messages.Open):
        return openings.refused(state, event)
    ended = _ended(state, sent, again=False)
    beside = isinstance(request, messages.SideRequest)
    if beside:
        ended = replace(ended, error=reason)
    if type(request) in REPLIES:
        return Next(_replied(ended, request, reason=reason))
    if isinstance(request, messages.Attribute):
        none = Attribution(reason=reason)
        return Next(side_requests.attributed(ended, request, none))
    return Next(ended) if beside else runs.refused(state, event)


def _replied(state: State, request: messages.Request, **made: Any) -> State:
    """Complete the reply to a request, if it is still on screen."""
    place = REPLIES[type(request)]
    known = getattr(state, place)
    return replace(state, **{place: known and replace(known, **made)})


# the State's field that has the whole reply to a request, or why there is none
REPLIES: dict[type[messages.Request], str] = {
    messages.AllTokens: "distribution",
    messages.CheckRun: "checks",
    messages.FindTokens: "found",
    messages.Nearest: "near",
    messages.SearchBeams: "search",
    messages.SwitchOff: "importance",
    messages.SwitchOffOverPairs: "importance",
}
# what the answer to any other request does
ANSWERED: dict[type[messages.Request], Callable[[State, Any, Any], State]] = {
    messages.Attribute: side_requests.attributed,
    messages.Batch: side_requests.batch_done,
    messages.Decode: searches.searched,
    messages.Effect: side_requests.effect_done,
    messages.Lens: side_requests.lens_done,
    messages.MeasureHeads: corpus.arrived,
    messages.Parameters: side_requests.parameters_done,
    messages.RunSeries: training.arrived,
    messages.ScanPairs: scans.arrived,
    messages.Shuffle: side_requests.shuffled,
}
RECEIVED: dict[type[messages.Event], Callable[[State, Any], Next]] = {
    Decoded: runs.decoded,
    messages.Finished: runs.finished,
    messages.Progressed: runs.progressed,
    messages.Opened: openings.opened,
    messages.Asked: openings.asked,
    messages.OpenProgressed: openings.progressed,
    messages.Portion: _answered,
    messages.Done: _answered,
    messages.Refused: _refused,
    messages.Replaced: runs.replaced,
    messages.Silent: runs.silent,
    messages.Closed: openings.closed,
    messages.Down: runs.down,
}
