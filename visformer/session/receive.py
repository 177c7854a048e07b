"""What the engine's answers do to the State."""

from collections.abc import Callable
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
from visformer.session.pending import is_side_request
from visformer.session.state import Next, State


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


def _refused(state: State, event: messages.Refused) -> Next:
    """Say why a request was refused."""
    sent = state.awaiting.get(event.number)
    beside = sent is not None and is_side_request(sent)
    usual = side_requests.side_request_refused if beside else runs.refused
    return REFUSED.get(type(sent and sent.request), usual)(state, event)


# what has a place of its own for the reason
REFUSED: dict[type, Callable[[State, messages.Refused], Next]] = {
    messages.Open: openings.refused,
    messages.Attribute: side_requests.not_attributed,
    messages.SwitchOff: side_requests.importance_refused,
    messages.SwitchOffOverPairs: side_requests.importance_refused,
    messages.CheckRun: side_requests.not_checked,
    messages.SearchBeams: searches.not_searched,
}
RECEIVED: dict[type[messages.Event], Callable[[State, Any], Next]] = {
    Decoded: runs.decoded,
    messages.Finished: runs.finished,
    messages.Progressed: runs.progressed,
    messages.Opened: openings.opened,
    messages.Asked: openings.asked,
    messages.OpenProgressed: openings.progressed,
    messages.BatchDone: side_requests.batch_done,
    messages.Attributed: side_requests.attributed,
    messages.Searched: searches.searched,
    messages.SeriesRun: training.arrived,
    messages.RunChecked: side_requests.checked,
    messages.SwitchedOff: side_requests.importance_measured,
    messages.HeadsMeasured: corpus.arrived,
    messages.PairsScanned: scans.arrived,
    messages.Shuffled: side_requests.shuffled,
    messages.ParametersDone: side_requests.parameters_done,
    messages.LensDone: side_requests.lens_done,
    messages.AllTokensDone: side_requests.all_tokens_done,
    messages.TokensFound: side_requests.tokens_found,
    messages.NearestDone: side_requests.nearest_done,
    messages.EffectDone: side_requests.effect_done,
    messages.Refused: _refused,
    messages.Replaced: runs.replaced,
    messages.Silent: runs.silent,
    messages.Closed: openings.closed,
    messages.Down: runs.down,
}
