"""RowTokens: the ids that attention reads, and the tokens of each row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from visformer.arguments import wrong_value
from visformer.language import _
from visformer.values.arrays import Ids
from visformer.values.facts import SIDES, Kind
from visformer.values.watched_attention import WatchedAttention, WatchedKind
from visformer.watching.axes import DataDimension, positions_on
from visformer.watching.captured import Captured
from visformer.watching.inputs import (
    SOURCE,
    TARGET,
    IdsRead,
    Input,
    counting_tables,
    goes_with_another,
)
from visformer.watching.ledger import Picked

Layers = dict[Kind, list[WatchedAttention]]
Tokens = Sequence[str] | Sequence[Sequence[str]] | None


class RowTokens(NamedTuple):
    """Source and target of one row."""

    source: tuple[str, ...]
    source_ids: Ids
    target: tuple[str, ...]
    target_ids: Ids
    piece: Callable[[int], str]  # the token of a target id
    known: bool  # whether the target ids are known
    last: int | None  # the label of the last row, if known


class _Axes(NamedTuple):
    """The axes whose ids are wanted."""

    marks: int  # of the inputs that the ids may come from
    batch: DataDimension
    along: DataDimension
    picked: Picked  # where ``along`` is a single position
    rows: int
    length: int


def with_ids(one: Captured, read: Sequence[IdsRead], sides: Sides) -> Captured:
    """Return an attention with the ids of its queries and keys, if known.

    They are the ids of the embedding that the axes of queries and keys lead back to;
    ``read`` lists words first.
    """
    kind = sides.kind(one)
    of_queries = sides.target if kind in ("decoder", "cross") else sides.source
    of_keys = sides.target if kind == "decoder" else sides.source
    before = [x for x in read if x.order < one.mark]
    rows, _heads, queries, keys = one.weights.shape
    own, theirs = one.batch_axes
    asked = (
        _Axes(
            *(one.marks[0] & of_queries, own, one.query_axes, one.query_picked),
            *(rows, queries),
        ),
        _Axes(one.marks[1] & of_keys, theirs, one.key_axes, (), rows, keys),
    )
    query_ids, key_ids = (_ids_at(before, axes) for axes in asked)
    return replace(one, query_ids=query_ids, key_ids=key_ids)


def in_given_order(one: Captured, inputs: Sequence[Input]) -> Captured:
    """Undo a reordering of the batch, if the model sorts its rows."""
    own = [x for x in inputs if x.mark & one.marks[0]]
    for axis in (x for given in own for dimension in given.axes for x in dimension):
        at = positions_on(one.batch_axes[0], axis)
        whole = at is not None and len(at) == len(one.weights) == axis.size
        if at is not None and whole and len(at.unique()) == len(at):
            in_order = torch.equal(at, at.sort().values)
            return one if in_order else one.rows(at.argsort())
    return one


def words_first(read: Sequence[IdsRead]) -> list[IdsRead]:
    """Sort likely words first: positions and segments have smaller tables."""
    counting = counting_tables(read)

    def likely(one: IdsRead) -> tuple[bool, bool, bool, int, int]:
        counts = one.table in counting
        return not one.aside, not counts, one.ids.dim() > 1, one.rows, one.order

    return sorted(read, key=likely, reverse=True)


def _ids_at(read: Sequence[IdsRead], axes: _Axes) -> Tensor | None:
    """Return the ids [B, N] along some axes: the first that fit."""
    fit = [x for x in read if x.marks & axes.marks]
    for one in fit:
        made = _of_read(one, axes)
        if made is not None and made.shape == (axes.rows, axes.length):
            return made
    return None


def _of_read(one: IdsRead, wanted: _Axes) -> Tensor | None:
    """Index the ids of an embedding by the wanted axes, [B, N]; None if they differ."""
    axes = [axis for dimension in one.axes for axis in dimension]
    ids = one.ids.reshape([axis.size for axis in axes])
    several = list(range(len(axes)))
    there: list[tuple[int, Tensor]] = []
    for at, axis in enumerate(axes):
        if len(wanted.along) == 1:
            along = wanted.along[0].positions_on(axis)
        else:  # a single position, possibly the last of several picks
            picks = [(x.positions_on(axis), where) for x, where in wanted.picked]
            found = [x[where : where + 1] for x, where in picks if x is not None]
            along = found[-1] if found and not wanted.along else None
        there += [] if along is None else [(at, along)]
    if there:
        ids = ids.index_select(*there[0]).movedim(there[0][0], -1)
        several.remove(there[0][0])
    elif wanted.along:
        return None
    else:
        ids = ids[..., None]
    if not several:
        return ids.expand(wanted.rows, -1)
    rows = [positions_on(wanted.batch, axes[at]) for at in several]
    known = tuple(x for x in rows if x is not None)
    return ids[known] if len(known) == len(rows) else None


def side_ids(layers: Layers) -> dict[str, Ids | None]:
    """Return the ids of each side, [B, N]; None if unknown or if layers disagree."""
    several: dict[str, list[Ids | None]] = {}
    for kind, attentions in layers.items():
        of_queries, of_keys = SIDES[kind]
        for one in attentions:
            several.setdefault(of_queries, []).append(one.query_ids)
            several.setdefault(of_keys, []).append(one.key_ids)
    agreed: dict[str, Ids | None] = {}
    for side, ids in several.items():
        known = [x for x in ids if x is not None]
        same = all(np.array_equal(x, known[0]) for x in known)
        agreed[side] = known[0] if known and same and len(known) == len(ids) else None
    return agreed


def tokens_of(
    layers: Layers,
    sizes: dict[str, int],
    tokens: tuple[Tokens, Tokens],
    tokenizer: Any,
    inputs: Sequence[Tensor],
) -> list[RowTokens]:
    """Return the tokens of each row; without ids, the tokens are numbers from 1.

    ``sizes`` are the lengths of source and target. Raises InputError if given tokens do
    not match these lengths.
    """
    ids, piece = side_ids(layers), _pieces(tokenizer)
    target_ids = ids.get("target")
    last = None if target_ids is None else _last_labels(inputs, target_ids)
    result = []
    for row in range(len(next(iter(layers.values()))[0].weights)):
        made: list[Any] = []
        for given, (side, length) in zip(tokens, sizes.items(), strict=True):
            whole = ids.get(side)
            own = np.zeros(length, np.int64) if whole is None else whole[row]
            words = _given_tokens(f"{side}_tokens", given, row, length)
            if words is None and whole is None:
                words = tuple(str(at + 1) for at in range(length))
            elif words is None:
                words = tuple(piece(int(id)) for id in own)
            made += [words, np.ascontiguousarray(own, np.int64)]
        wanted = None if last is None else int(last[row])
        source, source_ids, target, own_ids = made
        result.append(
            RowTokens(
                *(source, source_ids, target, own_ids),
                piece=piece,
                known=target_ids is not None,
                last=wanted,
            )
        )
    return result


def _last_labels(inputs: Sequence[Tensor], ids: Ids) -> Ids | None:
    """Return the labels of the last rows, [B], if the model shifts its target itself.

    Such a model receives the labels and feeds each row the token before.
    """
    for wanted in (one.numpy() for one in inputs if not one.is_floating_point()):
        if wanted.shape == ids.shape and np.array_equal(wanted[:, :-1], ids[:, 1:]):
            return (
                None if (wanted == ids).all() or (wanted < 0).any() else wanted[:, -1]
            )
    return None


def _given_tokens(
    argument: str, given: Tokens, row: int, length: int
) -> tuple[str, ...] | None:
    if given is None or not length:
        return None
    several: Any = given
    mine = several if not several or isinstance(several[0], str) else several[row]
    if len(mine) != length:
        allowed = _("{n} tokens, as many as the model saw", n=length)
        raise wrong_value(argument, list(mine), allowed)
    return tuple(map(str, mine))


def _pieces(tokenizer: Any) -> Callable[[int], str]:
    """Return a function that maps an id to its token."""
    for name in ("convert_ids_to_tokens", "id_to_token", "id_to_piece", "IdToPiece"):
        if (method := getattr(tokenizer, name, None)) is not None:
            return lambda id: str(method(id))
    if callable(tokenizer):
        return lambda id: str(tokenizer(id))
    if tokenizer is not None:  # a list, or a dict keyed by id
        return lambda id: str(tokenizer[id])
    return str


# ---- Sides: which inputs are the source and which the target -------------------------


@dataclass(frozen=True, slots=True)
class Sides:
    """The marks of the source inputs and of the target inputs."""

    source: int
    target: int

    def kind(self, one: Captured) -> WatchedKind | None:
        """Return the kind by the inputs of queries and keys; None if unclear."""
        queries, keys = one.marks[0], one.marks[1]
        if border_of(one, self) is not None:
            return "merged"
        # learned queries count as a target
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
    """Whether queries and keys come from two inputs, or from disjoint parts of one."""
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
    """Assign a side to every input that attention depends on."""
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
    """Decide by what attends to what: the target attends to the source."""
    votes: dict[int, set[str]] = {mark: set() for mark in sides}

    def places(marks: int) -> set[str]:
        return {one.place for one in inputs if one.mark & marks}

    for one in found:
        queries, keys, values = one.marks
        read = keys | values
        if not queries & ~read:  # one softmax over keys of both sides
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
    """Give an input the side of the input at the same place in another step."""
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
    """Give an input the side of the inputs that are always read together with it."""
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
    """Merge a target that is a copy of the source, if all attention is cross."""
    copied = any(one.copied and one.mark & sides.target for one in inputs)
    if copied and all(sides.kind(one) == "cross" for one in found):
        return Sides(sides.source | sides.target, 0)
    return sides


def border_of(one: Captured, sides: Sides) -> int | None:
    """Return how many keys belong to the first side, if one softmax reads both."""
    if len(one.key_parts) < 2 or not all(marks for _size, marks in one.key_parts):
        return None
    of_target = [bool(marks & sides.target) for _size, marks in one.key_parts]
    if not sides.source or len(set(of_target)) != 2:
        return None
    at = of_target.index(not of_target[0])
    return sum(size for size, _marks in one.key_parts[:at])
