"""Looked: what is looked at, in the words of ``render`` and of lessons.

Layers, heads and steps count from 1 here, and from 0 in the State.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self, cast

from visformer.errors import InputError
from visformer.files import short
from visformer.pictures.computation.stages import stage_names
from visformer.pictures.selection import FORMS, ORDERS, SUMMARIES, TOKEN_GROUPS, Look
from visformer.session.state import State
from visformer.values.facts import KINDS
from visformer.values.trace import Trace

PAGES: dict[str, tuple[str, ...]] = {  # by the name of the view; its first one first
    "architecture": (),
    "positions": ("table", "input", "words", "lab"),
    "attention": (),
    "computation": (),
    "masks": ("masks", "lab"),
    "output": ("next", "search", "cache"),
    "runs": ("tree", "compare"),
    "diagnosis": ("sentences", "checks", "importance", "heads", "training"),
}
HIDES = (*TOKEN_GROUPS, "renormalise")


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """A view and what it is turned to; what is None or "" is where the window opens."""

    view: str = "attention"
    page: str | None = None
    stage: str = "softmax"  # of the computation view
    kind: str | None = None
    layer: int | None = None
    head: int | None = None
    steps: int | None = None
    form: str = "map"
    summary: str = "head"
    hide: str = ""  # groups of tokens, separated by commas
    words: bool = False  # subwords are merged
    raw_pieces: bool = False
    order: str = "place"

    @classmethod
    def of(cls, options: object) -> Self:
        """Return those options that say what is looked at."""
        return cls(**{one.name: getattr(options, one.name) for one in fields(cls)})

    def check(self, mark: str = "") -> None:
        """Raise InputError for what there never is; ``mark`` is before each name."""
        choices: Mapping[str, Iterable[str]] = {
            "view": PAGES,
            "stage": stage_names(),
            "kind": KINDS,
            "form": FORMS,
            "summary": SUMMARIES,
            "order": ORDERS,
        }
        for name, allowed in choices.items():
            value = getattr(self, name)
            if value is not None:
                check_choice(f"{mark}{name}", value, allowed)
        if self.page and not PAGES[self.view]:
            raise InputError(
                "{option} is {page}: this view has no pages.",
                option=f"{mark}page",
                page=short(self.page),
            )
        if self.page:
            check_choice(f"{mark}page", self.page, PAGES[self.view])
        for name in self._hidden:
            check_choice(f"{mark}hide", name, HIDES)
        if self.steps is not None and self.steps < 0:
            raise InputError(
                "{option} is {steps}: it must be 0 or more.",
                option=f"{mark}steps",
                steps=self.steps,
            )

    def fit(self, state: State, mark: str = "") -> None:
        """Raise InputError for a layer or head that the run on screen does not have."""
        trace = _trace(state)
        kind = cast("Any", self.kind or state.kind)
        for name, last in (("layer", trace.layers(kind)), ("head", trace.heads(kind))):
            value = getattr(self, name)
            if value is not None and not 1 <= value <= last:
                raise InputError(
                    "{option} is {value}: this model has 1 to {last}.",
                    option=f"{mark}{name}",
                    value=value,
                    last=last,
                )

    def on(self, state: State) -> State:
        """Return a State so looked at, where it is said, else as it is."""
        state = replace(state, tab=self.view, stage=self.stage, look=self._look)
        for first in PAGES[self.view][:1]:
            state = state.turned(self.view, self.page or first)
        if self.steps is not None:
            state = replace(state, step=self.steps)
        place = self.kind or state.kind, self.layer, self.head
        if state.trace is not None and place != (state.kind, None, None):
            kind = cast("Any", place[0])
            layer = (self.layer or state.trace.layers(kind)) - 1
            state = replace(state, kind=kind, layer=layer, head=(self.head or 1) - 1)
        return state

    @property
    def _hidden(self) -> list[str]:
        return [name.strip() for name in self.hide.split(",") if name.strip()]

    @property
    def _look(self) -> Look:
        return Look(
            form=cast("Any", self.form),
            summary=cast("Any", self.summary),
            hide=frozenset(name for name in TOKEN_GROUPS if name in self._hidden),
            renormalise="renormalise" in self._hidden,
            words=self.words,
            pieces=self.raw_pieces,
            order=cast("Any", self.order),
        )


def check_choice(option: str, value: str, allowed: Iterable[str]) -> None:
    """Raise InputError for a value that is none of those allowed."""
    if value not in (names := tuple(allowed)):
        raise InputError(
            "{option} is {value}: choose {allowed}.",
            option=option,
            value=short(value),
            allowed=", ".join(names),
        )


def _trace(state: State) -> Trace:
    if state.trace is None:
        raise InputError("Nothing was decoded.")
    return state.trace
