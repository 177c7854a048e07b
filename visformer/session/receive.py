"""What the engine's answers do to the State."""

from collections.abc import Callable
from typing import Any

from visformer.engine.messages import (
    AllTokensDone,
    Answer,
    Asked,
    Attribute,
    Attributed,
    BatchDone,
    CheckRun,
    Closed,
    Down,
    EffectDone,
    Event,
    Finished,
    HeadsMeasured,
    LensDone,
    NearestDone,
    Opened,
    PairsScanned,
    ParametersDone,
    Progressed,
    Refused,
    Replaced,
    RunChecked,
    SearchBeams,
    Searched,
    SeriesRun,
    Shuffled,
    Silent,
    SwitchedOff,
    SwitchOff,
    SwitchOffOverPairs,
    TokensFound,
)
from visformer.engine.mirror import Decoded
from visformer.session import (
    check_requests,
    corpus,
    importances,
    openings,
    runs,
    scans,
    searches,
    side_requests,
    training,
)
from visformer.session.pending import is_opening, is_side_request
from visformer.session.state import Next, State


def receive(state: State, event: Event) -> Next:
    """Handle an event of the engine; an answer that is no longer awaited is dropped.

    That is decided only here, on the window's thread: while an answer is queued, the
    user may ask for something else. Which model is open is a fact and never late.
    """
    if isinstance(event, Answer) and not isinstance(event, Opened | Asked):
        late = state.awaiting.get(event.number) is None
    else:
        late = False  # a fact
    return Next(state) if late else RECEIVED[type(event)](state, event)


def _refused(state: State, event: Refused) -> Next:
    """Say why a request was refused."""
    sent = state.awaiting.get(event.number)
    if sent is not None and is_opening(sent):
        return openings.refused(state, event)
    if sent is not None and isinstance(sent.request, Attribute):
        return side_requests.not_attributed(state, event)
    if sent is not None and isinstance(sent.request, SwitchOff | SwitchOffOverPairs):
        return importances.not_measured(state, event)
    if sent is not None and isinstance(sent.request, CheckRun):
        return check_requests.not_checked(state, event)
    if sent is not None and isinstance(sent.request, SearchBeams):
        return searches.not_searched(state, event)
    if sent is not None and is_side_request(sent):
        return side_requests.side_request_refused(state, event)
    return runs.refused(state, event)


RECEIVED: dict[type[Event], Callable[[State, Any], Next]] = {
    Decoded: runs.decoded,
    Finished: runs.finished,
    Progressed: runs.progressed,
    Opened: openings.opened,
    Asked: openings.asked,
    BatchDone: side_requests.batch_done,
    Attributed: side_requests.attributed,
    Searched: searches.searched,
    SeriesRun: training.arrived,
    RunChecked: check_requests.checked,
    SwitchedOff: importances.measured,
    HeadsMeasured: corpus.arrived,
    PairsScanned: scans.arrived,
    Shuffled: side_requests.shuffled,
    ParametersDone: side_requests.parameters_done,
    LensDone: side_requests.lens_done,
    AllTokensDone: side_requests.all_tokens_done,
    TokensFound: side_requests.tokens_found,
    NearestDone: side_requests.nearest_done,
    EffectDone: side_requests.effect_done,
    Refused: _refused,
    Replaced: runs.replaced,
    Silent: runs.silent,
    Closed: openings.closed,
    Down: runs.down,
}
