"""The beam search of the sentence on screen, and the runs that its histories make.

Every function here is pure, as those of ``runs``.
"""

from collections.abc import Sequence
from dataclasses import replace

from visformer.engine.messages import Decode, SearchBeams
from visformer.language import _
from visformer.pictures.attention.strips import source_line
from visformer.pictures.output import NOT_RUN
from visformer.pictures.words.absent import has_target, no_output_words
from visformer.pictures.words.choices import FED
from visformer.session.run import Wish, lasting
from visformer.session.runs import decode, fixed_words, remembered
from visformer.session.state import Next, State
from visformer.values.beam_search import BeamSearch
from visformer.values.intervention import Intervention
from visformer.values.layer_weights import same_model
from visformer.values.reply import Reply
from visformer.values.step import Choice


def no_search_words(state: State) -> str:
    """Say why the sentence on screen cannot be searched; "" where it can be."""
    trace, opened = state.trace, state.opened
    if trace is None:
        return _(NOT_RUN)
    if not has_target(trace):
        return no_output_words(trace)
    if opened is not None and not same_model(opened.model, trace.model):
        return _("The model that made this run is not open, so nothing is searched.")
    return fixed_words(state)


def beams_of(state: State) -> int:
    """Return how many beams the sentence is searched by."""
    strategy = state.wish.strategy
    return strategy.beams if strategy.name == "beam" else state.views.beams


def choose_beams(state: State, beams: int) -> Next:
    """Search by another number of beams; where they choose the tokens, decode again."""
    strategy = state.wish.strategy
    if strategy.name != "beam":
        return Next(replace(state, views=replace(state.views, beams=beams)))
    wish = replace(state.wish, strategy=replace(strategy, beams=beams), prefix=())
    state = replace(remembered(state, "strategy"), wish=wish, beside=0)
    return decode(state, state.step)


def _search(wish: Wish, change: Intervention, beams: int) -> SearchBeams:
    """Return the search of what follows the tokens that the user forced."""
    return SearchBeams(
        source=wish.sentence,
        prefix=lasting(wish.prefix, FED),
        beams=beams,
        limit=wish.limit,
        intervention=change,
    )


def wanted_search(state: State) -> SearchBeams | None:
    """Return the search that belongs to what is on screen; None where there is none."""
    trace = state.trace
    if trace is None or state.opened is None or no_search_words(state):
        return None
    if source_line(trace) != state.wish.sentence:
        return None
    return _search(state.wish, state.intervention, beams_of(state))


def search(state: State, *, again: bool = False) -> Next:
    """Request the search that is wanted, unless it was; ``again``: then too."""
    wanted, opened, known = wanted_search(state), state.opened, state.search
    if wanted is None or opened is None:
        return Next(state)
    if known is not None and not known.is_of((opened,), wanted):
        state = replace(state, search=None)  # of another run than is on screen
    if state.busy or (state.search is not None and not again):
        return Next(state)
    state = replace(state, search=Reply(of=(opened,), about=wanted))
    return Next(replace(state, busy=_("searching")), (wanted,))


def searched(state: State, request: Decode, found: BeamSearch) -> State:
    """Keep the search of a decode, unless it began within a history."""
    wish = Wish.of(request)
    asked = _search(wish, request.intervention, request.strategy.beams)
    if state.opened is None or asked.prefix != wish.prefix:
        return state
    kept = Reply(of=(state.opened,), about=asked, value=found)
    return replace(state, search=kept)


def follow(state: State, ids: Sequence[int]) -> Next:
    """Run the sentence along a history of the search on screen, and then to its end."""
    known = state.search
    if known is None or known.about != wanted_search(state):
        return Next(state)
    choices = (*known.about.prefix, *(Choice(id, "beam") for id in ids))
    begun = 0 if state.trace is None else max(0, state.trace.prompt - 1)
    step = begun + len(choices)
    if choices == state.wish.prefix:
        return Next(replace(state, step=step))
    reference = bool(state.wish.reference)
    wish = replace(state.wish, fed=not reference, prefix=choices)
    return decode(replace(remembered(state, "hypothesis"), wish=wish), step)
