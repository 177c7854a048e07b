"""Openings: questions about a checkpoint, their answers, and what follows.

Every function here is pure, as those of ``runs``.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePath

from visformer.engine.messages import (
    Asked,
    Closed,
    Decode,
    Open,
    Opened,
    OpenProgressed,
    Refused,
)
from visformer.files import amount
from visformer.language import N_, _, sentences
from visformer.pictures.words.about import opened_words, readable
from visformer.pictures.words.run_notices import kept_pass_notice
from visformer.session.pending import (
    Answers,
    Awaiting,
    OpenWish,
    is_opening,
    is_question,
    is_side_request,
)
from visformer.session.recipe import Recipe, runs_of_tree
from visformer.session.run import History, with_run
from visformer.session.runs import decode, leave_other_model, picture_again, translate
from visformer.session.state import Next, State
from visformer.text import visible
from visformer.values.facts import ModelFacts
from visformer.values.intervention import NO_CHANGES
from visformer.values.layer_weights import same_model
from visformer.values.questions import Overrides, Value, merged


def open_checkpoint(
    state: State,
    path: str,
    device: str = "",
    given: Overrides | None = None,
    *,
    beside: Overrides = (),
    then: str = "",
) -> Next:
    """Open a checkpoint; ``given`` is what its file does not say.

    Without it the answers of an earlier opening are used; if there are none, questions
    are asked first. ``beside`` is certain in both cases. ``then`` is translated once
    the checkpoint is open.
    """
    known = state.answers.about(path)
    if given is not None:
        request, certain = Open(path=path, device=device, overrides=given), None
    elif known is not None:
        earlier = merged(known, dict(beside))
        request, certain = Open(path=path, device=device, overrides=earlier), beside
    else:
        request = Open(path=path, device=device, overrides=beside, ask="open")
        certain = None
    return _send(state, OpenWish(request=request, certain=certain, then=then))


def resume(state: State, recipe: Recipe, *, whole: bool = False) -> Next:
    """Open the checkpoint of a session that was kept, and go on with it.

    ``whole``: all runs of its file are there, and undo leads to them.
    """
    state, opened = replace(state, revision=object()), state.opened
    runs = state.runs if whole else ()
    keys = tuple(run.key for run in runs if run.origin == "recorded")
    request = Open(path=recipe.path, overrides=recipe.overrides)
    opening = OpenWish(request=request, resume=recipe, keys=keys)
    if opened is not None and opened.model.digest == recipe.digest:
        return _resumed(state, opening, opened)
    return _send(state, opening)


def _resumed(state: State, opening: OpenWish, event: Opened) -> Next:
    """Go on with a session whose model is open again; its run is made again.

    A model that has changed since makes no run of it: what was recorded stays.
    """
    recipe = opening.resume
    if recipe is None or recipe.digest not in (None, event.model.digest):
        error = _(
            "The model has changed since the session was kept: its run is shown as it "
            "was."
        )
        return Next(replace(state, error=error))
    wanted = recipe.wanted
    kept = runs_of_tree(recipe, state.runs, opening.keys, state.shown)
    state = replace(
        state,
        runs=kept[0],
        pinned=kept[1],
        wish=wanted.wish,
        intervention=wanted.intervention,
        history=recipe.history(opening.keys),
        beside=0,
    )
    return decode(state, wanted.step)


def ask_again(state: State) -> Next:
    """Ask again what was answered, or assumed, about the open checkpoint.

    It stays on its device.
    """
    if state.opened is None:
        return Next(state)
    path, device = state.opened.path, state.opened.model.device
    known = state.answers.about(path) or ()
    request = Open(path=path, device=device, overrides=known, ask="always")
    return _send(state, OpenWish(request=request))


def open_with(state: State, more: Mapping[str, Value | None]) -> Next:
    """Reopen the open checkpoint on its device, with more known about it."""
    if state.opened is None:
        return Next(state)
    path, device = state.opened.path, state.opened.model.device
    given = merged(state.answers.about(path) or (), more)
    request = Open(path=path, device=device, overrides=given)
    return _send(state, OpenWish(request=request))


def answer(state: State, answers: Mapping[str, Value | None]) -> Next:
    """Open the file that was asked about; the form stays until it is open.

    ``answers`` are those that differ from what was offered, or are mandatory.
    """
    opening = state.asked_for
    if opening is None:
        return Next(state)
    given = merged(opening.request.overrides, answers)
    request = replace(opening.request, overrides=given, ask="never")
    return _send(state, OpenWish(request=request, then=opening.then))


def cancel(state: State) -> Next:
    """Cancel the questions and the opening; the open model stays."""
    return Next(
        replace(
            state,
            awaiting=state.awaiting.without(is_opening),
            opening=None,
            asked=None,
            asked_for=None,
            busy="",
            error="",
        )
    )


def _send(state: State, opening: OpenWish) -> Next:
    busy = _("opening {name}", name=_name(opening))
    state = replace(state, opening=opening, busy=busy, error="", notice="")
    return Next(state, (opening.request,))


def _name(opening: OpenWish) -> str:
    path = opening.request.path
    return visible(PurePath(path).name or path)


# ---- answers -------------------------------------------------------------------


def progressed(state: State, event: OpenProgressed) -> Next:
    """Say how far the opening is, unless the open model is at work meanwhile."""
    opening, working = state.opening, state.opened and state.awaiting.decoding
    if opening is None or working:
        return Next(state)
    words = N_("opening {name}: {seconds:,} s")
    if event.size:
        words = N_("opening {name}: {seconds:,} s, {read} of {size} read")
    counts = {"seconds": event.seconds, "name": _name(opening)}
    busy = _(words, read=amount(event.read), size=amount(event.size), **counts)
    return Next(replace(state, busy=busy))


def asked(state: State, event: Asked) -> Next:
    """Show the questions."""
    state = _holding(state)
    return Next(replace(state, asked=event, asked_for=state.opening, busy=""))


def refused(state: State, event: Refused) -> Next:
    """Say why; if earlier answers no longer fit, ask: the file may have changed."""
    state = _holding(state)
    opening = state.opening
    if opening is not None and opening.certain is not None:
        request = replace(opening.request, overrides=opening.certain, ask="open")
        return _send(state, OpenWish(request=request, then=opening.then))
    return Next(state.answered(event.number, opening=None, error=event.reason))


def _holding(state: State) -> State:
    """Let the opening hold the sentence that waits: the engine has no model for it."""
    opening = state.opening
    if state.opened is not None or opening is None or not state.awaiting.decoding:
        return state
    opening = replace(opening, then=state.wish.sentence)
    awaiting = state.awaiting.without(is_question)
    return picture_again(replace(state, opening=opening, awaiting=awaiting))


def opened(state: State, event: Opened) -> Next:
    """Use the model that is now open: keep the answers, do what was waiting for it.

    Another opening may have superseded this one while its answer was on its way. The
    model is open all the same; what waits for the other one goes on waiting. What went
    wrong meanwhile stays to be read: a model is opened at the start, unasked.
    """
    newest = state.awaiting.newest(Open)
    other = newest is not None and newest.number != event.number
    superseded = newest is not None and other and not newest.ended
    first, opening = state.opened is None, None if other else state.opening
    # asked before the model was there, and not of what another model made
    keeps = first and not _continues_other_model(state, event)
    waiting = keeps and state.awaiting.decoding
    changed = _are_old(state, opening, event)
    said = _damage(state, event.model), opened_words(event, changed=changed)
    before = state.opened or event
    feeds = _vocabulary(before.model) == _vocabulary(event.model)
    # an engine that had no model now answers what it was asked before
    awaiting = _questions(state.awaiting) if keeps else Awaiting()
    if superseded:
        awaiting = Awaiting((*awaiting.sent, *filter(is_opening, state.awaiting.sent)))
    state = replace(
        state,
        answers=_kept_answers(state, opening, event),
        opened=event,
        opening=state.opening if superseded else None,
        asked=state.asked if superseded else None,
        asked_for=state.asked_for if superseded else None,
        awaiting=awaiting,
        busy=_("decoding") if waiting else "",
        notice=sentences(said),
        runs=state.without("batch").runs,
        parameters=(),
        views=replace(state.views, positions=None, token=""),  # of another table
        intervention=state.intervention if waiting else NO_CHANGES,
        beside=0,
        history=state.history if waiting else History(),
        # a reference in another model's tokens is not fed, but can be
        wish=state.wish if feeds else replace(state.wish, fed=not state.wish.reference),
    )
    if opening is not None and opening.resume is not None:
        return _resumed(state, opening, event)
    if opening is not None and opening.then:
        made = translate(state, opening.then)
    else:
        made = Next(state) if waiting else _go_on(state, event)
    return made._replace(state=_still_said(made.state, state))


def _damage(state: State, model: ModelFacts) -> str:
    """Return what a recorded run lacks, as long as that is said.

    What steps its file has ends where the model that made it is open: it runs again.
    """
    trace = state.trace if state.recorded else None
    if trace is None:
        return ""
    steps = "" if same_model(trace.model, model) else kept_pass_notice(trace)
    said = (one for one in (trace.missing, steps) if one and one in state.notice)
    return sentences(said)


def _still_said(state: State, before: State) -> State:
    """Say again what nobody has read yet, where a run that goes on dropped it."""
    notice = state.notice
    if before.opened is not None and state.wish.sentence == before.wish.sentence:
        notice = notice or _damage(before, before.opened.model)
    return replace(state, error=state.error or before.error, notice=notice)


def closed(state: State, event: Closed) -> Next:
    """Say that the open model is lost; what it made stays, as a recorded trace does."""
    awaiting = state.awaiting.without(is_question).without(is_side_request)
    state = replace(
        state,
        opened=None,
        awaiting=awaiting,
        runs=tuple(
            replace(run, origin="recorded") if run.origin == "decoded" else run
            for run in state.runs
        ),
        cursor=None,
        busy=state.busy if state.opening is not None else "",
        error=event.reason,
        intervention=NO_CHANGES,
        beside=0,
        history=History(),
    )
    return Next(picture_again(state))


def _questions(awaiting: Awaiting) -> Awaiting:
    return awaiting.without(is_opening).without(is_side_request)


def _continues_other_model(state: State, event: Opened) -> bool:
    """Tell whether a waiting decode goes on with the tokens of another model's run."""
    sent = state.awaiting.newest(Decode)
    if sent is None or not isinstance(sent.request, Decode) or not sent.request.prefix:
        return False
    recorded = state.trace if state.recorded else None
    return recorded is not None and not same_model(recorded.model, event.model)


