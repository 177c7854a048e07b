"""Requests beside the decode: batch, weights, lens, all tokens, checks, importance.

Every function here is pure, as those of ``runs``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from visformer.engine import messages
from visformer.language import N_, _
from visformer.pictures.attention.maps import attribution_place
from visformer.pictures.candidates import listed_row
from visformer.pictures.computation import subject
from visformer.pictures.output import known_rows, missing
from visformer.pictures.selection import SUMMARIES, AttentionCell
from visformer.pictures.words.modified_run import is_taught
from visformer.session.run import Run, RunOrigin, asked_of
from visformer.session.runs import fixed_words
from visformer.session.searches import search
from visformer.session.state import Next, State, is_open
from visformer.text import clean
from visformer.values.arrays import Floats
from visformer.values.facts import KINDS, SentenceSide
from visformer.values.finding import CheckResult, EvidencePlace
from visformer.values.layer_weights import LayerParameters, same_model
from visformer.values.measured import (
    ATTRIBUTIONS,
    Attribution,
    Attributions,
    ChangeReport,
    Importance,
    ImportanceOfPairs,
)
from visformer.values.memo import same
from visformer.values.reply import Reply
from visformer.values.step import LensRow, LensRows
from visformer.values.trace import Trace

BUSY = N_("switching off one head after the other")
NOT_OPEN = N_("The model that made this run is not open.")


def measure_importance(state: State, *, again: bool = False) -> Next:
    """Request what is to be measured, unless it was; ``again``: then too.

    That is the run on screen, unless the pairs of a file were measured by its model.
    """
    trace, known = _measured_run(state), known_importance(state)
    if state.busy or trace is None or not trace.steps or state.opened is None:
        return Next(state)
    if known is not None and known.about:
        return measure_pairs(state, known.about) if again else Next(state)
    if known is not None and not again:
        return Next(state)
    other = _source_beside(state, trace)
    of = _storages(trace, other)
    if not is_open(state, trace):
        return Next(replace(state, importance=Reply(of=of, reason=_(NOT_OPEN))))
    source = asked_of(other)["source"] if other is not None else ""
    request = messages.SwitchOff(other=source, **asked_of(trace))
    state = replace(state, importance=Reply(of=of), busy=_(BUSY))
    return Next(state, (request,))


def known_importance(state: State) -> Reply[Importance | ImportanceOfPairs] | None:
    """Return what was asked of the run on screen, or of pairs by the open model.

    None where it is of another run, or of another model: its heads are others.
    """
    known, trace = state.importance, _measured_run(state)
    if known is None or trace is None:
        return None
    of = _storages(trace, _source_beside(state, trace))
    return known if same(known.of, (state.opened,) if known.about else of) else None


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
    request = messages.SwitchOffOverPairs(path=path, intervention=state.intervention)
    state = replace(state, importance=Reply(of=(state.opened,), about=path))
    return Next(replace(state, busy=_(BUSY)), (request,))


def run_checks(state: State) -> Next:
    """Request what every check says of the run on screen, unless it is known."""
    trace = _measured_run(state)
    if state.busy or trace is None or state.opened is None:
        return Next(state)
    if known_checks(state) is not None:
        return Next(state)
    of = trace.storage
    if not is_open(state, trace):
        return Next(replace(state, checks=Reply(of=of, reason=_(NOT_OPEN))))
    request = messages.CheckRun(**asked_of(trace))
    state = replace(state, checks=Reply(of=of), busy=_("running the checks"))
    return Next(state, (request,))


def known_checks(state: State) -> Reply[tuple[CheckResult, ...]] | None:
    """Return what was asked of the run on screen; None where it is of another run."""
    known, trace = state.checks, _measured_run(state)
    if known is None or trace is None or not same(known.of, trace.storage):
        return None
    return known


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


def batch_done(
    state: State, request: messages.Batch, traces: tuple[Trace, ...]
) -> State:
    """Keep the rows of the batch."""
    return _experiment(state, *(Run(trace=trace, origin="batch") for trace in traces))


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


def shuffled(
    state: State,
    request: messages.Shuffle,
    both: tuple[tuple[int, ...], Trace, Trace],
) -> State:
    """Keep both orders."""
    order, baseline, moved = both
    own = Run(trace=baseline, origin="shuffled")
    other = Run(trace=moved, origin="shuffled", order=order, parent=own.key)
    return _experiment(state, own, other)


def _experiment(state: State, *made: Run) -> State:
    """Keep the runs of an experiment in place of those of the one before."""
    origins: set[RunOrigin] = {run.origin for run in made}
    for origin in origins:
        state = state.without(origin)
    return replace(state, runs=(*state.runs, *made))


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
        none = Attribution(reason=_(NOT_OPEN))
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


def attributed(state: State, request: messages.Attribute, made: Attribution) -> State:
    """Keep a measure, or why there is none."""
    had = state.attributions
    if had is None:
        return state
    known = {**had.known, request.place: made}
    return replace(state, attributions=replace(had, known=known))


def find_tokens(state: State, text: str) -> Next:
    """Look for the target tokens that a text names."""
    if fixed_words(state):
        return Next(state)
    text = clean(text)
    if not text.strip():
        return Next(state)
    state = replace(state, found=Reply(of=(), about=text))
    return Next(state, (messages.FindTokens(text=text),))


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
    known = known_rows(trace, state.lens)
    lens = LensRows(of=trace.storage, strategy=strategy, rows=known, asked=rows)
    request = messages.Lens(
        hidden=trace.streams(rows),
        chosen=np.array([trace.steps[row].id for row in rows], np.int64),
        temperature=strategy.temperature,
    )
    return Next(replace(state, lens=lens), (request,))


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
    wanted, known = messages.Nearest(side=side, asked=asked), state.near
    waits = state.awaiting.waits(messages.Nearest)
    mine = known is not None and known.is_of((opened,), wanted)
    if asked == "" or (known is not None and mine and (known.settled or waits)):
        return Next(state)
    value = known.value if known and same(known.of, (opened,)) else None
    near = Reply(of=(opened,), about=wanted, value=value)
    return Next(replace(state, near=near), (wanted,))


def _every_token(state: State) -> Next:
    """Request the whole distribution of the current step where it is listed."""
    trace, row = state.visible, listed_row(state.visible, state.locked)
    if not state.unfolded or state.busy or trace is None or row is None:
        return Next(state)
    known, waits = state.distribution, state.awaiting.waits(messages.AllTokens)
    if known is not None and known.is_of(trace.storage, row) and known.settled:
        return Next(state)
    if waits or not is_open(state, trace):  # of several rows one at a time
        return Next(state)
    request = messages.AllTokens(
        stream=_last_stream(trace, row),
        source=tuple(trace.source_ids.tolist()),
        target=tuple(trace.target_ids.tolist()),
        intervention=trace.intervention,
        row=row,
    )
    state = replace(state, distribution=Reply(of=trace.storage, about=row))
    return Next(state, (request,))


def _effect(state: State) -> Next:
    """Request what the changes of the run do to its steps, unless it is known."""
    whole, shown, known = state.trace, state.visible, state.effects
    if state.busy or whole is None or shown is None:
        return Next(state)
    step, reports = len(shown) - 1, dict[int, ChangeReport | None]()
    asked = False
    if known is not None and same(known.of, whole.storage):
        asked, reports = known.about == step, {**(known.value or {})}
    told = step in reports or not (shown.intervention and shown.steps)
    if told or not is_open(state, shown):
        return Next(state)
    waiting = state.awaiting.newest(messages.Effect)
    if waiting is not None and (asked or not waiting.ended):
        return Next(state)  # it comes, or was refused; of several steps one at a time
    trace = shown if state.passes else whole
    prompt = trace.target_ids[: trace.prompt]
    request = messages.Effect(
        source=tuple(map(int, trace.source_ids if trace.source else prompt)),
        chosen=tuple(one.choice for one in trace.steps),
        step=step,
        fed=is_taught(trace),
        intervention=trace.intervention,
    )
    state = replace(state, effects=Reply(of=whole.storage, about=step, value=reports))
    return Next(state, (request,))


def effect_done(
    state: State, request: messages.Effect, reports: dict[int, ChangeReport] | None
) -> State:
    """Keep it; without reports it is not available."""
    known = state.effects
    if known is None:
        return state
    found = {known.about: None} if reports is None else reports
    return replace(
        state, effects=replace(known, value={**(known.value or {}), **found})
    )


def _last_stream(trace: Trace, row: int) -> Floats:
    """Return what leaves the last decoder layer [D]; [0] where none is kept."""
    facts = trace.model.stacks.get("decoder")
    if facts is None or not facts.hidden:
        return np.zeros(0, np.float32)
    stream: Floats = trace.hidden("decoder", facts.hidden - 1)[row]
    return stream


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


def parameters_done(
    state: State, request: messages.Parameters, layer: LayerParameters | None
) -> State:
    """Keep the weights of a layer.

    Those of layers looked at before stay too while there is room: going back and forth
    between layers, one waits for each only once.
    """
    if layer is None:
        return state
    kept, room = [layer], MOST_WEIGHTS - layer.size
    for other in reversed(state.parameters):
        room -= other.size
        if room < 0 or not other.belong_to(layer.model):
            break
        kept.append(other)
    return replace(state, parameters=tuple(reversed(kept)))


def lens_done(state: State, request: messages.Lens, rows: tuple[LensRow, ...]) -> State:
    """Add the rows; if there are none, remember that too, so as not to ask again."""
    known = state.lens
    if known is None:
        return state
    made = {**known.rows, **dict(zip(known.asked, rows, strict=False))}
    return replace(state, lens=replace(known, rows=made, refused=not rows))
