"""Intervention: everything that modifies a model's run, as one immutable value.

It changes which cells attention may read, the value of masked scores, the scale of all
scores, or the positional encodings; the weights stay as they are. Numpy only: the
engine applies it, the window previews it. Layers and tokens count from 0 here and in
JSON, and from 1 in the text form that ``str`` writes and ``change_text`` reads. That
form is for people: the window shows it, and ``--change`` takes it; it is never
translated.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from visformer.arguments import one_of, real_number, whole_number, wrong_type
from visformer.errors import InputError
from visformer.language import N_, _, ngettext
from visformer.values.facts import KINDS

if TYPE_CHECKING:
    from visformer.values.arrays import Bools
    from visformer.values.facts import Kind, ModelFacts

PositionForm = Literal[
    "interleaved", "halves", "none", "shifted", "scaled", "permuted", "constant"
]


@dataclass(frozen=True, slots=True)
class Causal:
    """Move the diagonal of the decoder's causal mask, or remove the mask.

    Query t may read the keys up to t + ``offset``; with None, every key.
    """

    offset: int | None
    layer: int | None = None  # None: every layer

    def __post_init__(self) -> None:
        check_fields(self)

    def __str__(self) -> str:
        how = "off" if self.offset is None else f"{self.offset:+d}"
        return f"causal {how}{_at(self.layer)}"


@dataclass(frozen=True, slots=True)
class HideSource:
    """Hide a source token from the queries of the encoder and of the decoder."""

    token: int
    layer: int | None = None

    def __post_init__(self) -> None:
        check_fields(self)

    def __str__(self) -> str:
        return f"hide {self.token + 1}{_at(self.layer)}"


@dataclass(frozen=True, slots=True)
class Cell:
    """Allow or forbid one query to read one key."""

    kind: Kind
    query: int
    key: int
    allowed: bool
    layer: int | None = None

    def __post_init__(self) -> None:
        check_fields(self, KINDS)

    def __str__(self) -> str:
        how = "on" if self.allowed else "off"
        where = f"{self.kind} {self.query + 1} {self.key + 1}"
        return f"cell {where} {how}{_at(self.layer)}"


@dataclass(frozen=True, slots=True)
class ScoreScale:
    """Multiply the scores of every kind of attention by ``factor``.

    The factor comes on top of the model's own scale, 1/sqrt(d) in the paper; with None
    the products of queries and keys are not scaled at all.
    """

    factor: float | None
    layer: int | None = None  # None: every layer

    def __post_init__(self) -> None:
        check_fields(self)
        if self.factor is not None and not abs(self.factor) <= _LARGEST_FACTOR:
            raise InputError(
                _(
                    "“{change}” needs a number from {low:g} to {high:g}.",
                    change=self,
                    low=-_LARGEST_FACTOR,
                    high=_LARGEST_FACTOR,
                )
            )

    def __str__(self) -> str:
        how = "off" if self.factor is None else _written(self.factor)
        return f"scale {how}{_at(self.layer)}"


@dataclass(frozen=True, slots=True)
class PositionChange:
    """Other positional encodings, on both sides.

    ``amount`` is the number of positions to shift by, the factor to scale by, how many
    of the first positions to permute, or the position that every token gets
    ("constant").
    """

    form: PositionForm
    amount: float = 0.0
    seed: int = 0  # of the permutation

    def __post_init__(self) -> None:
        check_fields(self, get_args(PositionForm))

    def __str__(self) -> str:
        words = f"positions {self.form}"
        if self.form in _AMOUNTS:
            words += f" {_written(self.amount)}"
        return words + (f" {self.seed}" if self.form == "permuted" else "")


MaskChange = Causal | HideSource | Cell
_AMOUNTS = {  # smallest amount, largest amount, whether it must be a whole number
    "shifted": (0, 65_536, True),
    "scaled": (-1000, 1000, False),
    "permuted": (2, 65_536, True),
    "constant": (0, 65_535, True),
}
_LARGEST_FACTOR = 1000.0
_MOST_POSITIONS = 65_536  # while no model says how many it has
NO_WEIGHT = -1e4  # with a masked value this low, a masked key has no weight at all
_INSTEAD = (
    "masks=…, masked_value=…, scales=…, positions=… (visformer.parse_change reads text)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervention:
    """Changes to a run, masks and scales in order; the default changes nothing.

    Of several scales of one layer the last one holds. ``masked_value`` replaces the
    model's own value for masked scores. 0 is what you get by multiplying the scores by
    the mask: the masked keys keep a weight.
    """

    masks: tuple[MaskChange, ...] = ()
    masked_value: float | None = None
    positions: PositionChange | None = None
    scales: tuple[ScoreScale, ...] = ()

    def __new__(cls, *given: Any, **fields: Any) -> Intervention:
        """Say what it takes; text is for ``visformer.parse_change``."""
        if given:
            raise wrong_type("Intervention", given[0], _INSTEAD)
        return object.__new__(cls)

    def __post_init__(self) -> None:
        masks = (self.masks,) if isinstance(self.masks, MaskChange) else self.masks
        allowed = "Causal, HideSource or Cell"
        if not isinstance(masks, tuple | list):
            raise wrong_type("masks", masks, allowed)
        for change in (masks := tuple(masks)):
            if not isinstance(change, MaskChange):
                raise wrong_type("masks", change, allowed)
        object.__setattr__(self, "masks", masks)
        if self.masked_value is not None:
            real_number("masked_value", self.masked_value, _("a number or -inf"))
        scales = (self.scales,) if isinstance(self.scales, ScoreScale) else self.scales
        if not isinstance(scales, tuple | list) or not all(
            isinstance(change, ScoreScale) for change in scales
        ):
            raise wrong_type("scales", scales, "ScoreScale")
        object.__setattr__(self, "scales", tuple(scales))
        if not isinstance(self.positions, PositionChange | None):
            raise wrong_type("positions", self.positions, "PositionChange")

    def __bool__(self) -> bool:
        """Whether anything is changed."""
        return self != NO_CHANGES

    def __str__(self) -> str:
        """Return the text form, changes separated by semicolons."""
        parts = [str(change) for change in self.masks]
        if self.masked_value == 0:
            parts.append("multiply")
        elif self.masked_value is not None:
            parts.append(f"masked score {_written(self.masked_value)}")
        parts += [str(change) for change in self.scales]
        if self.positions is not None:
            parts.append(str(self.positions))
        return "; ".join(parts)

    @property
    def masked(self) -> bool:
        """Whether attention is modified, so that no cached row can be relied on."""
        return bool(self.masks or self.scales) or self.masked_value is not None

    @property
    def may_open(self) -> bool:
        """Whether a decoder row may come to read what follows it: not whether it does.

        Opened cells let it, rows that are left nothing, which attend to everything, and
        masked scores that are not so low that they have no weight.
        """
        value = -math.inf if self.masked_value is None else self.masked_value
        if value > NO_WEIGHT or (self.scales and value > -math.inf):
            return True
        cells = [change for change in self.masks if isinstance(change, Cell)]
        size = 2 + max((max(cell.query, cell.key) for cell in cells), default=0)
        own, opened = np.tri(size, dtype=bool), np.ones((size, size), bool)
        for layer in {change.layer or 0 for change in self.masks} | {-1}:
            mask = self.mask("decoder", layer, own, opened)
            if np.triu(mask, 1).any() or not mask.any(-1).all():
                return True
        return False

    def by_layer(self, kind: Kind) -> bool:
        """Whether the masks of a kind differ from layer to layer."""
        return any(c.layer is not None for c in self.masks if kind in kinds_of(c))

    def with_mask(self, change: MaskChange) -> Intervention:
        """Return this with one more change, which replaces any of the same place."""
        return replace(self, masks=(*self.without(change).masks, change))

    def without(self, change: MaskChange) -> Intervention:
        """Return this without the change of the same place."""
        subject = _subject(change)
        kept = tuple(old for old in self.masks if _subject(old) != subject)
        return replace(self, masks=kept)

    def scale(self, own: float, layer: int) -> float:
        """Return what q.k is multiplied by in a layer whose ``own`` scale is given."""
        for change in reversed(self.scales):
            if change.layer in (None, layer):
                return 1.0 if change.factor is None else own * change.factor
        return own

    def with_scale(self, change: ScoreScale) -> Intervention:
        """Return this with one more scale, which replaces any of the same layer."""
        kept = self.without_scale(change.layer).scales
        return replace(self, scales=(*kept, change))

    def without_scale(self, layer: int | None) -> Intervention:
        """Return this without the scale of a layer; of every layer with None."""
        kept = tuple(old for old in self.scales if old.layer != layer)
        return replace(self, scales=kept)

    def check(self, model: ModelFacts, source: int) -> None:
        """Raise InputError unless it fits a model and a sentence of ``source`` tokens.

        Cells of target tokens that are not decoded yet are allowed.
        """
        for scale in self.scales:
            _check_layer(scale, max(model.layers(kind) for kind in KINDS))
        for change in self.masks:
            _check_layer(change, model.layers(kinds_of(change)[-1]))
            if _source_token(change) >= source:
                raise InputError(
                    ngettext(
                        "“{change}” is out of range: the source has {n} token.",
                        "“{change}” is out of range: the source has {n} tokens.",
                        source,
                        change=change,
                    )
                )
        if self.positions is not None:
            check_positions(self.positions, model.config.max_positions)

    def mask(self, kind: Kind, layer: int, mask: Bools, opened: Bools) -> Bools:
        """Return a kind's mask as changed in a layer: bool [..., Q, K].

        ``mask`` is the model's own; ``opened`` the same without its causal part.
        """
        for change in self.masks:
            if kind not in kinds_of(change) or change.layer not in (None, layer):
                continue
            mask = _changed(change, mask, opened)
        return mask

    def to_json(self) -> dict[str, Any]:
        """Return it as data for JSON; layers and tokens count from 0."""
        names = {type_: name for name, type_ in _MASK_CHANGES.items()}
        return {
            "masks": [
                {"change": names[type(change)], **asdict(change)}
                for change in self.masks
            ],
            "masked_value": self.masked_value,
            "scales": [asdict(change) for change in self.scales],
            "positions": asdict(self.positions) if self.positions else None,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Intervention:
        """Read what ``to_json`` returns.

        Raises InputError, ValueError, TypeError or KeyError for anything else.
        """
        positions, value = data["positions"], data["masked_value"]
        if positions is not None:
            positions = PositionChange(**positions)
            check_positions(positions)
        scales = data.get("scales", ())  # older files have none
        return cls(
            masks=tuple(_mask_change(change) for change in data["masks"]),
            masked_value=None if value is None else float(value),
            scales=tuple(ScoreScale(**change) for change in scales),
            positions=positions,
        )


NO_CHANGES = Intervention()
_MASK_CHANGES: dict[str, type[MaskChange]] = {  # by their names in JSON
    "causal": Causal,
    "hide": HideSource,
    "cell": Cell,
}


def _mask_change(data: Mapping[str, Any]) -> MaskChange:
    values = {name: value for name, value in data.items() if name != "change"}
    return _MASK_CHANGES[data["change"]](**values)


def _changed(change: MaskChange, mask: Bools, opened: Bools) -> Bools:
    queries, keys = mask.shape[-2:]
    if isinstance(change, Causal):
        if change.offset is None:
            return opened
        seen: Bools = opened & np.tri(queries, keys, change.offset, dtype=bool)
        return seen
    mask = mask.copy()
    if isinstance(change, HideSource):
        mask[..., change.token] = False
    elif change.query < queries and change.key < keys:
        mask[..., change.query, change.key] = change.allowed
    return mask


def kinds_of(change: MaskChange) -> tuple[Kind, ...]:
    if isinstance(change, HideSource):
        return ("encoder", "cross")
    return (change.kind,) if isinstance(change, Cell) else ("decoder",)


def _subject(change: MaskChange) -> tuple[Any, ...]:
    """Return what two changes of one place have in common."""
    if isinstance(change, Cell):
        return (Cell, change.kind, change.query, change.key, change.layer)
    token = change.token if isinstance(change, HideSource) else None
    return (type(change), token, change.layer)


def _source_token(change: MaskChange) -> int:
    """Return the last source token that a change names; -1 if it names none."""
    if isinstance(change, HideSource):
        return change.token
    if isinstance(change, Causal) or change.kind == "decoder":
        return -1
    return max(change.query, change.key) if change.kind == "encoder" else change.key


def _written(number: float) -> str:
    brief = f"{number:g}"
    return brief if float(brief) == number else repr(number)


def _at(layer: int | None) -> str:
    return "" if layer is None else f" @ layer {layer + 1}"


def _check_layer(change: MaskChange | ScoreScale, layers: int) -> None:
    if change.layer is not None and change.layer >= layers:
        raise InputError(
            ngettext(
                "“{change}” is out of range: the model has {n} such layer.",
                "“{change}” is out of range: the model has {n} such layers.",
                layers,
                change=change,
            )
        )


def check_positions(change: PositionChange, rows: int = _MOST_POSITIONS) -> None:
    """Raise InputError unless the change fits a table of ``rows`` positions."""
    low, high, whole = _AMOUNTS.get(change.form, (-math.inf, math.inf, False))
    high = min(high, rows - 1) if change.form in ("shifted", "constant") else high
    amount = change.amount
    if not low <= amount <= high or (whole and amount != int(amount)):
        sentence = (
            N_("“{change}” needs a whole number from {low:g} to {high:g}.")
            if whole
            else N_("“{change}” needs a number from {low:g} to {high:g}.")
        )
        raise InputError(_(sentence, change=change, low=low, high=high))


FARTHEST = 1 << 20  # positions that a diagonal can be moved by


def check_fields(change: Any, choices: Iterable[str] = ()) -> None:
    """Raise InputError or TypeError unless every field of a change can be had.

    ``choices`` are of its ``kind`` or ``form``. numpy's numbers become Python's.
    """
    for name in (field.name for field in fields(change)):
        value = getattr(change, name)
        if name in ("kind", "form"):
            one_of(name, value, choices)
        elif name == "allowed":
            if not isinstance(value, bool):
                raise wrong_type(name, value, _("True or False"))
        elif name == "amount" or (name == "factor" and value is not None):
            real_number(name, value, _("a number"))
        elif value is not None or name not in ("layer", "offset", "factor"):
            least = -FARTHEST if name == "offset" else 0
            number = whole_number(name, value, least=least, most=2**63 - 1)
            object.__setattr__(change, name, number)
