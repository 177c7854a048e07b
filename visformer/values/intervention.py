"""Intervention: everything that modifies a model's run, as one immutable value.

It is a tuple of changes (``visformer.values.changes``); the weights stay as they are.
Numpy only: the engine applies it, the window previews it. Layers and tokens count from
0 here and in JSON, and from 1 in the text form that ``str`` writes and ``parse``
reads. That form is for people: the window shows it, and ``--change`` takes it; it is
never translated.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import cached_property
from types import MappingProxyType
from typing import Any, Self, TypeVar, get_args

from visformer.arguments import wrong_type
from visformer.errors import InputError
from visformer.files import short
from visformer.values.arrays import Bools
from visformer.values.changes.head_changes import (
    HeadFrom,
    HeadMean,
    HeadMeanOf,
    HeadOnly,
    ValueOff,
)
from visformer.values.changes.mask_changes import (
    Causal,
    Cell,
    HeadCell,
    HideSource,
    MaskedScore,
)
from visformer.values.changes.position_change import PositionChange
from visformer.values.changes.run_change import ActingPoint, LocalChanges, RunChange
from visformer.values.changes.stream_changes import (
    Embedding,
    LayerOff,
    OutputFrom,
    ResidualFrom,
)
from visformer.values.changes.weight_changes import (
    CellWeight,
    HeadScale,
    ScoreScale,
    UniformRow,
)
from visformer.values.facts import Kind, ModelFacts

CHANGES: dict[str, type[RunChange]] = {  # every kind, by its name in older files
    kind.name: kind
    for kind in (
        *(Causal, HideSource, Cell, HeadCell, MaskedScore, ScoreScale, PositionChange),
        *(HeadScale, HeadOnly, HeadMean, HeadMeanOf, HeadFrom, OutputFrom),
        *(CellWeight, UniformRow, ValueOff, LayerOff, ResidualFrom, Embedding),
    )
}
_ALLOWED = "changes, such as Causal(None) (visformer.parse_change reads text)"
_OfKind = TypeVar("_OfKind", bound=RunChange)


class Intervention(tuple[RunChange, ...]):
    """Changes to a run, by the point at which they act, else in order.

    Of two changes of one place, such as two scales of one layer, the later stays. The
    default changes nothing. Changes can also be given by what they are of.
    """

    def __new__(
        cls,
        *changes: RunChange,
        masks: RunChange | Iterable[RunChange] = (),
        masked_value: float | None = None,
        positions: PositionChange | None = None,
        scales: ScoreScale | Iterable[ScoreScale] = (),
    ) -> Self:
        value = None if masked_value is None else MaskedScore(masked_value)
        single = (one for one in (value, positions) if one is not None)
        kept: dict[object, RunChange] = {}
        for change in (*changes, *_each(masks), *_each(scales), *single):
            if not isinstance(change, RunChange):
                raise wrong_type("Intervention", change, _ALLOWED)
            kept.pop(change.subject, None)
            kept[change.subject] = change
        points = get_args(ActingPoint)
        by_point = sorted(kept.values(), key=lambda one: points.index(one.point))
        return super().__new__(cls, by_point)

    def __getnewargs__(self) -> tuple[RunChange, ...]:
        return tuple(self)

    def __repr__(self) -> str:
        return f"Intervention({', '.join(map(repr, self))})"

    def __str__(self) -> str:
        """Return the text form, changes separated by semicolons.

        What changes several places in one way is written once, with their list.
        """
        written: list[str] = []
        last = ""
        for text in map(str, self):
            what, at, place = text.rpartition(" @ L")
            if at and what == last:
                written[-1] += f",L{place}"
            else:
                written.append(text)
            last = what
        return "; ".join(written)

    def filled(self, runs: Mapping[str, Any] = MappingProxyType({})) -> Self:
        """Return it with what it takes of other runs: of Traces by name, or of files.

        Raises InputError where a run is neither, or lacks what is taken.
        """
        return type(self)(*(change.filled(runs) for change in self))

    def of(self, kind: type[_OfKind], **fields: object) -> tuple[_OfKind, ...]:
        """Return the changes of one kind whose fields have these values."""
        return tuple(
            change
            for change in self
            if isinstance(change, kind)
            and all(getattr(change, name) == value for name, value in fields.items())
        )

    def one(self, kind: type[_OfKind], **fields: object) -> _OfKind | None:
        """Return the only such change, the first of several; None if there is none."""
        return next(iter(self.of(kind, **fields)), None)

    def at(self, of: str, layer: int = 0) -> LocalChanges:
        """Return the changes of a layer of a kind or a stack, or of a side."""
        return LocalChanges.of_run(self, of, layer)

    def here(
        self, of: str, layer: int, *points: ActingPoint, head: int | None = None
    ) -> str:
        """Return the text of those that act on a layer, or on one head, at points."""
        found = (one for one in self.at(of, layer).changes if one.point in points)
        mine = (one for one in found if head is None or one.concerns_head(head))
        return str(type(self)(*mine))

    def acting(self, *points: ActingPoint) -> tuple[RunChange, ...]:
        """Return the changes that act at some points."""
        return tuple(change for change in self if change.point in points)

    @property
    def masks(self) -> tuple[RunChange, ...]:
        """The changes of masks."""
        return self.acting("mask")

    @property
    def masked_value(self) -> float | None:
        """What replaces the model's own value for masked scores; None: nothing."""
        change = self.one(MaskedScore)
        return None if change is None else change.masked_value

    @property
    def positions(self) -> PositionChange | None:
        """The change of the positional encodings."""
        return self.one(PositionChange)

    @property
    def scales(self) -> tuple[ScoreScale, ...]:
        """The changes of the scale."""
        return self.of(ScoreScale)

    @property
    def whole(self) -> bool:
        """Whether a step is a pass over all rows: the cache knows only positions."""
        return any(change.point != "positions" for change in self)

    @cached_property
    def reaches_back(self) -> bool:
        """Whether a decoder row may come to read what follows it: not whether it does.

        Then a later token may change it.
        """
        return any(change.reaches_back(self) for change in self)

    def by_layer(self, kind: Kind) -> bool:
        """Whether the masks of a kind differ from layer to layer."""
        masks = (one for one in self.masks if kind in one.kinds)
        return any(getattr(one, "layer", None) is not None for one in masks)

    def with_change(self, change: RunChange) -> Intervention:
        """Return this with one more change, which replaces any of the same place."""
        return Intervention(*self, change)

    def without(self, change: RunChange) -> Intervention:
        """Return this without the change of the same place."""
        return Intervention(*(old for old in self if old.subject != change.subject))

    def scale(self, own: float, kind: Kind, layer: int) -> float:
        """Return what q.k is multiplied by in a layer whose ``own`` scale is given."""
        scale: float = self.at(kind, layer).apply("scale", own, beside=own)
        return scale

    def check(self, model: ModelFacts, source: int) -> None:
        """Raise InputError unless it fits a model and a sentence of ``source`` tokens.

        Cells of target tokens that are not decoded yet are allowed.
        """
        for change in self:
            change.check(model, source)

    def mask(self, kind: Kind, layer: int, mask: Bools, opened: Bools) -> Bools:
        """Return a kind's mask as changed in a layer: bool [..., Q, K].

        ``mask`` is the model's own; ``opened`` the same without its causal part.
        """
        made: Bools = self.at(kind, layer).apply("mask", mask, beside=opened)
        return made

    def to_json(self) -> list[dict[str, Any]]:
        """Return it as data for JSON; layers, heads and tokens count from 0."""
        return [change.to_json() for change in self]

    @classmethod
    def from_json(cls, data: Iterable[Mapping[str, Any]] | Mapping[str, Any]) -> Self:
        """Read what ``to_json`` returns, also what it returned for older files.

        Raises InputError, ValueError, TypeError or KeyError for anything else.
        """
        if isinstance(data, Mapping):
            value, positions = data["masked_value"], data["positions"]
            return cls(
                *map(_change, data["masks"]),
                masked_value=None if value is None else float(value),
                positions=None if positions is None else PositionChange(**positions),
                scales=[ScoreScale(**scale) for scale in data.get("scales", ())],
            )
        return cls(*map(_change, data))