def _vocabulary(model: ModelFacts) -> tuple[object, ...]:
    """Return what models that write the same tokens, as in one training, share."""
    known = model.known
    sizes = known and (known.source_vocabulary, known.target_vocabulary)
    return sizes, model.pad, model.bos, model.eos


def _are_old(state: State, opening: OpenWish | None, event: Opened) -> bool:
    """Tell whether the answers used were given for other weights at that path."""
    recalled = opening is not None and opening.certain is not None
    return recalled and state.answers.changed(event.path, event.model.digest)


def _kept_answers(state: State, opening: OpenWish | None, event: Opened) -> Answers:
    if opening is None:
        return state.answers
    given = opening.request.overrides
    if not given and state.asked is None:
        return state.answers  # nobody was asked
    return state.answers.keep(event.path, event.model.digest, given)


def _go_on(state: State, event: Opened) -> Next:
    """Run on the new model what is on screen, if the model can read it."""
    recorded = state.trace if state.recorded else None
    if recorded is not None:
        same = recorded.model.digest == event.model.digest
        if not same or recorded.kinds != event.model.kinds:
            return Next(state)  # another model's: it stays until something is decoded
        prefix = tuple(step.choice for step in recorded.steps)
        wish = replace(state.wish, prefix=prefix)
        changed = recorded.intervention
        runs = state.runs
        if state.run is not None:  # what the model makes of it stands in its place
            runs = with_run(runs, replace(state.run, wish=wish, change=changed))
        state = replace(state, wish=wish, intervention=changed, runs=runs)
        return decode(state, state.step)
    sentence = state.wish.sentence
    wish = replace(state.wish, prefix=())  # they were another model's tokens
    if sentence and readable(sentence, event):
        return decode(replace(state, wish=wish, revision=object()), 1)
    if not sentence:
        return Next(state)
    wish = replace(wish, sentence="")
    return Next(leave_other_model(replace(state, wish=wish)))
