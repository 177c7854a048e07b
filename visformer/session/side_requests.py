"""Requests beside the decode: batch, weights, lens, all tokens, checks, importance.

Every function here is pure, as those of ``runs``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from visformer.engine import messages
from visformer.language import N_, _
from visformer.pictures.attention.maps import attribution_place
from visformer.pictures.candidates import listed_row
from visformer.pictures.computation import subject
from visformer.pictures.output import known_rows, missing
from visformer.pictures.selection import SUMMARIES, AttentionCell
from visformer.pictures.words.modified_run import is_taught
from visformer.session.pending import LensAsked
from visformer.session.run import Run, RunOrigin, asked_of
from visformer.session.runs import fixed_words
from visformer.session.searches import search
from visformer.session.state import Next, State, is_open
from visformer.text import clean
from visformer.values.arrays import Floats
from visformer.values.facts import KINDS, SentenceSide
from visformer.values.finding import ChecksAsked, EvidencePlace
from visformer.values.layer_weights import same_model
from visformer.values.measured import (
    ATTRIBUTIONS,
    Attribution,
    Attributions,
    ChangeEffects,
    ChangeReport,
    ImportanceAsked,
    RowDistribution,
)
from visformer.values.memo import same
from visformer.values.step import LensRows
from visformer.values.trace import Trace

BUSY = N_("switching off one head after the other")


def measure_importance(state: State, *, again: bool = False) -> Next:
    """Request what is to be measured, unless it was; ``again``: then too.

    That is the run on screen, unless the pairs of a file were measured by its model.
    """
    trace, known = _measured_run(state), known_importance(state)
    if state.busy or trace is None or not trace.steps or state.opened is None:
        return Next(state)
    if known is not None and known.pairs:
        return measure_pairs(state, known.pairs) if again else Next(state)
    if known is not None and not again:
        return Next(state)
    other = _source_beside(state, trace)
    begun = ImportanceAsked(of=_storages(trace, other))
    if not is_open(state, trace):
        reason = _("The model that made this run is not open.")
        return Next(replace(state, importance=replace(begun, reason=reason)))
    source = asked_of(other)["source"] if other is not None else ""
    request = messages.SwitchOff(other=source, **asked_of(trace))
    return Next(replace(state, importance=begun, busy=_(BUSY)), (request,))


def known_importance(state: State) -> ImportanceAsked | None:
    """Return what was asked of the run on screen, or of pairs by the open model.

    None where it is of another run, or of another model: its heads are others.
    """
    known, trace = state.importance, _measured_run(state)
    if known is None or trace is None:
        return None
    of = _storages(trace, _source_beside(state, trace))
    return known if same(known.of, (state.opened,) if known.pairs else of) else None


def _measured_run(state: State) -> Trace | None:
    """Return the run on screen; up to its step where each step changed its rows."""
    return state.visible if state.passes else state.trace


def _storages(trace: Trace, other: Trace | None) -> tuple[object, ...]:
    return trace.storage if other is None else (*trace.storage, *other.storage)


def _source_beside(state: State, trace: Trace) -> Trace | None:
    """Return the run that this one is compared with, of another source as long."""
    other = None if state.compared is None else state.compared.trace
    if other is None or not same_model(other.model, trace.model):
        return None
    alike = len(other.source) == len(trace.source) and other.source != trace.source
    return other if alike else None


def measure_pairs(state: State, path: str) -> Next:
    """Measure the pairs of a file instead; "": the run on screen again."""
    if not path or state.opened is None:
        return Next(replace(state, importance=None))
    begun = ImportanceAsked(of=(state.opened,), pairs=path)
    request = messages.SwitchOffOverPairs(path=path, intervention=state.intervention)
    return Next(replace(state, importance=begun, busy=_(BUSY)), (request,))


def importance_measured(state: State, event: messages.SwitchedOff) -> Next:
    """Keep it."""
    return _importance(state, event.number, found=event.importance)


def importance_refused(state: State, event: messages.Refused) -> Next:
    """Say in its place why there is none."""
    return _importance(state, event.number, reason=event.reason)


def _importance(state: State, number: int, **made: Any) -> Next:
    asked = state.importance or ImportanceAsked(of=())
    return Next(state.answered(number, importance=replace(asked, **made)))


def run_checks(state: State) -> Next:
    """Request what every check says of the run on screen, unless it is known."""
    trace = _measured_run(state)
    if state.busy or trace is None or state.opened is None:
        return Next(state)
    if known_checks(state) is not None:
        return Next(state)
    asked = ChecksAsked(of=trace.storage)
    if not is_open(state, trace):
        reason = _("The model that made this run is not open.")
        return Next(replace(state, checks=replace(asked, reason=reason)))
    request = messages.CheckRun(**asked_of(trace))
    busy = _("running the checks")
    return Next(replace(state, checks=asked, busy=busy), (request,))


def known_checks(state: State) -> ChecksAsked | None:
    """Return what was asked of the run on screen; None where it is of another run."""
    known, trace = state.checks, _measured_run(state)
    if known is None or trace is None or not same(known.of, trace.storage):
        return None
    return known


def checked(state: State, event: messages.RunChecked) -> Next:
    """Keep what they say."""
    return _checks(state, event.number, results=event.results)


def not_checked(state: State, event: messages.Refused) -> Next:
    """Say in its place why there is nothing."""
    return _checks(state, event.number, reason=event.reason)


def _checks(state: State, number: int, **made: Any) -> Next:
    asked = state.checks or ChecksAsked(of=())
    return Next(state.answered(number, checks=replace(asked, **made)))


def look_at(state: State, id: str, at: EvidencePlace) -> State:
    """Return the State that shows the evidence of a finding."""
    kind = next((kind for kind in KINDS if kind == at.kind), None)
    if kind is None:  # a step
        step = state.step if at.row is None else at.row + 1
        return replace(state, tab="output", step=step)
    masks = id in ("no-key", "padding-read", "not-causal", "causal-off-by-one")
    cell, step = None, state.step
    if at.row is not None and at.key is not None:
        cell = AttentionCell(kind, at.row, at.key)
    if at.row is not None and kind != "encoder":  # the cell has to be there
        ahead = at.key or 0 if kind == "decoder" else 0
        step = max(step, at.row + 1, ahead + 1)
    return replace(
        state,
        tab="masks" if masks or id.startswith("mask-") else "attention",
        kind=kind,
        layer=at.layer or 0,
        head=at.head or 0,
        step=step,
        locked=cell,
    )


MOST_WEIGHTS = 1 << 24  # numbers of layers that are kept: 64 MiB
MOST_BYTES = 1 << 16  # of rows in one request: a pipe takes this much at once


def batch(state: State, sources: tuple[str, ...]) -> Next:
    """Run several sentences together."""
    request = messages.Batch(sources=tuple(map(clean, sources)))
    return Next(replace(state, busy=_("running the batch"), error=""), (request,))


def batch_done(state: State, event: messages.BatchDone) -> Next:
    """Keep the rows of the batch."""
    rows = (Run(trace=trace, origin="batch") for trace in event.traces)
    return _experiment(state, event.number, *rows)


def leave_batch(state: State) -> Next:
    """Show the sentence on screen instead of the batch."""
    return Next(state.without("batch"))


def shuffle(state: State) -> Next:
    """Run the source in another order too, with the target as far as it is shown."""
    shown = state.visible
    if shown is None or fixed_words(state):
        return Next(state)
    seed = state.shuffles + 1  # another order each time
    request = messages.Shuffle(
        source=shown.source_text,
        target=tuple(shown.target_ids.tolist()),
        intervention=shown.intervention,
        seed=seed,
    )
    busy = _("running the shuffled source")
    return Next(replace(state, shuffles=seed, busy=busy, error=""), (request,))


def shuffled(state: State, event: messages.Shuffled) -> Next:
    """Keep both orders."""
    own = Run(trace=event.baseline, origin="shuffled")
    other = Run(
        trace=event.shuffled, origin="shuffled", order=event.order, parent=own.key
    )
    return _experiment(state, event.number, own, other)


def _experiment(state: State, number: int, *made: Run) -> Next:
    """Keep the runs of an experiment in place of those of the one before."""
    origins: set[RunOrigin] = {run.origin for run in made}
    for origin in origins:
        state = state.without(origin)
    return Next(state.answered(number, runs=(*state.runs, *made)))


# ---- what tokens do to the run ---------------------------------------------------


def _attributions(state: State) -> Next:
    """Request a measure that is shown, of one kind of attention after the other."""
    how, trace = state.look.summary, state.trace
    if state.passes:  # each step has rows of its own
        trace = state.visible
    if how not in ATTRIBUTIONS or state.busy or trace is None or not trace.steps:
        return Next(state)
    had = state.attributions
    known = had.known if had is not None and same(had.of, trace.storage) else {}
    kinds = sorted(trace.kinds, key=lambda kind: kind != state.kind)  # its own first
    places = [attribution_place(trace, state.selection, kind, how) for kind in kinds]
    place = next((place for place in places if place not in known), None)
    if place is None:
        return Next(state)
    if not is_open(state, trace):
        none = Attribution(reason=_("The model that made this run is not open."))
        known = {**known, **dict.fromkeys(places, none)}
        kept = Attributions(of=trace.storage, known=known)
        return Next(replace(state, attributions=kept))
    kept = Attributions(of=trace.storage, known=known)
    request = messages.Attribute(
        place=place,
        shared=place.kind == "cross" and kept.share is None,
        **asked_of(trace),
    )
    busy = _("measuring {what}", what=_(SUMMARIES[how]))
    return Next(replace(state, attributions=kept, busy=busy), (request,))


def attributed(state: State, event: messages.Attributed) -> Next:
    """Keep a measure."""
    return _measured(state, event.number, event.attribution)


def not_attributed(state: State, event: messages.Refused) -> Next:
    """Say in the measure's place why there is none."""
    return _measured(state, event.number, Attribution(reason=event.reason))


