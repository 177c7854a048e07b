"""RowTokens: the ids of what was attended with, and the tokens of each row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from visformer.arguments import wrong_value
from visformer.language import _
from visformer.values.arrays import Ids
from visformer.values.facts import SIDES
from visformer.watching.axes import DataDimension, positions_on
from visformer.watching.captured import Captured
from visformer.watching.input_sides import Sides
from visformer.watching.inputs import IdsRead, Input, counting_tables
from visformer.watching.ledger import Picked

if TYPE_CHECKING:
    from visformer.watching.traces import Layers
    from visformer.watching.watcher import Tokens, Watched


class RowTokens(NamedTuple):
    """The two sides of one row."""

    source: tuple[str, ...]
    source_ids: Ids
    target: tuple[str, ...]
    target_ids: Ids
    piece: Callable[[int], str]  # a target id's token
    known: bool  # whether the target's ids are
    last: int | None  # what the last row is to predict, where that is known


class _Axes(NamedTuple):
    """What is asked for: ids at the positions of some axes."""

    marks: int  # of inputs that they may be of
    batch: DataDimension
    along: DataDimension
    picked: Picked  # where ``along`` has one position alone
    rows: int
    length: int


def with_ids(one: Captured, read: Sequence[IdsRead], sides: Sides) -> Captured:
    """Return an attention with the ids of its queries and keys, where they are known.

    They are those that an embedding was given, at the positions that the axes of
    queries and keys lead back to; ``read`` has those of words first.
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
    """Return an attention whose rows come as they were given, if the model sorts."""
    own = [x for x in inputs if x.mark & one.marks[0]]
    for axis in (x for given in own for dimension in given.axes for x in dimension):
        at = positions_on(one.batch_axes[0], axis)
        whole = at is not None and len(at) == len(one.weights) == axis.size
        if at is not None and whole and len(at.unique()) == len(at):
            in_order = torch.equal(at, at.sort().values)
            return one if in_order else one.rows(at.argsort())
    return one


def words_first(read: Sequence[IdsRead]) -> list[IdsRead]:
    """Sort what was read: words before positions and kinds, which are fewer."""
    counting = counting_tables(read)

    def likely(one: IdsRead) -> tuple[bool, bool, bool, int, int]:
        counts = one.table in counting
        return not one.aside, not counts, one.ids.dim() > 1, one.rows, one.order

    return sorted(read, key=likely, reverse=True)


def _ids_at(read: Sequence[IdsRead], axes: _Axes) -> Tensor | None:
    """Return the ids [B, N] at some axes, of words: the first that fit.

    ``read`` come with those of words first.
    """
    fit = [x for x in read if x.marks & axes.marks]
    for one in fit:
        made = _of_read(one, axes)
        if made is not None and made.shape == (axes.rows, axes.length):
            return made
    return None


def _of_read(one: IdsRead, wanted: _Axes) -> Tensor | None:
    """Return ids [B, N] of what an embedding was given; None where they are not its."""
    axes = [axis for dimension in one.axes for axis in dimension]
    ids = one.ids.reshape([axis.size for axis in axes])
    several = list(range(len(axes)))
    there: list[tuple[int, Tensor]] = []
    for at, axis in enumerate(axes):
        if len(wanted.along) == 1:
            along = wanted.along[0].positions_on(axis)
        else:  # one position alone, perhaps that of many
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
    """Return the ids of either side that there is, [B, N], if all layers agree."""
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
    watched: Watched, layers: Layers, sizes: dict[str, int]
) -> list[RowTokens]:
    """Return the tokens of each row; of what has no ids, they are numbered.

    ``sizes`` are those of source and target. Raises InputError for tokens that are not
    as many as the model saw.
    """
    watcher = watched.watcher
    ids, piece = side_ids(layers), _pieces(watcher.tokenizer)
    target_ids = ids.get("target")
    last = None if target_ids is None else _last_labels(watched, target_ids)
    result = []
    for row in range(len(next(iter(layers.values()))[0].weights)):
        made: list[Any] = []
        for given, (side, length) in zip(watcher.tokens, sizes.items(), strict=True):
            whole = ids.get(side)
            own = np.zeros(length, np.int64) if whole is None else whole[row]
            told = _told(f"{side}_tokens", given, row, length)
            if told is None and whole is None:
                told = tuple(str(at + 1) for at in range(length))
            elif told is None:
                told = tuple(piece(int(id)) for id in own)
            made += [told, np.ascontiguousarray(own, np.int64)]
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


def _last_labels(watched: Watched, ids: Ids) -> Ids | None:
    """Return what the last rows are to predict, [B], if the model shifts its target.

    Then it was given what each row is to predict, and reads the token before.
    """
    given = (*watched.targets, *watched.sources)
    for wanted in (one.numpy() for one in given if not one.is_floating_point()):
        if wanted.shape == ids.shape and np.array_equal(wanted[:, :-1], ids[:, 1:]):
            return (
                None if (wanted == ids).all() or (wanted < 0).any() else wanted[:, -1]
            )
    return None


def _told(
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
    """Return the function from an id to its token."""
    for name in ("convert_ids_to_tokens", "id_to_token", "id_to_piece", "IdToPiece"):
        if (method := getattr(tokenizer, name, None)) is not None:
            return lambda id: str(method(id))
    if callable(tokenizer):
        return lambda id: str(tokenizer(id))
    if tokenizer is not None:  # a list, or a dict of ids
        return lambda id: str(tokenizer[id])
    return str
