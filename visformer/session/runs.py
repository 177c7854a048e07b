"""Runs of a sentence: the user's wishes become requests, the answers become State.

Every function here is pure: a State and what happened -> the next State, and the
requests to the engine.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from visformer.engine.messages import (
    Decode,
    Down,
    Finished,
    Progressed,
    Refused,
    Replaced,
    Silent,
)
from visformer.engine.mirror import Decoded
from visformer.language import N_, _, ngettext, sentences
from visformer.pictures.attention.strips import source_line
from visformer.pictures.words.absent import NO_ATTENTION
from visformer.pictures.words.choices import FED, has_fed
from visformer.pictures.words.modified_run import is_taught
from visformer.pictures.words.run_notices import (
    end_notice,
    kept_pass_notice,
    source_notice,
)
from visformer.pictures.words.scene import telling_head
from visformer.pictures.words.translation_text import (
    Against,
    TranslationText,
    translation_text,
)
from visformer.session.pending import is_question, is_side_request
from visformer.session.run import (
    MOST_EDITS,
    EditedRun,
    EditName,
    History,
    Run,
    Wish,
    free_name,
    lasting,
    original_of,
    with_run,
)
from visformer.session.state import SHOWN_WHOLE, Next, State, limited
from visformer.text import MAX_CHARACTERS
from visformer.trace_file.saved_session import SavedRun
from visformer.trace_file.stored_facts import RunSelection
from visformer.values.facts import KINDS
from visformer.values.intervention import NO_CHANGES, Intervention
from visformer.values.layer_weights import same_model
from visformer.values.measured import ATTRIBUTIONS
from visformer.values.not_finite import not_finite_words
from visformer.values.step import GREEDY, Choice, Strategy, step_origins
from visformer.values.trace import Trace

NO_MODEL = "none yet"  # ``led`` where the first run of any model is to be led to


def first_step(trace: Trace, selection: RunSelection | None) -> int:
    """Return the step at which a recorded Trace is first shown."""
    if selection is not None and selection.step is not None:
        return selection.step
    return len(trace) if len(trace) <= SHOWN_WHOLE else 1


def show_trace(
    state: State, trace: Trace, selection: RunSelection | None = None
) -> Next:
    """Show a recorded Trace, and of it what was looked at when it was saved."""
    return show_runs(state, [SavedRun(trace=trace, selection=selection)])


def show_runs(
    state: State, saved: Sequence[SavedRun], at: int = 0, baseline: int | None = None
) -> Next:
    """Show one of the runs of a file, in place of all others; one may be pinned.

    One without any attention is refused.
    """
    trace, selection = saved[at].trace, saved[at].selection
    if not trace.kinds:
        return Next(replace(state, error=_(NO_ATTENTION)))
    if selection is not None:
        state = replace(
            state, kind=selection.kind, layer=selection.layer, head=selection.head
        )
    runs: tuple[Run, ...] = ()
    for run in saved:
        made = Run(
            trace=run.trace,
            name=run.name or free_name(runs),
            note=run.note,
            selection=run.selection,
            change=run.trace.intervention,
            origin="recorded",
        )
        runs = (*runs, made)
    runs = tuple(
        run if one.parent is None else replace(run, parent=runs[one.parent].key)
        for run, one in zip(runs, saved, strict=True)
    )
    experiments = (run for run in state.runs if run.origin in ("batch", "shuffled"))
    return Next(
        replace(
            state,
            awaiting=state.awaiting.without(is_question),
            wish=Wish(
                sentence=source_line(trace),
                strategy=state.wish.strategy,
                limit=state.wish.limit,
            ),
            revision=object(),
            runs=(*runs, *experiments),
            shown=runs[at].key,
            beside=0,
            pinned=None if baseline is None else runs[baseline].key,
            step=first_step(trace, selection),
            error="",
            notice=sentences((trace.missing, kept_pass_notice(trace))),
            intervention=NO_CHANGES,
            history=History(),
        )
    )


def show_telling(state: State, trace: Trace) -> Next:
    """Show a recorded Trace where it says most."""
    return look_at_telling_head(show_trace(state, trace).state)


def look_at_telling_head(state: State) -> Next:
    """Go to the head and the step that say most of the Trace on screen."""
    if state.trace is None:
        return Next(state)
    kind, layer, head, step = telling_head(state.trace)
    led = state.trace.model.digest
    return Next(replace(state, kind=kind, layer=layer, head=head, step=step, led=led))


def translate(state: State, text: str, *, reference: str = "") -> Next:
    """Decode a sentence to its end, or feed a reference.

    The cursor goes to the step that says most, or where nothing is shown ahead to 1.
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
    fixed, other = fixed_words(state), other_model_words(state)
    if fixed and state.trace is not None and text == source_line(state.trace):
        return Next(replace(state, error=fixed))  # it would be another model's answer
    same = text == state.wish.sentence and reference != state.wish.reference
    edit: EditName = "reference" if same else "sentence"
    wish = replace(state.wish, sentence=text, reference=reference, fed=True, prefix=())
    if wish != state.wish:
        state = remembered(state, edit)
    state = replace(state, wish=wish, beside=0)
    made = decode(state, 1)
    found = replace(made.state, notice=other, seeks=state.look.ahead)
    return made._replace(state=found)