def _measured(state: State, number: int, made: Attribution) -> Next:
    sent, had = state.awaiting.get(number), state.attributions
    state = state.answered(number)
    if had is None or sent is None or not isinstance(sent.request, messages.Attribute):
        return Next(state)
    known = {**had.known, sent.request.place: made}
    return Next(replace(state, attributions=replace(had, known=known)))


def find_tokens(state: State, text: str) -> Next:
    """Look for the target tokens that a text names."""
    if fixed_words(state):
        return Next(state)
    text = clean(text)
    return Next(state, (messages.FindTokens(text=text),) if text.strip() else ())


def tokens_found(state: State, event: messages.TokensFound) -> Next:
    """Keep the tokens that were found."""
    return Next(replace(_answered(state, event.number), found=event))


# ---- what the visible tab lacks ------------------------------------------------


def needed(state: State) -> Next:
    """Request what the visible tab shows and the State does not have yet."""
    asked: list[messages.Request] = []
    for want in (_every_token, _effect, *filter(None, [WANTS.get(state.tab)])):
        state, requests = want(state)
        asked += requests
    return Next(state, tuple(asked))


def _weights(state: State) -> Next:
    """Request the weights of the selected layer, if the stage is computed from them."""
    # imported with the Computation tab: the start does without it
    from visformer.pictures.computation.stages import stage_of

    if not stage_of(state.stage).weighs:
        return Next(state)
    place = subject.missing(state.visible, state.selection, state.parameters)
    if place is None or state.visible is None or not is_open(state, state.visible):
        return Next(state)
    request = messages.Parameters(stack=place[0], layer=place[1])
    waiting = state.awaiting.newest(messages.Parameters)
    if waiting is not None and waiting.request == request:
        return Next(state)
    return Next(state, (request,))


