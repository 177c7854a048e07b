"""Patch: numbers of another run in the place of a run's own."""

from __future__ import annotations

import binascii
import math
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, NamedTuple, Self

import numpy as np

from visformer.arguments import as_path, whole_number, wrong_type
from visformer.errors import InputError
from visformer.files import short
from visformer.values.arrays import Floats
from visformer.values.changes.run_change import LocalChanges, RunChange
from visformer.values.changes.written_fields import RUN
from visformer.values.facts import ModelFacts

_MOST = 65_536  # along an axis


class TakenRows(NamedTuple):
    """Numbers of a run, and which run that was."""

    step: int  # how many decoder rows it had
    model: str  # the digest of its weights
    shape: tuple[int, ...]  # [layers, heads, rows, d]; of streams [layers, rows, D]
    numbers: bytes  # float32, little-endian

    @property
    def array(self) -> Floats:
        """The numbers, in their shape."""
        return np.frombuffer(self.numbers, "<f4").reshape(self.shape)

    @classmethod
    def of(cls, run: Any, numbers: Floats) -> Self:
        """Return numbers that were taken from a Trace."""
        data = numbers.astype("<f4").tobytes()
        return cls(len(run), run.model.digest, numbers.shape, data)

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Self:
        """Return what a file holds; ValueError or InputError for what does not fit."""
        shape = tuple(whole_number("shape", n, most=_MOST) for n in data["shape"])
        numbers = binascii.a2b_base64(data["numbers"], strict_mode=True)
        if not 2 < len(shape) < 5 or 4 * math.prod(shape) != len(numbers):
            raise ValueError("numbers")
        step, model = whole_number("step", data["step"]), data["model"]
        if not isinstance(model, str) or len(model) > _MOST:
            raise ValueError("model")
        return cls(step, model, shape, numbers)


@dataclass(frozen=True)
class Patch(RunChange):
    """What activation patching puts in: the base of its changes.

    Rows that the other run lacks stay as they are.
    """

    run: Annotated[str, RUN] = field(kw_only=True)  # its name, or the path of its file
    taken: TakenRows | None = field(default=None, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        RunChange.__post_init__(self)
        if not isinstance(self.taken, TakenRows | None):
            raise wrong_type("taken", self.taken, "TakenRows")

    def part(self, run: Any) -> Floats:
        """Return what is taken from a Trace, in the shape of ``TakenRows``."""
        raise NotImplementedError

    def needs(self, model: ModelFacts) -> tuple[int, ...]:
        """Return that shape without its rows, as a model has it."""
        raise NotImplementedError

    def filled(self, runs: Mapping[str, Any]) -> Patch:
        """Return it with its numbers; InputError where there is no such run."""
        if self.taken is not None:
            return self
        found = runs.get(self.run)
        if found is None and not self.run.endswith(".vis"):
            raise InputError(
                "There is no run “{run}” here: give the path of its file (*.vis).",
                run=short(self.run),
            )
        if found is None:
            from visformer.trace_file.trace_file import read_trace

            found = read_trace(as_path("run", self.run))
        return replace(self, taken=TakenRows.of(found, self.part(found)))

    def apply(self, x: Any, place: LocalChanges) -> Any:
        """Put the numbers in the place of those of x."""
        if self.taken is None:
            return x
        layer, head = self.place
        numbers = self.taken.array[place.layer if layer is None else 0]
        row = next((row for _side, row in self.tokens), 0)
        return place.put(x, numbers, row=row, head=head or 0)

    @property
    def found(self) -> int:
        """How many rows were taken."""
        return 0 if self.taken is None else self.taken.shape[-2]

    def lacking(self, rows: int) -> int:
        """Return how many of a run's rows the other run lacks."""
        named = [row for _side, row in self.tokens]
        wanted = sum(row < rows for row in named) if named else rows
        return max(0, wanted - self.found)

    def check(self, model: ModelFacts, source: int) -> None:
        """Raise InputError unless it fits a model and a sentence, and has its numbers.

        Both shapes are said where they differ.
        """
        super().check(model, source)
        shape, needed = self.taken.shape if self.taken else (), self.needs(model)
        found = (*shape[:-2], *shape[-1:])
        if found != needed:
            raise InputError(
                "“{change}” does not fit: it takes numbers of shape {found}, and this "
                "model has {needed}.",
                change=self,
                found=[*found],
                needed=[*needed],
            )

    def to_json(self) -> dict[str, Any]:
        """Return it as data for JSON, with its numbers in base 64."""
        if self.taken is None:
            return super().to_json()
        numbers = b64encode(self.taken.numbers).decode()
        return super().to_json() | self.taken._asdict() | {"numbers": numbers}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self | None:
        """Read what ``to_json`` returns; None where it is none of this kind.

        Raises InputError, ValueError, TypeError or KeyError for what does not fit.
        """
        own = {n: value for n, value in data.items() if n not in TakenRows._fields}
        made = super().from_json(own)
        if made is None or own.keys() == data.keys():
            return made
        return replace(made, taken=TakenRows.read(data))
