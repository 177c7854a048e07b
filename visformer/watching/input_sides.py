"""Sides: which inputs are the source, and which the target.

A name says it, or what the model does: what attends to another sequence, which does not
attend back, is the target, and the other one the source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from visformer.values.watched_attention import WatchedKind
from visformer.watching.captured import Captured
from visformer.watching.inputs import SOURCE, TARGET, Input, goes_with_another


@dataclass(frozen=True, slots=True)
class Sides:
    """The marks of the inputs of either side; of a third one, those of neither."""

    source: int
    target: int

    def kind(self, one: Captured) -> WatchedKind | None:
        """Tell the kind by what queries and keys follow from; None: not by that."""
        queries, keys = one.marks[0], one.marks[1]
        if border_of(one, self) is not None:
            return "merged"
        # queries that were learned are a target of their own
        asks = bool(queries & self.target) or one.learned[0]
        asked = bool(keys & self.target) or one.learned[1]
        if _are_apart(one, self.source | self.target) and asks == asked:
            return "other"
        if asks and asked:
            return "decoder"
        if asks and keys & self.source:
            return "cross"
        if asks or asked or not (queries | keys) & self.source:
            return "other"
        return "encoder" if self.target else None


def _are_apart(one: Captured, inputs: int) -> bool:
    """Whether queries and keys are of two inputs, or of two parts of one."""
    queries, keys = one.marks[0] & inputs, one.marks[1] & inputs
    if queries and keys and not queries & keys:
        return True
    if len(one.query_axes) != 1 or len(one.key_axes) != 1:
        return False
    for axis in one.query_axes[0].lineage():
        at = one.query_axes[0].positions_on(axis), one.key_axes[0].positions_on(axis)
        if at[0] is not None and at[1] is not None:
            return not bool(torch.isin(at[0], at[1]).any())
    return False


def sides_of(inputs: Sequence[Input], found: Sequence[Captured]) -> Sides:
    """Decide the sides of all inputs that attention depends on."""
    used = 0
    for one in found:
        used |= one.marks[0] | one.marks[1] | one.marks[2]
    taking_part = [one for one in inputs if one.mark & used]
    sides = {one.mark: one.side for one in taking_part}
    mutual = _by_what_is_read(sides, taking_part, found)
    _by_place(sides, taking_part)
    _by_company(sides, taking_part, found)
    if not any(sides.values()):
        first = min(taking_part, key=lambda x: goes_with_another(x.name), default=None)
        if first is not None:
            sides |= dict.fromkeys(mutual or {first.mark}, SOURCE)
            _by_place(sides, taking_part)
            _by_company(sides, taking_part, found)
    made = Sides(_marks(sides, SOURCE), _marks(sides, TARGET))
    return _of_one_sequence(made, taking_part, found)


def _marks(sides: dict[int, str], side: str) -> int:
    return sum(mark for mark, own in sides.items() if own == side)


def _by_what_is_read(
    sides: dict[int, str], inputs: Sequence[Input], found: Sequence[Captured]
) -> set[int]:
    """Decide by what attends to what: the target to the source, not the reverse.

    Returns the marks of inputs that read another and are read themselves.
    """
    votes: dict[int, set[str]] = {mark: set() for mark in sides}

    def places(marks: int) -> set[str]:
        return {one.place for one in inputs if one.mark & marks}

    for one in found:
        queries, keys, values = one.marks
        read = keys | values
        if not queries & ~read:  # one softmax over its own keys and another's
            parts = [part for _size, part in one.key_parts if not part & queries]
            apart = parts and places(parts[0]).isdisjoint(places(queries))
            read = parts[0] if apart else queries
        if not any(mark & read for mark in votes):
            continue
        for mark, own in votes.items():
            if mark & queries & ~read:
                own.add(TARGET)
            elif mark & read and queries & ~read:
                own.add(SOURCE)
    for mark, own in votes.items():
        if not sides[mark] and len(own) == 1:
            (sides[mark],) = own
    return {mark for mark, own in votes.items() if len(own) > 1}


def _by_place(sides: dict[int, str], inputs: Sequence[Input]) -> None:
    """Decide of what is given in the same place at another step: the same side."""
    of_place: dict[str, set[str]] = {}
    for one in inputs:
        of_place.setdefault(one.place, set()).add(sides[one.mark])
    for one in inputs:
        decided = of_place[one.place] - {""}
        if not sides[one.mark] and len(decided) == 1:
            (sides[one.mark],) = decided


def _by_company(
    sides: dict[int, str], inputs: Sequence[Input], found: Sequence[Captured]
) -> None:
    """Decide of what is always read together with a side: it is of that side."""
    for one in inputs:
        if sides[one.mark]:
            continue
        with_it = 0
        for attention in found:
            queries, keys, _values = attention.marks
            if one.mark & queries or one.mark & keys:
                with_it |= queries & keys
        if with_it & _marks(sides, TARGET):
            sides[one.mark] = TARGET
        elif with_it & _marks(sides, SOURCE):
            sides[one.mark] = SOURCE


def _of_one_sequence(
    sides: Sides, inputs: Sequence[Input], found: Sequence[Captured]
) -> Sides:
    """Take back a target that is the source again, given to one attention alone."""
    copied = any(one.copied and one.mark & sides.target for one in inputs)
    if copied and all(sides.kind(one) == "cross" for one in found):
        return Sides(sides.source | sides.target, 0)
    return sides


def border_of(one: Captured, sides: Sides) -> int | None:
    """Return how many keys are of the first side, where one softmax reads both."""
    if len(one.key_parts) < 2 or not all(marks for _size, marks in one.key_parts):
        return None
    of_target = [bool(marks & sides.target) for _size, marks in one.key_parts]
    if not sides.source or len(set(of_target)) != 2:
        return None
    at = of_target.index(not of_target[0])
    return sum(size for size, _marks in one.key_parts[:at])