def _lens(state: State) -> Next:
    """Request the lens of the nearest rows, a few at a time."""
    if state.visible is None or not is_open(state, state.visible):
        return Next(state)
    rows = missing(state.visible, state.lens, busy=bool(state.busy))
    if not rows or state.awaiting.newest(messages.Lens) is not None:
        return Next(state)
    trace = state.visible.whole
    stack = trace.model.stacks["decoder"]
    width = 4 * stack.d_model * stack.hidden
    rows = rows[: max(1, MOST_BYTES // width)]
    strategy = state.wish.strategy
    question = LensAsked(of=trace.storage, rows=rows, strategy=strategy)
    request = messages.Lens(
        hidden=trace.streams(rows),
        chosen=np.array([trace.steps[row].id for row in rows], np.int64),
        temperature=strategy.temperature,
    )
    return Next(replace(state, lens_asked=question), (request,))


def _nearest(state: State) -> Next:
    """Request the tokens nearest to the one chosen, or to the sentence's longest."""
    trace, opened, asked = state.visible, state.opened, state.views.token
    if trace is None or opened is None or state.about is None:
        return Next(state)
    read, ids = trace.source, trace.source_ids
    if not read:
        read, ids = trace.target[: trace.prompt], trace.target_ids
    if asked == "" and read:
        asked = int(ids[max(range(len(read)), key=lambda at: len(read[at]))])
    side: SentenceSide = "target" if state.views.embedding == "target" else "source"
    wanted = opened.number, messages.Nearest(side=side, asked=asked)
    if asked == "" or wanted == state.near_of:
        return Next(state)
    same = state.near_of is not None and state.near_of[0] == opened.number
    near = state.near if same else None
    return Next(replace(state, near=near, near_of=wanted), (wanted[1],))


def nearest_done(state: State, event: messages.NearestDone) -> Next:
    """Keep the tokens that were found."""
    return Next(replace(_answered(state, event.number), near=event.near))


def _every_token(state: State) -> Next:
    """Request the whole distribution of the current step where it is listed."""
    trace, row = state.visible, listed_row(state.visible, state.locked)
    if not state.unfolded or state.busy or trace is None or row is None:
        return Next(state)
    known, waiting = state.distribution, state.awaiting.newest(messages.AllTokens)
    asked = known is not None and known.is_of(trace, row)
    if waiting is not None and (asked or not waiting.ended):
        return Next(state)  # it comes, or was refused; of several rows one at a time
    if (asked and known is not None and known.told) or not is_open(state, trace):
        return Next(state)
    request = messages.AllTokens(
        stream=_last_stream(trace, row),
        source=tuple(trace.source_ids.tolist()),
        target=tuple(trace.target_ids.tolist()),
        intervention=trace.intervention,
        row=row,
    )
    begun = RowDistribution(of=trace.storage, row=row)
    return Next(replace(state, distribution=begun), (request,))


def _effect(state: State) -> Next:
    """Request what the changes of the run do to its steps, unless it is known."""
    whole, shown, known = state.trace, state.visible, state.effects
    if state.busy or whole is None or shown is None:
        return Next(state)
    step, reports = len(shown) - 1, dict[int, ChangeReport | None]()
    asked = False
    if known is not None and same(known.of, whole.storage):
        asked, reports = known.step == step, {**known.reports}
    told = step in reports or not (shown.intervention and shown.steps)
    if told or not is_open(state, shown):
        return Next(state)
    waiting = state.awaiting.newest(messages.Effect)
    if waiting is not None and (asked or not waiting.ended):
        return Next(state)  # as in _every_token
    trace = shown if state.passes else whole
    prompt = trace.target_ids[: trace.prompt]
    request = messages.Effect(
        source=tuple(map(int, trace.source_ids if trace.source else prompt)),
        chosen=tuple(one.choice for one in trace.steps),
        step=step,
        fed=is_taught(trace),
        intervention=trace.intervention,
    )
    begun = ChangeEffects(of=whole.storage, step=step, reports=reports)
    return Next(replace(state, effects=begun), (request,))


def effect_done(state: State, event: messages.EffectDone) -> Next:
    """Keep it; it may be of a run that was left meanwhile."""
    state, known = _answered(state, event.number), state.effects
    if known is None:
        return Next(state)
    found = {known.step: None} if event.reports is None else event.reports
    made = known._replace(reports={**known.reports, **found})
    return Next(replace(state, effects=made))


def _last_stream(trace: Trace, row: int) -> Floats:
    """Return what leaves the last decoder layer [D]; [0] where none is kept."""
    facts = trace.model.stacks.get("decoder")
    if facts is None or not facts.hidden:
        return np.zeros(0, np.float32)
    stream: Floats = trace.hidden("decoder", facts.hidden - 1)[row]
    return stream


def all_tokens_done(state: State, event: messages.AllTokensDone) -> Next:
    """Keep the distribution; it may be of a row that was left meanwhile."""
    state, asked = _answered(state, event.number), state.distribution
    if asked is None:
        return Next(state)
    told = replace(asked, told=True, whole=event.distribution)
    return Next(replace(state, distribution=told))


def _output(state: State) -> Next:
    """Request what the visible page of the Output tab lacks."""
    searches_it = state.views.pages.get("output") == "search"
    return search(state) if searches_it else _lens(state)


def _diagnosis(state: State) -> Next:
    """Request what the visible page of the Diagnosis tab lacks."""
    page = state.views.pages.get("diagnosis")
    if page == "checks":
        return run_checks(state)
    return measure_importance(state) if page == "importance" else Next(state)


WANTS: dict[str, Callable[[State], Next]] = {
    "attention": _attributions,
    "computation": _weights,
    "diagnosis": _diagnosis,
    "output": _output,
    "positions": _nearest,
}


def parameters_done(state: State, event: messages.ParametersDone) -> Next:
    """Keep the weights of a layer; if there are none, do not ask again.

    Those of layers looked at before stay too while there is room: going back and forth
    between layers, one waits for each only once.
    """
    if event.parameters is None:
        return Next(replace(state, awaiting=state.awaiting.end(event.number)))
    kept, room = [event.parameters], MOST_WEIGHTS - event.parameters.size
    for layer in reversed(state.parameters):
        room -= layer.size
        if room < 0 or not layer.belong_to(event.parameters.model):
            break
        kept.append(layer)
    answered = _answered(state, event.number)
    return Next(replace(answered, parameters=tuple(reversed(kept))))


def lens_done(state: State, event: messages.LensDone) -> Next:
    """Add the rows; if there are none, remember that too, so as not to ask again."""
    state, question = _answered(state, event.number), state.lens_asked
    trace = state.visible
    if question is None or trace is None or not same(question.of, trace.storage):
        return Next(state)  # another run is on screen: its rows are requested next
    known = known_rows(trace, state.lens)
    rows = {**known, **dict(zip(question.rows, event.rows, strict=False))}
    lens = LensRows(
        of=question.of, strategy=question.strategy, rows=rows, refused=not event.rows
    )
    return Next(replace(state, lens=lens, lens_asked=None))


def side_request_refused(state: State, event: messages.Refused) -> Next:
    """Say why; the same request is not repeated."""
    awaiting = state.awaiting.end(event.number)
    return Next(replace(state, awaiting=awaiting, error=event.reason))


def _answered(state: State, number: int) -> State:
    """Stop waiting for an answer; the same may be requested again."""
    awaiting = state.awaiting.without(lambda sent: sent.number == number)
    return replace(state, awaiting=awaiting)
