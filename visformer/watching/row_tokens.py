"""RowTokens: the tokens of each row of a watched batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from visformer.arguments import wrong_value
from visformer.language import _
from visformer.values.arrays import Ids

if TYPE_CHECKING:
    from visformer.watching.watcher import Tokens, Watched


class RowTokens(NamedTuple):
    """The two sides of one row."""

    source: tuple[str, ...]
    source_ids: Ids
    target: tuple[str, ...]
    target_ids: Ids
    piece: Callable[[int], str]  # a target id's token


def tokens_of(watched: Watched, rows: int, source: int, target: int) -> list[RowTokens]:
    """Return the tokens of each row; of what has no ids, they are numbered.

    Raises InputError for tokens that are not as many as the model saw.
    """
    watcher, axis = watched.watcher, watched.time_axis
    own = watched.target_ids or (watched.source_ids if not source else [])
    ids = (
        ids_of(watched.source_ids, rows, source, axis) if source else None,
        ids_of(own, rows, target, axis) if target else None,
    )
    piece = _pieces(watcher.tokenizer)
    result = []
    for row in range(rows):
        sides: list[Any] = []
        for name, at, length in (("source", 0, source), ("target", 1, target)):
            told = _told(f"{name}_tokens", watcher.tokens[at], row, length)
            mine = ids[at]
            numbers = None if mine is None else mine[row].numpy().astype(np.int64)
            if told is None:
                told = (
                    tuple(str(i + 1) for i in range(length))
                    if numbers is None
                    else tuple(piece(int(i)) for i in numbers)
                )
            zeros = np.zeros(length, np.int64)
            sides += [told, zeros if numbers is None else numbers]
        source_text, source_ids, target_text, target_ids = sides
        result.append(
            RowTokens(source_text, source_ids, target_text, target_ids, piece)
        )
    return result


def ids_of(
    given: Sequence[Tensor], rows: int, length: int, time_axis: int | None
) -> Tensor | None:
    """Return the ids [B, length] that the last calls were given together, if any."""
    taken: list[Tensor] = []
    have = 0
    for tensor in reversed(given):
        if tensor.is_floating_point() or tensor.dim() > 2:
            return None
        tensor = tensor[None] if tensor.dim() == 1 else tensor
        if tensor.shape[1] == rows and (time_axis == 0 or tensor.shape[0] != rows):
            tensor = tensor.T
        if tensor.shape[0] != rows and rows % max(1, tensor.shape[0]) == 0:
            tensor = tensor.repeat_interleave(rows // max(1, tensor.shape[0]), 0)
        if tensor.shape[0] != rows or have + tensor.shape[1] > length:
            return None
        taken.insert(0, tensor)
        have += tensor.shape[1]
        if have == length:
            return torch.cat(taken, 1)
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
