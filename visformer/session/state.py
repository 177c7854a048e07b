"""State: all that is on screen follows from it. Session: holds it, calls a listener."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol

from visformer.engine.messages import Asked, Open, Opened, Request
from visformer.pictures.picture import Axis
from visformer.pictures.selection import (
    AT_FIRST,
    DEFAULT_LOOK,
    AttentionCell,
    Look,
    Scale,
    Selection,
    StageOptions,
    ViewOptions,
)
from visformer.pictures.words.scene import Scene
from visformer.session.pending import Answers, Awaiting, OpenWish
from visformer.session.run import (
    History,
    Run,
    RunOrigin,
    Wish,
    kept_runs,
    parent_of,
    without_run,
)
from visformer.values.arrays import Floats
from visformer.values.beam_search import BeamSearch
from visformer.values.facts import Kind, ModelFacts
from visformer.values.finding import CheckResult
from visformer.values.heads_of_pairs import HeadsOfPairs
from visformer.values.intervention import NO_CHANGES, Intervention
from visformer.values.layer_weights import LayerParameters, same_model
from visformer.values.measured import (
    Attributions,
    ChangeReport,
    Importance,
    ImportanceOfPairs,
    NearWords,
    SeriesPoint,
    WholeDistribution,
)
from visformer.values.memo import same
from visformer.values.reply import Reply
from visformer.values.scanned import Calibration, ScannedPair
from visformer.values.step import LensRows
from visformer.values.trace import Trace

Dimensions = Mapping[Axis, int]  # one of each axis, at most
SHOWN_WHOLE = 256  # tokens up to which a recorded target is shown whole at once
MOST_PLACES = 100  # that can be gone back to


class Place(NamedTuple):
    """A tab, and what it is turned to."""

    tab: str
    kind: Kind
    layer: int
    head: int
    step: int
    stage: str
    stage_options: StageOptions
    views: ViewOptions

    @property
    def seen(self) -> tuple[object, ...]:
        """What makes it another place; fields of a view do not."""
        page = self.views.pages.get(self.tab)
        return self.tab, page, self.kind, self.layer, self.head, self.step


def limited(place: Place, trace: Trace) -> Place:
    """Limit a place to what a Trace has; no step comes before the end of its prompt."""
    kind = place.kind if place.kind in trace.kinds else trace.kinds[-1]
    return place._replace(
        kind=kind,
        layer=max(0, min(place.layer, trace.layers(kind) - 1)),
        head=max(0, min(place.head, trace.heads(kind) - 1)),
        step=max(trace.prompt, min(place.step, len(trace))),
    )


@dataclass(frozen=True, slots=True)
class Trail:
    """Trail before and after the current one, the nearest last."""

    back: tuple[Place, ...] = ()
    forward: tuple[Place, ...] = ()

    def left(self, place: Place, now: Place) -> Trail:
        """Return them after the user has gone from a place to another.

        Step after step counts as one way: Back leads to where it began.
        """
        if place.seen == now.seen:
            return self
        walked = _only_steps(place, now) and abs(now.step - place.step) == 1
        if walked and self.back and _only_steps(self.back[-1], place):
            return Trail(self.back)
        return Trail((*self.back, place)[-MOST_PLACES:])

    def way(
        self, now: Place, trace: Trace | None, *, forward: bool = False
    ) -> tuple[Place, Trail] | None:
        """Return the nearest place that differs from ``now``, and the trail from there.

        None where there is none.
        """
        places = self.forward if forward else self.back
        for at in range(len(places) - 1, -1, -1):
            place = places[at] if trace is None else limited(places[at], trace)
            if place.seen != now.seen:
                left, passed = places[:at], self.back if forward else self.forward
                to = ((*passed, now), left) if forward else (left, (*passed, now))
                return place, Trail(*to)
        return None


def _only_steps(one: Place, other: Place) -> bool:
    return one.seen[:-1] == other.seen[:-1] and one.step != other.step


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Series:
    """A training series as far as it has come, and the keys of its runs."""

    folder: str
    points: tuple[SeriesPoint, ...] = ()
    keys: tuple[int, ...] = ()
    left_out: tuple[str, ...] = ()  # why, a sentence for each


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ScannedFile:
    """A file of pairs as far as it is scanned."""

    path: str
    pairs: tuple[ScannedPair, ...] = ()
    # of each group of pairs, in the order of ``scans``: how many, and their mean losses
    counts: tuple[tuple[int, float], ...] = ()
    left_out: tuple[str, ...] = ()  # lines, a sentence for each
    usual: Calibration | None = None  # None: it is not done
    checked: tuple[str, ...] = ()  # what the checks find in the most faulty pair


@dataclass(frozen=True, eq=False, kw_only=True)
class State:
    """A frozen value; changed only through a ``Session``.

    ``trace`` holds all that was decoded ahead; ``visible`` is what is shown of it: its
    first ``step`` rows. ``step`` counts decoded tokens: 0 shows an empty target, n
    shows the n-th choice and the rows 0 to n - 1 that led to it.
    """

    opened: Opened | None = None  # the model that the engine has open
    wish: Wish = field(default_factory=Wish)  # what is translated, and how
    awaiting: Awaiting = field(default_factory=Awaiting)  # asked of the engine
    cursor: int | None = None  # the step to go to once it is decoded, if it is not yet
    opening: OpenWish | None = None  # the checkpoint that is being opened
    asked: Asked | None = None  # questions about a file that are not answered yet
    asked_for: OpenWish | None = None  # the opening that led to them
    answers: Answers = field(
        default_factory=Answers
    )  # what was answered about files so far
    shuffles: int = 0  # how many orders of a source were requested
    history: History = field(default_factory=History)  # for undo and redo
    revision: object = field(default_factory=object)  # another one after each edit
    trail: Trail = field(default_factory=Trail)  # for back and forward
    runs: tuple[Run, ...] = ()
    shown: int = 0  # the key of the run on screen; 0 for none
    beside: int = 0  # the key of the original of a changed one; 0 for none
    # the key of the run that others are compared with; 0: of none, as long as the same
    # run is shown; None: of the one that they came from
    pinned: int | None = None
    visible: Trace | None = None  # derived
    step: int = 0
    led: str = ""  # digest of the model whose telling head has been shown
    begun: Place | None = None  # where the run that is decoded is to be looked at
    seeks: bool = False  # at its end the step that says most is gone to
    parameters: tuple[LayerParameters, ...] = ()  # of the layers looked at, newest last
    lens: LensRows | None = None  # what each layer would predict, as far as it came
    attributions: Attributions | None = None  # what tokens do, as far as measured
    # of the run on screen, once they were asked for
    checks: Reply[tuple[CheckResult, ...]] | None = None
    # what heads do, once it was asked for; about the path of a file, or ""
    importance: Reply[Importance | ImportanceOfPairs] | None = None
    # what the changes do, by step from 0; None: not available; about the last step
    effects: Reply[Mapping[int, ChangeReport | None]] | None = None
    intervention: Intervention = NO_CHANGES  # what the user has changed in the run
    search: Reply[BeamSearch] | None = None  # of the sentence; about a ``SearchBeams``
    # ids and tokens that a text names, the likest first; about the text
    found: Reply[tuple[tuple[int, str], ...]] | None = None
    unfolded: bool = False  # every next token is listed, not the best alone
    # what is listed then; about a row, of an encoder alone the masked token
    distribution: Reply[WholeDistribution] | None = None
    near: Reply[NearWords] | None = None  # to what was looked up; about a ``Nearest``
    tab: str = "attention"
    stage: str = "softmax"  # of the Computation tab
    stage_options: StageOptions = AT_FIRST
    views: ViewOptions = field(default_factory=ViewOptions)
    kind: Kind = "cross"  # the focused one: its heads are in the overview
    layer: int = 0
    head: int = 0
    scale: Scale = "fixed"
    # the Attention tab's: form, summary, tokens hidden or merged
    look: Look = DEFAULT_LOOK
    hovered: AttentionCell | None = None
    locked: AttentionCell | None = None  # a click locks, Escape unlocks
    hovered_dimensions: Dimensions = field(default_factory=dict)
    locked_dimensions: Dimensions = field(default_factory=dict)
    scan: ScannedFile | None = None  # the pairs that the Diagnosis tab lists
    heads: HeadsOfPairs | None = None  # of a file, on the Diagnosis tab
    series: Series | None = None  # the training that the Diagnosis tab follows
    silence: str = ""  # how long the engine has not answered, in words
    busy: str = ""  # what the engine is doing, in words; empty when idle
    step_ms: float | None = None  # milliseconds per step of the last decode
    notice: str = ""  # worth knowing: a cut sentence, a replaced engine
    error: str = ""  # one sentence: what went wrong and what to do

    def find(self, key: int | None) -> Run | None:
        """Return the run of a key; None where it is no longer kept."""
        return next((run for run in self.runs if run.key == key), None)

    @cached_property
    def run(self) -> Run | None:
        """The run on screen."""
        return self.find(self.shown)

    @property
    def trace(self) -> Trace | None:
        """The whole Trace of the run on screen."""
        return self.run.trace if self.run is not None else None

    @property
    def recorded(self) -> bool:
        """Whether it was read from a file, not made by the engine."""
        return self.run is not None and self.run.origin == "recorded"

    @property
    def passes(self) -> tuple[Trace, ...]:
        """Its Traces by step, if each step changed the rows before it."""
        return self.run.passes if self.run is not None else ()

    @property
    def report(self) -> ChangeReport | None:
        """What is known of the changes at the step that is shown."""
        known, whole, shown = self.effects, self.trace, self.visible
        if known is None or known.value is None or whole is None or shown is None:
            return None
        mine = same(known.of, whole.storage)
        return known.value.get(len(shown) - 1) if mine else None

    @property
    def baseline(self) -> Trace | None:
        """The run that it is compared with: the one without changes, once known."""
        run = self.find(self.beside)
        return None if run is None else run.trace

    @property
    def compared(self) -> Run | None:
        """The run that the one on screen is compared with, side by side."""
        if self.run is None or self.pinned == self.shown:
            return None
        if self.pinned is None:
            return parent_of(self.runs, self.run)
        return self.find(self.pinned)

    @property
    def tree(self) -> tuple[Run, ...]:
        """The runs of sentences: without those of experiments, and deleted ones."""
        made = ("decoded", "recorded")
        return tuple(r for r in self.runs if r.origin in made and not r.gone)

    @property
    def batch(self) -> tuple[Trace, ...]:
        """Several sentences run together, pads included."""
        return self._experiment("batch")

    @property
    def shuffle(self) -> tuple[Trace, Trace, tuple[int, ...]] | None:
        """The sentence in its own order and in another, and where each token was."""
        order = next((run.order for run in self.runs if run.order), ())
        pair = self._experiment("shuffled")
        return (pair[0], pair[1], order) if pair else None

    def _experiment(self, origin: RunOrigin) -> tuple[Trace, ...]:
        made = (run.trace for run in self.runs if run.origin == origin)
        return tuple(trace for trace in made if trace is not None)

    @property
    def about(self) -> Opened | None:
        """The open model, if it is the one on screen.

        A Trace belongs to its own model: a recorded one until something is decoded, the
        run of a model that was just closed until the new one's is there.
        """
        if self.opened is None or self.trace is None:
            return self.opened
        shown = self.trace.model
        same = shown.digest == self.opened.model.digest
        known = shown.known is not None or not self.recorded
        return self.opened if same and known else None

    @property
    def model(self) -> ModelFacts | None:
        if self.about is not None:
            return self.about.model
        return self.trace.model if self.trace is not None else None

    @property
    def ahead(self) -> Trace | None:
        """The run with what is not yet stepped to; None where that is not shown.

        A long recorded run is not read for it.
        """
        trace, known = self.trace, not self.recorded
        if trace is None or not (known or len(trace) <= SHOWN_WHOLE):
            return None
        return trace if self.look.ahead else None

    def answered(self, number: int, **made: Any) -> State:
        """Return it with what a request made that is answered completely."""
        awaiting = self.awaiting.end(number)
        return replace(self, awaiting=awaiting, busy="", **made)

    def turned(self, tab: str, page: str) -> State:
        """Return it with another page of a tab."""
        pages = {**self.views.pages, tab: page}
        return replace(self, views=replace(self.views, pages=pages))

    def without(self, origin: RunOrigin) -> State:
        """Return it without the runs of an experiment."""
        left = tuple(run for run in self.runs if run.origin != origin)
        return replace(self, runs=left) if len(left) < len(self.runs) else self

    @property
    def positions(self) -> Floats | None:
        """Its encodings, [max_positions, D], if it is the open model."""
        return self.about.positions if self.about is not None else None

    @property
    def dropout(self) -> tuple[float, ...]:
        """The rates of its training, if it is the open model; () if unknown."""
        return self.about.dropout if self.about is not None else ()

    @property
    def place(self) -> Place:
        """Where the user looks."""
        return Place(**{name: getattr(self, name) for name in Place._fields})

    @property
    def cell(self) -> AttentionCell | None:
        """The cell in focus: the hovered one, otherwise the locked one."""
        return self.hovered or self.locked

    @property
    def dimensions(self) -> Dimensions:
        """The dimensions in focus by axis: the hovered one, or the locked one."""
        return {**self.locked_dimensions, **self.hovered_dimensions}

    @property
    def selection(self) -> Selection:
        """The part of the Trace that is shown."""
        return Selection(
            kind=self.kind,
            layer=self.layer,
            head=self.head,
            cell=self.cell,
            scale=self.scale,
            attributions=self.attributions,
        )

    @property
    def scene(self) -> Scene:
        """What the sentences that explain the screen need."""
        return Scene(
            trace=self.visible,
            model=self.model,
            selection=self.selection,
            look=self.look,
            stage=self.stage,
            lens=self.lens,
            limit=self.wish.limit,
            strategy=self.wish.strategy,
            smoothing=None if self.about is None else self.about.smoothing,
            near=None if self.near is None else self.near.value,
            search=None if self.search is None else self.search.value,
        )


def clamp(state: State, before: State) -> State:
    """Limit the selection to what there is, and derive ``visible``.

    ``visible`` stays the same object while its content is the same. The kind is one
    that the Trace has, and no step comes before the end of its prompt.
    """
    state = _tidied(state, before)
    trace = state.trace
    if trace is None:
        return replace(state, visible=None, step=0, hovered=None, locked=None)
    _tab, kind, layer, head, step, *_rest = limited(state.place, trace)
    same = before.trace is trace and before.step == step
    visible = before.visible if same else None
    visible = visible or _visible(state, trace, step)
    return replace(
        state,
        kind=kind,
        step=step,
        visible=visible,
        layer=layer,
        head=head,
        hovered=_inside(state.hovered, visible),
        locked=_inside(state.locked, visible),
    )


def _tidied(state: State, before: State) -> State:
    """Keep of the runs what there is room for; drop a shuffled source of another one.

    Of runs that have left the screen, what pictures derived is dropped.
    """
    now, then = state.trace, before.trace
    if now is not None and then is not None and not _same_sentence(now, then):
        state = state.without("shuffled")
    if state.pinned == 0 and state.shown != before.shown:
        state = replace(state, pinned=None)
    on_screen = _on_screen(state)
    left = _on_screen(before) - on_screen
    if not left and on_screen == _on_screen(before) and state.history is before.history:
        return state
    runs = state.runs
    for run in runs:  # what was never finished leaves the tree with the screen
        if not run.ended and run.key not in (state.shown, state.beside):
            runs = without_run(runs, run.key)
    runs = kept_runs(runs, on_screen, state.history)
    runs = tuple(run.bare() if run.key in left else run for run in runs)
    keys = {run.key for run in runs}
    return replace(
        state,
        runs=runs,
        shown=state.shown if state.shown in keys else 0,
        beside=state.beside if state.beside in keys else 0,
        pinned=state.pinned if state.pinned in (*keys, 0) else None,
    )


def _on_screen(state: State) -> set[int]:
    compared = state.compared
    keys = state.shown, state.beside, 0 if compared is None else compared.key
    return {*keys} - {0}


def _same_sentence(one: Trace, other: Trace) -> bool:
    return one.source == other.source and one.model == other.model


def _visible(state: State, trace: Trace, step: int) -> Trace:
    return state.passes[step] if step < len(state.passes) else trace.until(step)


def _inside(cell: AttentionCell | None, trace: Trace) -> AttentionCell | None:
    if cell is None or cell.kind not in trace.kinds:
        return None
    queries, keys = trace.tokens(cell.kind)
    valid = 0 <= cell.query < len(queries) and 0 <= cell.key < len(keys)
    return cell if valid else None


def is_open(state: State, trace: Trace) -> bool:
    """Tell whether the engine has the Trace's model open, not another one."""
    return state.opened is not None and same_model(state.opened.model, trace.model)