def choose_tokens(state: State, strategy: Strategy, limit: int | None) -> Next:
    """Choose tokens in another way from now on; decode the sentence again.

    A recorded run whose model is not open stays as it is.
    """
    wish = replace(state.wish, strategy=strategy, limit=limit)
    if not wish.sentence or fixed_words(state):
        return Next(replace(state, wish=wish))
    state, wish = remembered(state, "strategy"), replace(wish, prefix=())
    return decode(replace(state, wish=wish, beside=0), state.step)


def decode(state: State, step: int) -> Next:
    """Decode the sentence; the baseline run first, if it is not known.

    The cursor goes to ``step`` once that is decoded. The user's choices of tokens are
    those of the run that is wanted: a baseline run decoded for it has none.
    """
    wish = state.wish
    if not state.intervention or state.beside:
        request = wish.request(state.intervention)
    else:
        request = replace(wish, prefix=()).request()
    busy = _("decoding")
    if request.intervention.whole:
        busy = _("decoding (slow: one full pass per step)")
    if state.opened is None and state.opening is not None:
        busy = state.busy  # it waits for the model
    begun = state.place._replace(step=step)
    now = replace(state, cursor=step, begun=begun, seeks=False)
    next_state = replace(now, busy=busy, error="", notice="")
    return Next(next_state, (request,))


# ---- changes of the run --------------------------------------------------------


def change_run(state: State, intervention: Intervention) -> Next:
    """Run the sentence again with changes; without any, show the baseline run."""
    if intervention == state.intervention or fixed_words(state):
        return Next(state)
    state = replace(remembered(state, "change"), intervention=intervention, error="")
    wish = replace(state.wish, prefix=())
    if not state.beside:
        going = state.awaiting.newest(Decode)
        if going is not None and not going.ended:  # the modified run follows it
            asked = _request(state, going.number)
            if asked is not None and not intervention:
                wish = replace(wish, prefix=asked.prefix)
            return Next(replace(state, wish=wish))
        run = state.run
        if run is None:
            return Next(state)
        if run.origin != "recorded" and not _is_changed(state):
            state = replace(
                state,
                runs=with_run(state.runs, replace(run, wish=state.wish)),
                beside=state.shown,
            )
    original = state.find(state.beside)
    if intervention or (original is None and _is_changed(state)):
        return decode(replace(state, wish=wish), state.step)
    if original is None or original.wish is None:
        return Next(state)
    restored = replace(
        state,
        awaiting=state.awaiting.without(is_question),
        wish=original.wish,
        shown=original.key,
        beside=0,
        busy="",
    )
    return Next(restored)


def _is_changed(state: State) -> bool:
    """Tell whether the run on screen is one with changes, wanted or not."""
    return state.trace is not None and bool(state.trace.intervention)


# ---- tokens that are forced or fed -------------------------------------------------


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
    wish = replace(state.wish, fed=not state.wish.reference, prefix=lasting(choices))
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
        made = None if other is None else other.trace
        if made is not None and _alike(state, edit.wish, made, at):
            own = made.steps[at]
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


# ---- answers -------------------------------------------------------------------


def decoded(state: State, event: Decoded) -> Next:
    """Show a decode as far as it has come, with the cursor where it was requested."""
    trace, cursor = event.trace, state.cursor
    asked = _request(state, event.number)
    prefix = () if asked is None else asked.prefix
    if cursor is None:
        # a replaced engine replays what is shown: keep it until the engine catches up
        if len(trace) < state.step:
            return Next(state)
        state = replace(state, notice=_notice(state, event, ""))
        return Next(_taken(state, event, asked))
    if state.recorded and len(trace) < min(cursor, len(prefix)):
        return Next(state)  # it repeats what is shown
    arrived = len(trace) >= cursor
    return Next(
        replace(
            _taken(state, event, asked),
            step=cursor if arrived else len(trace),
            cursor=None if arrived else cursor,
            notice=_notice(state, event, source_notice(trace)),
        )
    )


