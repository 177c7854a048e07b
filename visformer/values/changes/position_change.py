"""PositionChange: other positional encodings."""

import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from visformer.values.arrays import Floats
from visformer.values.changes.run_change import UNCHANGED, LocalChanges, RunChange
from visformer.values.changes.written_fields import NumberField, SeedField, one_word
from visformer.values.encodings import sinusoid
from visformer.values.facts import ModelFacts

PositionForm = Literal[
    "interleaved", "halves", "none", "shifted", "scaled", "permuted", "constant"
]
_MOST_POSITIONS = 65_536  # while no model says how many it has
AMOUNTS = {  # of forms that need one: smallest, largest, whether it must be whole
    "shifted": (0, 65_536, True),
    "scaled": (-1000, 1000, False),
    "permuted": (2, 65_536, True),
    "constant": (0, 65_535, True),
}


@dataclass(frozen=True)
class PositionChange(RunChange):
    """Other positional encodings, on both sides.

    ``amount`` is the number of positions to shift by, the factor to scale by, how many
    of the first positions to permute, or the position that every token gets
    ("constant"). "interleaved" and "halves" are the sinusoids of section 3.5 of the
    paper in its two layouts, whatever the model has; the others modify its own table.
    """

    name = "positions"
    forms = (
        "positions {form}",
        "positions {form} {amount}",
        "positions {form} {amount} {seed}",
    )
    examples = (
        *("positions none", "positions interleaved"),
        *("positions halves", "positions shifted 5", "positions scaled 2"),
        *("positions permuted 8 0", "positions constant 0"),
    )
    point = "positions"
    everywhere = ("source", "target")

    form: Annotated[PositionForm, one_word(get_args(PositionForm))]
    amount: NumberField = 0.0
    seed: SeedField = 0  # of the permutation

    def __post_init__(self) -> None:
        RunChange.__post_init__(self)
        self._check(_MOST_POSITIONS)

    def check(self, model: ModelFacts, source: int) -> None:
        """Raise InputError unless it fits the model's table, if that is known."""
        if model.known is not None:
            self._check(model.known.max_positions)

    def _check(self, rows: int) -> None:
        low, high, whole = AMOUNTS.get(self.form, (-math.inf, math.inf, False))
        high = min(high, rows - 1) if self.form in ("shifted", "constant") else high
        self.require(self.amount, low, high, whole=whole)

    @property
    def wording(self) -> str:
        """The form of its text that has all that its own form needs."""
        return self.forms[(self.form in AMOUNTS) + (self.form == "permuted")]

    def apply(self, x: Any, place: LocalChanges) -> Any:
        """Return positional encodings [P, D] as changed; float32."""
        rows, width = x.shape
        if self.form in ("interleaved", "halves"):
            return sinusoid(rows, width, interleaved=self.form == "interleaved")
        if self.form == "none":
            return np.zeros_like(x)
        if self.form == "scaled":
            return x * np.float32(self.amount)
        amount, order = int(self.amount), np.arange(rows)
        if self.form == "shifted":
            order = np.minimum(order + amount, rows - 1)
        elif self.form == "constant":
            order[:] = amount
        else:
            order[: min(amount, rows)] = permutation(min(amount, rows), self.seed)
        return x[order]


def change_table(table: Floats, change: PositionChange | None) -> Floats:
    """Return positional encodings [P, D], changed if there is a change; float32."""
    made: Floats = table if change is None else change.apply(table, UNCHANGED)
    return made


def adds_positions(model: ModelFacts, change: PositionChange | None) -> bool | None:
    """Tell whether tokens get rows of positions, in a run with this change.

    None where that is not known of the model. Rows of zeros are none.
    """
    if model.known is None:
        return None
    form = None if change is None else change.form
    if form == "none" or (
        change is not None and form == "scaled" and not change.amount
    ):
        return False
    return model.known.positions != "none" or form in ("interleaved", "halves")


def permutation(count: int, seed: int) -> NDArray[np.int64]:
    """Return a random order of 0..count - 1 that differs from that order itself."""
    draw, identity = np.random.default_rng(seed), np.arange(count)
    order = draw.permutation(count)
    while count > 1 and (order == identity).all():
        order = draw.permutation(count)
    return order