def _each(given: Any) -> Iterable[Any]:
    return given if isinstance(given, tuple | list) else (given,)


def _change(data: Mapping[str, Any]) -> RunChange:
    if "change" in data:  # of an older file: its fields
        values = {n: -math.inf if v == "-inf" else v for n, v in data.items()}
        del values["change"]
        return CHANGES[data["change"]](**values)
    found = (kind.from_json(data) for kind in CHANGES.values())
    made = next((change for change in found if change is not None), None)
    if made is None:
        raise ValueError("what")
    return made


NO_CHANGES = Intervention()


_PART = re.compile(r"""(?:"(?:[^"\\]|\\.)*"|[^;"]|")+""")  # a word may hold “;”
_BLANKS = re.compile(r'("(?:[^"\\]|\\.)*")|\s+')  # those in quotes stay
_PLACES = re.compile(r"(.+?) ?@ ?(L\d+(?:H\d+)?(?: ?, ?L\d+(?:H\d+)?)*)")


def examples() -> list[str]:
    """Return examples of every form."""
    return [example for kind in CHANGES.values() for example in kind.examples]


def parse(texts: Iterable[str]) -> Intervention:
    """Read the text form: changes, each alone or several separated by semicolons.

    A list of places, as in “@ L2H1,L2H5”, is one change in each. Raises InputError,
    with the nearest valid change, for anything else.
    """
    whole = _BLANKS.sub(lambda found: found[1] or " ", ";".join(texts))
    parts = (part.strip() for part in _PART.findall(whole))
    return Intervention(
        *(one for part in filter(None, parts) for one in _each_place(part))
    )


def _each_place(words: str) -> Iterator[RunChange]:
    if found := _PLACES.fullmatch(words):
        for place in found[2].split(","):
            yield _read(f"{found[1]} @ {place.strip()}")
    else:
        yield _read(words)


def _read(words: str) -> RunChange:
    for kind in CHANGES.values():
        if (change := kind.read(words)) is not None:
            return change
    raise InputError(
        "“{words}” is not a valid change. The nearest valid form is “{example}”; "
        "“visformer render --help” lists all.",
        words=short(words, 40),
        example=get_close_matches(words, examples(), 1, 0)[0],
    )