def _taken(state: State, event: Decoded, asked: Decode | None) -> State:
    """Show what is decoded: as the run that had this answer before, or as a new one.

    A new one comes from the run on screen, or, where that is the changed run for which
    its original is decoded first, from the same run as that.
    """
    change = NO_CHANGES if asked is None else asked.intervention
    before, digest = state.run, event.trace.model.digest
    alike = (
        run for run in state.runs if asked is not None and run.answers(asked, digest)
    )
    made = next(alike, None)
    if made is None:
        made = Run(
            trace=None,
            name=free_name(state.runs),
            change=change,
            path="" if state.opened is None else state.opened.path,
        )
        if before is not None:
            wanted = state.wish.request(state.intervention)
            first = not change and bool(before.change) and before.request == wanted
            made = replace(made, parent=before.parent if first else before.key)
    elif change and original_of(state.runs, made) is None:
        made = replace(made, parent=state.beside or None)
    made = replace(
        made,
        trace=event.trace,
        passes=event.passes,
        wish=None if asked is None else Wish.of(asked, state.wish.reference),
        origin="decoded",
        ended=False,
        gone=False,
    )
    return replace(state, runs=with_run(state.runs, made), shown=made.key)


def _request(state: State, number: int) -> Decode | None:
    """Return the decode that is answered; None if its answers are late."""
    sent = state.awaiting.get(number)
    return sent.request if sent and isinstance(sent.request, Decode) else None


def _notice(state: State, event: Decoded, source: str) -> str:
    """Return what is worth knowing of the run so far: its source, and then its end."""
    said = source or state.notice
    ended = end_notice(event.trace, event.limit)
    return said if ended in said else sentences((said, ended))


def _broken_words(state: State) -> str:
    return "" if state.trace is None else not_finite_words(state.trace)


def progressed(state: State, event: Progressed) -> Next:
    """Say how far long work has come, until that part of it is done."""
    doing = re.split("[:：]", state.busy, maxsplit=1)[0]
    if event.done < event.of:
        words = N_("{doing}: {done:,} of {of:,} {part}")
        if not event.part:
            words = N_("{doing}: {done}% of the source is encoded")
        counts = {"done": event.done, "of": event.of, "part": event.part}
        doing = _(words, doing=doing, **counts)
    return Next(replace(state, busy=doing))


def finished(state: State, event: Finished) -> Next:
    """Mark a decode as ended; a modified run follows its baseline run."""
    run = state.run
    if run is not None and run.origin == "decoded":
        state = replace(state, runs=with_run(state.runs, replace(run, ended=True)))
    state = state.answered(
        event.number,
        cursor=None,
        step_ms=event.step_ms or state.step_ms,
        notice=_broken_words(state) or state.notice,
    )
    state = replace(_led(state), seeks=False)
    if state.intervention and not (state.beside or _is_changed(state)):
        return decode(replace(state, beside=state.shown), state.step)
    return Next(state)


def _led(state: State) -> State:
    """Go to what says most, unless the user went elsewhere meanwhile.

    That is a step of a new sentence, and after a model's first run a head, too.
    """
    trace, begun = state.trace, state.begun
    if trace is None:
        return state
    first = state.led not in ("", trace.model.digest)
    state = replace(state, led=trace.model.digest) if first else state
    if begun is not None and limited(begun, trace)[1:5] != state.place[1:5]:
        return state
    telling = telling_head(trace) if first or state.seeks else None
    if telling is not None and first:
        kind, layer, head, _step = telling
        state = replace(state, kind=kind, layer=layer, head=head)
    if telling is not None and state.seeks:
        state = replace(state, step=telling.step)
    return state


def refused(state: State, event: Refused) -> Next:
    """Say why there is no run."""
    state = leave_other_model(state.answered(event.number, error=event.reason))
    return Next(picture_again(state))


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
    """Stop waiting for what is being computed; what is done stays."""
    awaiting = state.awaiting.without(is_question)
    notice, look = _("Stopped."), state.look
    if look.summary in ATTRIBUTIONS:  # else it would be measured again
        look = replace(look, summary="head")
    state = replace(
        state, awaiting=awaiting, cursor=None, busy="", notice=notice, look=look
    )
    return Next(picture_again(state))


