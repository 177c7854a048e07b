"""RunChange: what every change of a run is, says and does.

A change is a frozen value. Its fields are declared once, with types that know their
text (``written_fields``): the text form, JSON, the checks and the place of a change
follow from them. It acts at one point of the computation, where every runner asks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from string import Formatter
from typing import Annotated, Any, ClassVar, Literal, Self, get_origin, get_type_hints

import numpy as np

from visformer.errors import InputError
from visformer.files import short
from visformer.language import N_, ngettext
from visformer.values.changes.written_fields import ROW, FieldText
from visformer.values.facts import KINDS, SIDES, ModelFacts, SentenceSide

# What a change is given there, and what beside it; Q, K, T are rows, D the width.
ActingPoint = Literal[  # in the order in which a text lists changes
    "mask",  # bool [..., Q, K] of numpy; the same without its causal part
    "masked score",  # the number that replaces masked scores
    "scale",  # the number that q.k is multiplied by; the model's own
    "positions",  # the table of positions [P, D], of numpy
    "embedding",  # [..., T, D], scaled, without positions; what embeds other ids so
    "scores",  # [..., H, Q, K] before the mask; the mask, or None where all is allowed
    "head mask",  # bool [..., H, Q, K]: the mask of each head
    "weights",  # [..., H, Q, K], the softmax; the mask of each head
    "values",  # [..., H, K, d]
    "heads",  # [..., H, Q, d], before W_O
    "output",  # the same, after all that is changed of heads
    "stream",  # [..., T, D], what leaves a layer; what entered it
]


@dataclass(frozen=True)
class RunChange:
    """One change of a run: the base of all; tokens and layers count from 0."""

    name: ClassVar[str]  # in files
    # of the text; fields stand in braces. A measurement's own change has none
    forms: ClassVar[tuple[str, ...]] = ("",)
    examples: ClassVar[tuple[str, ...]] = ()  # one of each form that differs
    point: ClassVar[ActingPoint]
    everywhere: ClassVar[tuple[str, ...]] = KINDS  # what it concerns without a field

    def __post_init__(self) -> None:
        """Check every field; numpy's numbers become Python's."""
        for name, text in self.texts().items():
            object.__setattr__(self, name, text.check(name, getattr(self, name)))
        layer, head = self.place
        if layer is None and head is not None:
            raise InputError("A head needs its layer, as in “@ L2H5”.")

    # ---- what it does ----------------------------------------------------------------

    def apply(self, x: Any, place: LocalChanges) -> Any:
        """Return what a run computed at the change's point, as changed.

        ``x``, of numpy or torch, may be written to.
        """
        raise NotImplementedError

    def looked_up(self, find: Callable[[SentenceSide, str], int]) -> RunChange:
        """Return it for one vocabulary, where ``find`` looks up a side's word."""
        return self

    def filled(self, runs: Mapping[str, Any]) -> RunChange:
        """Return it with what it takes of a run: one of some Traces, or of a file."""
        return self

    @property
    def kinds(self) -> tuple[Any, ...]:
        """The kinds of attention, the stacks or the sides that it concerns."""
        named = (getattr(self, name, None) for name in ("kind", "stack", "side"))
        return tuple(filter(None, named)) or self.everywhere

    @property
    def place(self) -> tuple[int | None, int | None]:
        """The layer and the head in which it acts; None: in all."""
        return getattr(self, "layer", None), getattr(self, "head", None)

    @property
    def tokens(self) -> tuple[tuple[SentenceSide, int], ...]:
        """The tokens that it names: whose, and which."""
        queries, keys = SIDES.get(self.kinds[0], (self.kinds[0],) * 2)
        return tuple(
            (keys if name == "key" else queries, getattr(self, name))
            for name, text in self.texts().items()
            if text is ROW
        )

    @property
    def subject(self) -> tuple[Any, ...]:
        """What is changed: a later change of one subject replaces an earlier one."""
        texts = self.texts().items()
        return type(self), *(getattr(self, n) for n, text in texts if text.where)

    def concerns(self, of: str, layer: int) -> bool:
        """Whether it acts in a layer of a kind of attention, of a stack; on a side."""
        return of in self.kinds and self.place[0] in (None, layer)

    def concerns_head(self, head: int) -> bool:
        """Whether it acts on this head of a layer that it concerns."""
        return self.place[1] in (None, head)

    def reaches_back(self, among: tuple[RunChange, ...]) -> bool:
        """Whether, among these changes, a later token may change a decoder row.

        A mask does that which lets a row read what follows it, or leaves it nothing to
        read, so that it attends to everything.
        """
        if self.point not in ("mask", "head mask") or "decoder" not in self.kinds:
            return False
        layer, head = self.place
        here = LocalChanges.of_run(among, "decoder", -1 if layer is None else layer)
        size = 2 + max((row for one in among for _side, row in one.tokens), default=0)
        own, opened = np.tri(size, dtype=bool), np.ones((size, size), bool)
        mask = here.apply("mask", own, beside=opened)[None]
        mask = replace(here, head=head or 0).apply("head mask", mask)
        return bool(np.triu(mask, 1).any() or not mask.any(-1).all())

    def check(self, model: ModelFacts, source: int) -> None:
        """Raise InputError unless it fits a model and a sentence of ``source`` tokens.

        Target tokens that are not decoded yet are allowed.
        """
        if any(side == "source" and row >= source for side, row in self.tokens):
            raise InputError(
                ngettext(
                    "“{change}” is out of range: the source has {n} token.",
                    "“{change}” is out of range: the source has {n} tokens.",
                    source,
                    change=self,
                )
            )
        kinds = [kind for kind in self.kinds if kind in KINDS]
        layers = max(map(model.layers, kinds), default=0)
        if kinds and not layers:
            raise InputError(
                "This model has no attention of the kind that “{change}” changes.",
                change=self,
            )
        layer, head = self.place
        heads = max(map(model.heads, kinds), default=1)
        if (layer or 0) >= (layers or 1):
            raise InputError(
                ngettext(
                    "“{change}” is out of range: the model has {n} such layer.",
                    "“{change}” is out of range: the model has {n} such layers.",
                    layers,
                    change=self,
                )
            )
        if (head or 0) >= heads:
            raise InputError(
                ngettext(
                    "“{change}” is out of range: such a layer has {n} head.",
                    "“{change}” is out of range: such a layer has {n} heads.",
                    heads,
                    change=self,
                )
            )

    def require(self, number: float, low: float, high: float, *, whole: bool) -> None:
        """Raise InputError unless a number of its own is in a range."""
        if not low <= number <= high or (whole and number % 1):
            sentence = (
                N_("“{change}” needs a whole number from {low:g} to {high:g}.")
                if whole
                else N_("“{change}” needs a number from {low:g} to {high:g}.")
            )
            raise InputError(sentence, change=self, low=low, high=high)

    # ---- how it is written -----------------------------------------------------------

    @classmethod
    @cache
    def texts(cls) -> dict[str, FieldText]:
        """Return how each field is written."""
        hints = get_type_hints(cls, include_extras=True).items()
        return {n: h.__metadata__[0] for n, h in hints if get_origin(h) is Annotated}

    @property
    def wording(self) -> str:
        """The form of its text: the first that names every field with another value."""
        default = {one.name: one.default for one in fields(self)}
        other = {n for n in self.texts() if getattr(self, n) != default[n]}
        return next(f for f in self.forms if other <= {n for _, n, *_ in _parts(f)})

    def __str__(self) -> str:
        texts = self.texts().items()
        words = {name: text.write(getattr(self, name)) for name, text in texts}
        return self.wording.format_map(words)

    def __format__(self, spec: str) -> str:
        """Write it in a sentence, where a path may be too long."""
        return short(str(self), 60)

    @classmethod
    def read(cls, words: str) -> Self | None:
        """Read a text; None where it is none of this kind. Raises InputError."""
        texts = cls.texts()
        for form in cls.forms:
            pattern = "".join(
                re.escape(literal) + (f"(?P<{n}>{texts[n].pattern})" if n else "")
                for literal, n, *_ in _parts(form)
            )
            if match := re.fullmatch(pattern, words):
                found = match.groupdict().items()
                return cls(**{name: texts[name].read(text) for name, text in found})
        return None

    def to_json(self) -> dict[str, Any]:
        """Return it as data for JSON: what it changes and where, and to what as text.

        Layers, heads and tokens count from 0 there.
        """
        texts, what = self.texts(), self.wording.partition("{")[0].strip()
        where = {n: getattr(self, n) for n, text in texts.items() if text.where}
        to = {n: text.write(getattr(self, n)) for n, text in texts.items()}
        do = self.wording.format_map({**to, **dict.fromkeys(where, "")})
        known = {n: value for n, value in where.items() if value is not None}
        return {"what": what, **known, "do": do.removeprefix(what).strip()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self | None:
        """Read what ``to_json`` returns; None where it is none of this kind.

        Raises InputError, TypeError or KeyError for what is no change at all.
        """
        where = {n: text for n, text in cls.texts().items() if text.where}
        if not data.keys() <= {"what", "do", *where}:
            return None
        told = {n: where[n].check(n, data[n]) for n in where if n in data}
        words = {n: where[n].write(value) for n, value in told.items()}
        at = words.pop("layer", "") + words.pop("head", "")
        said = " ".join(filter(None, (data["what"], *words.values(), data["do"])))
        return cls.read(said + at)


def _parts(form: str) -> list[tuple[str, str | None, str | None, str | None]]:
    return [*Formatter().parse(form)]


@dataclass(frozen=True, slots=True)
class LocalChanges:
    """The changes of one layer of a kind of attention or a stack, or of a side.

    Runners ask it at each point that they pass. What ``apply`` of a change is given
    begins with row ``first`` and, where it has heads, with ``head``; ``beside`` is what
    ``ActingPoint`` says.
    """

    changes: tuple[RunChange, ...] = ()
    of: str = ""
    layer: int = 0
    head: int = 0
    first: int = 0
    beside: Any = None

    @classmethod
    def of_run(cls, among: tuple[RunChange, ...], of: str, layer: int) -> Self:
        """Return those of a run's changes that concern one place."""
        return cls(tuple(c for c in among if c.concerns(of, layer)), of, layer)

    def acts(self, *points: ActingPoint) -> bool:
        """Whether anything is changed at one of some points."""
        return any(change.point in points for change in self.changes)

    def apply(
        self, point: ActingPoint, x: Any, *, first: int = 0, beside: Any = None
    ) -> Any:
        """Return a copy as changed at a point; ``x`` itself where nothing acts."""
        for change in self.changes:
            if change.point == point:
                copy = getattr(x, "clone", None) or getattr(x, "copy", None)
                place = replace(self, first=first, beside=beside)
                x = change.apply(x if copy is None else copy(), place)
        return x

    def at(
        self, row: int | None, head: int | None = None, column: int | None = None
    ) -> tuple[Any, ...]:
        """Return where a row of a head is in numbers given; None stands for all.

        It indexes [..., rows, columns], or with a head [..., heads, rows, columns]; of
        what they lack it is nothing.
        """
        heads = () if head is None else (_only(head - self.head),)
        rows = ALL if row is None else _only(row - self.first)
        return (..., *heads, rows, ALL if column is None else _only(column))

    def put(self, x: Any, numbers: Any, *, row: int = 0, head: int = 0) -> Any:
        """Write numbers of numpy, [H, rows, d] or [rows, D], where they belong.

        They begin with a row and a head of the run; what x lacks is left out.
        """
        starts = zip((head, row), (self.head, self.first), strict=True)
        axes = [
            _overlap(start, numbers.shape[at], begun, x.shape[at])
            for at, (start, begun) in zip((-3, -2), starts, strict=True)
            if numbers.ndim + at >= 0
        ]
        there, here = ((*at, ALL) for at in zip(*axes, strict=True))
        x[(..., *there)] = getattr(x, "new_tensor", np.asarray)(numbers[here])
        return x


def _overlap(start: int, count: int, begun: int, length: int) -> tuple[slice, slice]:
    """Return what two ranges share, counted from the second and from the first."""
    low = max(start, begun)
    high = max(low, min(start + count, begun + length))
    return slice(low - begun, high - begun), slice(low - start, high - start)


def _only(index: int) -> slice:
    return slice(index, index + 1) if index >= 0 else slice(0)


ALL = slice(None)
UNCHANGED = LocalChanges()
