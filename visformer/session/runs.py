"""Runs of a sentence: the user's wishes become requests, the answers become State.

Every function here is pure: a State and what happened -> the next State, and the
requests to the engine.
"""

from __future__ import annotations

from dataclasses import replace

from visformer.engine.events import Down, Replaced, Silent
from visformer.engine.messages import Decode, Finished, Refused
from visformer.engine.mirror import Decoded
from visformer.language import _, ngettext
from visformer.pictures.attention.strips import source_line
from visformer.session.awaiting import is_question, is_side_request
from visformer.session.live import fixed_words
from visformer.session.state import Next, State
from visformer.session.wishes import History
from visformer.text import MAX_CHARACTERS
from visformer.values.intervention import NO_CHANGES, Intervention
from visformer.values.not_finite import not_finite_words
from visformer.values.step import Origin
from visformer.values.storage.stored_facts import RunSelection
from visformer.values.strategy import Strategy
from visformer.values.trace import Trace

SHOWN_WHOLE = 256  # tokens up to which a recorded target is shown whole at once
LAST = 1 << 30  # beyond any step: the cursor goes to the end


def first_step(trace: Trace, selection: RunSelection | None) -> int:
    """Return the step at which a recorded Trace is first shown."""
    if selection is not None and selection.step is not None:
        return selection.step
    return len(trace) if len(trace) <= SHOWN_WHOLE else 1


def show_trace(
    state: State, trace: Trace, selection: RunSelection | None = None
) -> Next:
    """Show a recorded Trace, and of it what was looked at when it was saved.

    One without any attention is refused.
    """
    if not trace.kinds:
        error = _("This trace contains no attention: there is nothing to show.")
        return Next(replace(state, error=error))
    if selection is not None:
        state = replace(
            state, kind=selection.kind, layer=selection.layer, head=selection.head
        )
    return Next(
        replace(
            state,
            awaiting=state.awaiting.without(is_question),
            wish=replace(state.wish, sentence=source_line(trace)),
            trace=trace,
            step=first_step(trace, selection),
            recorded=True,
            error="",
            notice=trace.missing,
            intervention=NO_CHANGES,
            baseline=None,
            passes=(),
        )
    )


def translate(state: State, text: str, *, reference: str = "") -> Next:
    """Decode a sentence to its end; the cursor goes to step 1.

    With a reference the target is that text, and the cursor goes to its end.
    """
    if not text.strip():
        return Next(
            replace(
                state, error=_("The source is empty: type a sentence to translate.")
            )
        )
    if len(text) > MAX_CHARACTERS:
        error = ngettext(
            "{n:,} character is too much: at most {most:,} are read.",
            "{n:,} characters are too many: at most {most:,} are read.",
            len(text),
            most=MAX_CHARACTERS,
        )
        return Next(replace(state, error=error))
    wish = replace(state.wish, sentence=text, reference=reference)
    return decode(replace(state, wish=wish, baseline=None), LAST if reference else 1)


def force(state: State, id: int) -> Next:
    """Replace the current step's choice; what follows is decoded again."""
    if state.shown is None or not state.step or fixed_words(state):
        return Next(state)
    if source_line(state.shown) != state.wish.sentence:
        return Next(state)  # another sentence is on its way: the choice is not of it
    kept = [(step.id, step.origin) for step in state.shown.steps[:-1]]
    wish = replace(state.wish, reference="")
    return decode(replace(state, wish=wish), state.step, prefix=(*kept, (id, "forced")))


def choose_tokens(state: State, strategy: Strategy, limit: int | None) -> Next:
    """Choose tokens in another way from now on; decode the sentence again.

    A recorded run whose model is not open stays as it is.
    """
    wish = replace(state.wish, strategy=strategy, limit=limit)
    if not wish.sentence or fixed_words(state):
        return Next(replace(state, wish=wish))
    return decode(replace(state, wish=wish, baseline=None), state.step)


def decode(
    state: State, step: int, *, prefix: tuple[tuple[int, Origin], ...] = ()
) -> Next:
    """Decode the sentence; the baseline run first, if it is not known.

    The cursor goes to ``step`` once that is decoded.
    """
    wish = state.wish
    request = Decode(
        source=wish.sentence,
        prefix=prefix,
        reference=wish.reference,
        strategy=wish.strategy,
        limit=wish.limit,
        intervention=NO_CHANGES if state.baseline is None else state.intervention,
    )
    busy = _("decoding")
    if request.intervention.masked:
        busy = _("decoding (slow: one full pass per step)")
    next_state = replace(state, cursor=step, busy=busy, error="", notice="")
    return Next(next_state, (request,))


# ---- changes of the run --------------------------------------------------------


def change_run(state: State, intervention: Intervention) -> Next:
    """Run the sentence again with changes; without any, show the baseline run."""
    now = state.intervention
    if intervention == now or fixed_words(state):
        return Next(state)
    history = History(undo=(*state.history.undo, now))
    return _changed(replace(state, history=history), intervention)


