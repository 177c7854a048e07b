"""Recipe: what a session is made again from: texts, choices, changes, selection.

Beside it a session file holds runs, from which the session goes on at once.
"""

import math
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Annotated, Any

import msgspec

from visformer.errors import InputError
from visformer.pictures.runs_tree import Outline
from visformer.pictures.selection import (
    AT_FIRST,
    DEFAULT_LOOK,
    Look,
    Scale,
    StageOptions,
    ViewOptions,
)
from visformer.session.run import EditedRun, EditName, History, Run, Wish, parent_of
from visformer.text import MAX_CHARACTERS
from visformer.values.facts import Kind
from visformer.values.intervention import Intervention
from visformer.values.questions import Value
from visformer.values.step import MOST_BEAMS, Choice, Count, Strategy

KEPT_EDITS = 20  # in a recipe, on each side
WISHED = tuple(field.name for field in fields(Wish))
# what is looked at, in a recipe and in a State
LOOKED = (
    *("tab", "stage", "kind", "layer", "head"),
    *("stage_options", "views", "scale", "look"),
)
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
    run: Count | None = None  # its number in the file; None: it is computed again

    @property
    def wish(self) -> Wish:
        """What is translated, and how."""
        return Wish(**{name: getattr(self, name) for name in WISHED})

    @property
    def intervention(self) -> Intervention:
        """What changes the run."""
        return Intervention.from_json(self.change) if self.change else Intervention()


class RecipeRun(WantedRun, frozen=True, kw_only=True, omit_defaults=True):
    """A run of the tree, and what is said of it where the file has no numbers of it."""

    known: Outline
    name: str = ""
    note: str = ""
    path: str = ""
    parent: Count | None = None  # its number in the tree
    wished: bool = True  # else what it answers is not known


class Recipe(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a window works on; ``path`` is the checkpoint that it had open."""

    wanted: WantedRun
    undo: tuple[WantedRun, ...] = ()
    redo: tuple[WantedRun, ...] = ()
    path: str = ""
    overrides: tuple[tuple[str, Value], ...] = ()
    digest: str | None = ""  # of that checkpoint; None: of whatever is there
    recorded: bool = False  # the run is a file's, which nothing has changed
    tree: tuple[RecipeRun, ...] = ()
    pinned: Count | None = None  # the number in the tree of the baseline
    tab: str = "attention"
    stage: str = "softmax"
    kind: Kind = "cross"
    layer: Count = 0
    head: Count = 0
    stage_options: StageOptions = AT_FIRST
    views: ViewOptions = ViewOptions()
    scale: Scale = "fixed"
    look: Look = DEFAULT_LOOK

    def history(self, keys: Sequence[int] = ()) -> History:
        """Return the edits; ``keys`` are those of the runs in the recipe's file."""
        return History(
            tuple(_edited(run, keys) for run in self.undo),
            tuple(_edited(run, keys) for run in self.redo),
        )


def written(recipe: Recipe) -> bytes:
    """Return it as JSON."""
    return msgspec.json.encode(recipe)


def read_recipe(data: bytes) -> Recipe:
    """Read what ``written`` returned; InputError for anything else."""
    try:
        recipe = msgspec.json.decode(data, type=Recipe)
        for run in (recipe.wanted, *recipe.undo, *recipe.redo, *recipe.tree):
            _check(run)
        rate = recipe.stage_options.rate
        if not (rate is None or 0 <= rate <= 1) or recipe.stage_options.seed < 0:
            raise ValueError("stage_options")
        if not 0 < recipe.look.mass <= 1:
            raise ValueError("look")
    except (ValueError, TypeError, KeyError, InputError, RecursionError) as error:
        raise InputError(
            "What was worked on cannot be read: this part of the file is damaged."
        ) from error
    return recipe


def _check(run: WantedRun) -> None:
    """Raise ValueError for a strategy that cannot be; InputError for such a change."""
    way = run.strategy
    good = 0 < way.temperature < math.inf and 0 < way.top_p <= 1
    good = good and 1 <= way.beams <= MOST_BEAMS
    if not good or way.top_k < 0 or not 0 <= way.seed < 1 << 63:
        raise ValueError("strategy")
    run.intervention.to_json()


def wanted_of(wish: Wish, intervention: Intervention, step: int) -> WantedRun:
    """Return a run as it was wanted."""
    wished = {name: getattr(wish, name) for name in WISHED}
    change = intervention.to_json() if intervention else None
    return WantedRun(**wished, change=change, step=step)


def edits_of(edits: Sequence[EditedRun], keys: Sequence[int]) -> tuple[WantedRun, ...]:
    """Return the newest edits; ``keys`` are those of the runs beside the recipe."""
    return tuple(
        msgspec.structs.replace(
            wanted_of(edit.wish, edit.intervention, edit.step),
            edit=edit.edit,
            run=keys.index(edit.run) if edit.run in keys else None,
        )
        for edit in edits[-KEPT_EDITS:]
    )


def tree_of(runs: Sequence[Run], keys: Sequence[int]) -> tuple[RecipeRun, ...]:
    """Return runs as a recipe keeps them; ``keys`` are those of runs in the file."""
    numbers = {run.key: at for at, run in enumerate(runs)}
    made = []
    for run in runs:
        outline = run.outline
        wish = run.wish or Wish(sentence=outline.source)
        wanted = msgspec.structs.asdict(wanted_of(wish, run.change, 0))
        wanted["run"] = keys.index(run.key) if run.key in keys else None
        parent = parent_of(tuple(runs), run)
        one = RecipeRun(
            **wanted,
            known=outline,
            name=run.name,
            note=run.note,
            path=run.path,
            parent=None if parent is None else numbers[parent.key],
            wished=run.wish is not None,
        )
        made.append(one)
    return tuple(made)


def runs_of_tree(
    recipe: Recipe, runs: Sequence[Run], keys: Sequence[int], shown: int
) -> tuple[tuple[Run, ...], int | None]:
    """Return the runs of a recipe's tree, and the key of the one that is pinned.

    ``keys`` are those of ``runs`` in the recipe's file; what they have is used.
    """
    made: dict[int, Run] = {}
    by_key = {run.key: run for run in runs}
    for at, one in enumerate(recipe.tree):
        key = dict(enumerate(keys)).get(-1 if one.run is None else one.run)
        found = None if key is None else by_key.get(key)
        if found is None and not one.wished:
            continue  # nothing is left of it
        ours = one.wished and one.known.digest == recipe.digest and key != shown
        made[at] = replace(
            found or Run(trace=None, known=one.known),
            name=one.name,
            note=one.note,
            path=one.path,
            wish=one.wish if one.wished else None,
            change=one.intervention,
            origin="decoded" if ours else "recorded",
        )
    for at, run in made.items():
        parent = made.get(-1 if (above := recipe.tree[at].parent) is None else above)
        made[at] = replace(run, parent=None if parent is None else parent.key)
    known = {run.key for run in made.values()}
    others = (run for run in runs if run.key not in known)
    pinned = made.get(-1 if recipe.pinned is None else recipe.pinned)
    return (*made.values(), *others), None if pinned is None else pinned.key


def _edited(run: WantedRun, keys: Sequence[int]) -> EditedRun:
    return EditedRun(
        edit=run.edit,
        wish=run.wish,
        intervention=run.intervention,
        step=run.step,
        revision=object(),
        run=dict(enumerate(keys)).get(-1 if run.run is None else run.run, 0),
    )