def picture_again(state: State) -> State:
    """Want again what is shown, where another sentence was wanted and did not come."""
    sentence = "" if state.trace is None else source_line(state.trace)
    if state.wish.sentence == sentence:
        return state
    made = None if state.recorded or state.run is None else state.run.request
    if made is not None and made.source == sentence:
        return replace(state, wish=Wish.of(made))
    wish = replace(state.wish, sentence=sentence, reference="", fed=True, prefix=())
    return replace(state, wish=wish)


def leave_other_model(state: State) -> State:
    """Clear what another model made: it must not appear under this model's name."""
    opened, trace = state.opened, state.trace
    if trace is None or opened is None or state.recorded:
        return state
    if trace.model.digest == opened.model.digest:
        return state
    return replace(state, shown=0)


def remembered(state: State, edit: EditName) -> State:
    """Add the current run to what can be undone, before an edit changes it.

    Choosing tokens in one way after the other is one edit; before there is a sentence,
    there is nothing to undo.
    """
    past, revised = state.history.undo, replace(state, revision=object())
    if not state.wish.sentence:
        return revised
    if edit == "strategy" and past and past[-1].edit == edit and not state.history.redo:
        return revised
    undo = (*past, current_run(state, edit))[-MOST_EDITS:]
    return replace(revised, history=History(undo=undo))


def current_run(state: State, edit: EditName) -> EditedRun:
    """Return the current run as it is kept on one side of an edit."""
    return EditedRun(
        edit=edit,
        wish=state.wish,
        intervention=state.intervention,
        step=state.step,
        revision=state.revision,
        run=0 if state.awaiting.decoding or not is_answered(state) else state.shown,
    )


def is_answered(state: State) -> bool:
    """Tell whether the run on screen is the one wanted, as far as it has come."""
    run = state.run
    if run is None:
        return False
    if run.origin == "recorded" and state.trace is not None:
        return state.wish.sentence == source_line(state.trace)
    return run.request == state.wish.request(state.intervention)


def compared(state: State) -> TranslationText:
    """Return the sentence up to the current step, marked against what it is like."""
    return translation_text(state.visible, *_other(state), whole=state.ahead)


def _other(state: State) -> tuple[str, Against]:
    """Return the text to compare with, and what it is; ("", "") for none."""
    trace, baseline = state.trace, state.baseline
    if trace is None or not trace.steps:
        return "", ""
    taught = is_taught(trace)
    if state.wish.reference and not taught:
        return state.wish.reference, "reference"
    if trace.intervention and baseline is not None:
        return baseline.text, "original"
    before = _before(state)
    # asked last: of a long run in a file it reads all steps
    if before and (taught or has_fed(trace.steps)):
        return before, "before"
    return "", ""


def _before(state: State) -> str:
    """Return the text of the newest run of the sentence that is the model's own."""
    for edit in reversed(state.history.undo):
        run = state.find(edit.run)
        trace = None if run is None else run.trace
        if trace is None or edit.wish.sentence != state.wish.sentence:
            continue
        if trace.intervention == state.intervention and not has_fed(trace.steps):
            return trace.text
    return ""


def fixed_words(state: State) -> str:
    """Say why the run on screen cannot be changed; "" where it can be.

    While a model is being opened, it may be that of the recorded run.
    """
    trace = state.trace
    if trace is None or not state.recorded:
        return ""
    if state.opened is None:
        ours = trace.model.known is not None and trace.kinds == KINDS
        if ours and state.opening is not None:
            return ""
    elif same_model(state.opened.model, trace.model):
        if trace.kinds == KINDS:
            return ""
        return _(
            "This run cannot be changed here: only part of the model ran, and the "
            "window always runs all of it."
        )
    return _("This run cannot be changed: the model that made it is not open.")


def other_model_words(state: State) -> str:
    """Say that a new sentence goes to another model than made the run on screen."""
    trace, opened = state.trace, state.opened
    if trace is None or opened is None or not state.recorded:
        return ""
    if same_model(opened.model, trace.model):
        return ""
    return _(
        "Translated by “{opened}”: “{recorded}”, which made the recorded run, is not "
        "open.",
        opened=opened.model.name[:60],
        recorded=trace.model.name[:60],
    )