class Next(NamedTuple):
    """The result of a transition: a State, and requests to the engine."""

    state: State
    requests: tuple[Request, ...] = ()


class EngineLike(Protocol):
    """What a Session needs of the engine."""

    def open(self, request: Open) -> int:
        """Open a checkpoint, or ask about it; returns the request's number."""

    def ask(self, request: Request) -> int:
        """Ask the open model something; returns the request's number."""

    def stop(self) -> None:
        """End what is computed after its current step."""

    def abandon(self) -> None:
        """Give up an opening."""


P = ParamSpec("P")


def _fields_of(
    _kind: Callable[P, State],
) -> Callable[[Callable[..., None]], Callable[Concatenate[Session, P], None]]:
    """Let a method take the fields of a class by name, each with its type."""
    return lambda method: method


class Session:
    """Holds the one State; every change goes through ``set`` or ``do``."""

    def __init__(
        self,
        listener: Callable[[State], None] | None = None,
        engine: EngineLike | None = None,
        needed: Callable[[State], Next] = Next,
    ) -> None:
        """``needed`` is called after each change, to request what is missing."""
        self.state = State()
        self._listener, self._engine, self._needed = listener, engine, needed

    @_fields_of(State)
    def set(self, **changes: Any) -> None:
        """Replace fields of the State, clamp the selection, call the listener.

        The place that is left by it can be gone back to.
        """
        self.go(replace(self.state, **changes))

    def go(self, state: State) -> None:
        """Show another State that the user has turned to, as ``set`` does."""
        self._become(state, moved=True)

    def do(
        self,
        transition: Callable[Concatenate[State, P], Next],
        *args: P.args,
        **given: P.kwargs,
    ) -> None:
        """Apply a transition, and send its requests."""
        self._become(self._asked(transition(self.state, *args, **given)))

    def _become(self, state: State, *, moved: bool = False) -> None:
        before, state = self.state, clamp(state, self.state)
        if moved:
            state = replace(state, trail=before.trail.left(before.place, state.place))
        self.state = self._asked(self._needed(state))
        if self._listener is not None:
            self._listener(self.state)

    def _asked(self, to: Next) -> State:
        """Send the requests; return the State that waits for their answers."""
        state = to.state
        for request in to.requests:
            if self._engine is None:
                break
            if isinstance(request, Open):
                number = self._engine.open(request)
            else:
                number = self._engine.ask(request)
            state = replace(state, awaiting=state.awaiting.add(number, request))
        return state
