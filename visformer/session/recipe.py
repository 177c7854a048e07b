"""Recipe: what a session is made again from: texts, choices, changes, selection.

Beside it a session file holds runs, from which the session goes on at once.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated, Any

import msgspec

from visformer.engine.messages import Open, Opened
from visformer.errors import InputError
from visformer.language import _
from visformer.session.history import EditedRun, EditName, History, Wish
from visformer.session.runs import decode, is_answered
from visformer.session.state import Next, State
from visformer.text import MAX_CHARACTERS
from visformer.trace_file.saved_session import SavedRun
from visformer.trace_file.stored_facts import RunSelection
from visformer.values.facts import Kind
from visformer.values.intervention import Intervention
from visformer.values.questions import Value
from visformer.values.step import Choice, Count
from visformer.values.strategy import Strategy

KEPT_EDITS = 20  # in a recipe, on each side
TypedText = Annotated[str, msgspec.Meta(max_length=MAX_CHARACTERS)]


class WantedRun(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A run as it was wanted; tokens, layers and steps count from 0."""

    sentence: TypedText = ""
    reference: TypedText = ""
    fed: bool = True  # the reference; else it is only compared with
    strategy: Strategy = Strategy()
    limit: Count | None = None
    prefix: tuple[Choice, ...] = ()
    change: list[dict[str, Any]] | dict[str, Any] | None = None  # of Intervention
    step: Count = 0
    edit: EditName = "sentence"  # between it and the current run

    @property
    def wish(self) -> Wish:
        """What is translated, and how."""
        return Wish(
            sentence=self.sentence,
            reference=self.reference,
            fed=self.fed,
            strategy=self.strategy,
            limit=self.limit,
            prefix=self.prefix,
        )

    @property
    def intervention(self) -> Intervention:
        """What changes the run."""
        return Intervention.from_json(self.change) if self.change else Intervention()


class Recipe(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a window works on; ``path`` is the checkpoint that it had open."""

    wanted: WantedRun
    undo: tuple[WantedRun, ...] = ()
    redo: tuple[WantedRun, ...] = ()
    path: str = ""
    overrides: tuple[tuple[str, Value], ...] = ()
    digest: str = ""  # of that checkpoint
    recorded: bool = False  # the run is a file's, which nothing has changed
    tab: str = "attention"
    stage: str = "softmax"
    kind: Kind = "cross"
    layer: Count = 0
    head: Count = 0

    @property
    def history(self) -> History:
        """The edits; each run is computed again when it is gone back to."""
        return History(
            tuple(_edited(run) for run in self.undo),
            tuple(_edited(run) for run in self.redo),
        )


def recipe_of(state: State) -> Recipe | None:
    """Return the recipe of what is on screen; None where nothing is.

    While a session is being opened again, its own recipe is returned.
    """
    going = state.awaiting.newest(Open)
    waits = going is not None and not going.ended
    if waits and state.opening is not None and state.opening.resume is not None:
        return state.opening.resume
    if not state.wish.sentence:
        return None
    opened, undo, redo = state.opened, state.history.undo, state.history.redo
    return Recipe(
        wanted=_wanted(state.wish, state.intervention, state.step),
        undo=tuple(map(_wanted_of, undo[-KEPT_EDITS:])),
        redo=tuple(map(_wanted_of, redo[-KEPT_EDITS:])),
        path=opened.path if opened is not None else "",
        overrides=state.answers.about(opened.path) or () if opened is not None else (),
        digest=opened.model.digest if opened is not None else "",
        recorded=state.recorded,
        tab=state.tab,
        stage=state.stage,
        kind=state.kind,
        layer=state.layer,
        head=state.head,
    )


def written(recipe: Recipe) -> bytes:
    """Return it as JSON."""
    return msgspec.json.encode(recipe)


def read_recipe(data: bytes) -> Recipe:
    """Read what ``written`` returned; InputError for anything else."""
    try:
        recipe = msgspec.json.decode(data, type=Recipe)
        for run in (recipe.wanted, *recipe.undo, *recipe.redo):
            _check(run)
    except (ValueError, TypeError, KeyError, InputError, RecursionError) as error:
        raise InputError(
            _("What was worked on cannot be read: this part of the file is damaged.")
        ) from error
    return recipe


def _check(run: WantedRun) -> None:
    """Raise ValueError for a strategy that cannot be; InputError for such a change."""
    way = run.strategy
    good = 0 < way.temperature < math.inf and 0 < way.top_p <= 1
    if not good or way.top_k < 0 or not 0 <= way.seed < 1 << 63:
        raise ValueError("strategy")
    run.intervention.to_json()


def _wanted(wish: Wish, intervention: Intervention, step: int) -> WantedRun:
    return WantedRun(
        sentence=wish.sentence,
        reference=wish.reference,
        fed=wish.fed,
        strategy=wish.strategy,
        limit=wish.limit,
        prefix=wish.prefix,
        change=intervention.to_json() if intervention else None,
        step=step,
    )


def _wanted_of(run: EditedRun) -> WantedRun:
    return msgspec.structs.replace(
        _wanted(run.wish, run.intervention, run.step), edit=run.edit
    )


def _edited(run: WantedRun) -> EditedRun:
    return EditedRun(
        edit=run.edit,
        wish=run.wish,
        intervention=run.intervention,
        step=run.step,
        revision=object(),
    )


ORIGINAL = "original run"  # names in files: the same in every language
MODIFIED_RUN = "modified run"


def settled(state: State) -> State:
    """Return a State whose wish is that of the run on screen.

    A wish that was refused, or is being made, is left out.
    """
    made = state.made_for
    if state.recorded or made is None or is_answered(state):
        return state
    return replace(state, wish=Wish.of(made), intervention=made.intervention)


def runs_of(state: State) -> list[SavedRun]:
    """Return the runs on screen, the one shown last; none while they are not there."""
    trace = state.trace
    if trace is None or not is_answered(state):
        return []
    selection = RunSelection(
        kind=state.kind,
        layer=state.layer,
        head=state.head,
        step=state.step,
        tab=state.tab,
    )
    name = MODIFIED_RUN if trace.intervention else ORIGINAL
    runs = [SavedRun(trace=trace, name=name, selection=selection)]
    if state.baseline is not None:
        runs.insert(0, SavedRun(trace=state.baseline, name=ORIGINAL))
    return runs


def goes_on_with(state: State, recipe: Recipe) -> bool:
    """Tell whether all that a recipe was kept of is open again, and is worked on.

    Of a recorded run that is its run alone: what came before it was in no recipe.
    """
    if recipe.recorded:
        same_run = state.wish.sentence == recipe.wanted.sentence
        return same_run and not recipe.undo and not recipe.redo
    opened = state.opened
    same_model = opened is not None and opened.model.digest == recipe.digest
    return same_model and state.opening is None


def resumed(state: State, recipe: Recipe, event: Opened) -> Next:
    """Go on with a session whose model is open again; its run is made again.

    A model that has changed since makes no run of it: what was recorded stays.
    """
    if event.model.digest != recipe.digest:
        error = _(
            "The model has changed since the session was kept: its run is shown as it "
            "was."
        )
        return Next(replace(state, error=error))
    wanted = recipe.wanted
    state = replace(
        state,
        wish=wanted.wish,
        intervention=wanted.intervention,
        history=recipe.history,
        baseline=None,
    )
    return decode(state, wanted.step)