def undo(state: State) -> Next:
    """Undo the last change."""
    past = state.history
    if not past.undo:
        return Next(state)
    history = History(past.undo[:-1], (*past.redo, state.intervention))
    return _changed(replace(state, history=history), past.undo[-1])


def redo(state: State) -> Next:
    """Redo the change that was undone last."""
    past = state.history
    if not past.redo:
        return Next(state)
    history = History((*past.undo, state.intervention), past.redo[:-1])
    return _changed(replace(state, history=history), past.redo[-1])


def _changed(state: State, intervention: Intervention) -> Next:
    state = replace(state, intervention=intervention, error="")
    if state.baseline is None:
        if state.awaiting.decoding or state.trace is None:
            return Next(state)  # the modified run follows the baseline run
        if not state.recorded:
            state = replace(state, baseline=state.trace)
    if intervention:
        return decode(state, state.step)
    if state.baseline is None:
        return Next(state)
    baseline = replace(
        state,
        awaiting=state.awaiting.without(is_question),
        trace=state.baseline,
        baseline=None,
        passes=(),
        busy="",
    )
    return Next(baseline)


# ---- answers -------------------------------------------------------------------


def decoded(state: State, event: Decoded) -> Next:
    """Show a decode as far as it has come, with the cursor where it was requested."""
    trace, cursor = event.trace, state.cursor
    if cursor is None:
        # a replaced engine replays what is shown: keep it until the engine catches up
        if len(trace) < state.step:
            return Next(state)
        return Next(replace(state, trace=trace, passes=event.passes))
    sent = state.awaiting.get(event.number)
    prefix = sent.request.prefix if sent and isinstance(sent.request, Decode) else ()
    if state.recorded and len(trace) < min(cursor, len(prefix)):
        return Next(state)  # it repeats what is shown
    arrived = len(trace) >= cursor
    return Next(
        replace(
            state,
            trace=trace,
            passes=event.passes,
            step=cursor if arrived else len(trace),
            cursor=None if arrived else cursor,
            recorded=False,
            notice=_cut_words(trace) or state.notice,
        )
    )


def _cut_words(trace: Trace) -> str:
    if not trace.truncated_from:
        return ""
    return ngettext(
        "The sentence has {n:,} token, the model {positions:,} positions: it is cut.",
        "The sentence has {n:,} tokens, the model {positions:,} positions: it is cut.",
        trace.truncated_from,
        positions=trace.model.config.max_positions,
    )


def _broken_words(state: State) -> str:
    return "" if state.trace is None else not_finite_words(state.trace)


def finished(state: State, event: Finished) -> Next:
    """Mark a decode as ended; a modified run follows its baseline run."""
    state = replace(
        state,
        awaiting=state.awaiting.end(event.number),
        cursor=None,
        busy="",
        step_ms=event.step_ms or state.step_ms,
        notice=_broken_words(state) or state.notice,
    )
    if state.intervention and state.baseline is None:
        return decode(replace(state, baseline=state.trace), state.step)
    return Next(state)


def refused(state: State, event: Refused) -> Next:
    """Say why there is no run."""
    awaiting = state.awaiting.end(event.number)
    state = leave_other_model(replace(state, awaiting=awaiting))
    return Next(picture_again(replace(state, error=event.reason, busy="")))


def replaced(state: State, event: Replaced) -> Next:
    """Say that another process has taken over; side requests ended with the old one.

    The newest of the other requests is replayed in the new process.
    """
    awaiting = state.awaiting.without(is_side_request)
    return Next(replace(state, awaiting=awaiting, notice=event.reason))


def silent(state: State, event: Silent) -> Next:
    """Say that the engine has not answered for long, or that it does again."""
    return Next(replace(state, silence=event.reason))


def down(state: State, event: Down) -> Next:
    """Say that no engine runs; what is shown stays."""
    awaiting = state.awaiting.without(is_question).without(is_side_request)
    state = replace(state, awaiting=awaiting, cursor=None, error=event.reason, busy="")
    return Next(picture_again(state))


def stop(state: State) -> Next:
    """Wait no more for what is computed; what came of it stays."""
    awaiting = state.awaiting.without(is_question)
    notice = _("Stopped.")
    state = replace(state, awaiting=awaiting, cursor=None, busy="", notice=notice)
    return Next(picture_again(state))


def picture_again(state: State) -> State:
    """Want again what is shown, where another sentence was wanted and did not come."""
    sentence = "" if state.trace is None else source_line(state.trace)
    if state.wish.sentence == sentence:
        return state
    return replace(state, wish=replace(state.wish, sentence=sentence, reference=""))


def leave_other_model(state: State) -> State:
    """Clear what another model made: it must not appear under this model's name."""
    model, trace = state.model, state.trace
    if trace is None or model is None or trace.model.digest == model.digest:
        return state
    return replace(state, trace=None, passes=())
