"""The predictions of each row of a watched decoder, from the model's own output."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves

from visformer.core.next_tokens import NextTokens
from visformer.values.step import Candidates, Choice, Step
from visformer.watching.module_calls import ModuleCall

if TYPE_CHECKING:
    from visformer.watching.row_tokens import RowTokens
    from visformer.watching.watched_runs import RunRows


class RowLogits(NamedTuple):
    """The logits after each token of some rows."""

    logits: Tensor  # float32 [B, T, V], on the CPU
    known: Tensor  # bool [T]: the logits are NaN where False


def steps_of(logits: Tensor, known: Tensor, tokens: RowTokens) -> tuple[Step, ...]:
    """Return the steps of a row from its logits [T, V]; () without ids.

    Where the logits are unknown, a step has the next token read and no candidates.
    """
    if not len(tokens.target) or not known[-1]:
        return ()
    most = max(int(tokens.target_ids.max()), tokens.last or 0)
    if not tokens.known or most >= logits.shape[-1]:
        return ()
    rows, places = NextTokens(logits[known]), known.cumsum(0) - 1
    ids = [int(id) for id in tokens.target_ids[1:]]
    choices = [Choice(id, "reference") for id in ids]
    if tokens.last is None:
        choices.append(Choice(int(rows.best[-1, 0]), "model"))
    else:
        choices.append(Choice(tokens.last, "reference"))
    pieces = [tokens.piece(choice.id) for choice in choices]
    texts = itertools.accumulate(pieces, "{} {}".format)
    none = Candidates(np.zeros(0), (), np.zeros(0))
    return tuple(
        rows.step(int(place), choice, text, tokens.piece)
        if there
        else Step(choice.id, piece, math.nan, 1, none, math.nan, choice.origin, text)
        for choice, piece, text, there, place in zip(
            choices, pieces, texts, known, places, strict=True
        )
    )


class Returned(NamedTuple):
    """A tensor that a module returned and that may be logits."""

    order: int  # the number of marks at that time: earlier attentions have smaller ones
    outermost: int  # the top-level call
    tensor: Tensor


class LogitsKept:
    """Keeps possible logits: tensors of that name, or whose last axis counts tokens.

    If a call returns only ids or a loss, the outputs of its submodules are kept.
    """

    def __init__(self, model: nn.Module) -> None:
        self.last: Any = None  # the output of the last top-level call
        self._kept: list[Returned] = []
        tables = [one for one in model.modules() if isinstance(one, nn.Embedding)]
        # an axis counts tokens if an embedding has as many rows
        sizes = {one.num_embeddings for one in tables}
        self._sizes = sizes - {one.embedding_dim for one in tables}

    def note(self, call: ModuleCall, result: Any, order: int) -> None:
        """Record the output of a call."""
        if call.parent:
            found = [result] if isinstance(result, Tensor) else []
        else:
            self.last = result
            leaves = [x for x in tree_leaves(result) if isinstance(x, Tensor)]
            found = [_named_logits(result), *leaves]
            if any(x.is_floating_point() and x.dim() > 1 for x in leaves):
                own = call.outermost
                self._kept = [x for x in self._kept if x.outermost != own]
        for at, one in enumerate(found):
            if not isinstance(one, Tensor) or one.is_nested:
                continue
            named = at == 0 and not call.parent and one is found[0]
            floats = one.is_floating_point() and one.dim() < 4
            if floats and (named or one.shape[-1:].numel() in self._sizes):
                with _disable_current_modes():
                    kept = one.detach().to("cpu", torch.float32, copy=True)
                self._kept.append(Returned(order, call.outermost, kept))

    def between(self, after: int, before: int) -> list[Tensor]:
        """Return the tensors recorded between two marks, the latest first."""
        found = [x for x in self._kept if after <= x.order < before]
        found.sort(key=lambda x: x.order, reverse=True)
        return [x.tensor for x in found]


def logits_of_rows(
    returned: LogitsKept, starts: Sequence[int], shown: RunRows, *, time_first: bool
) -> RowLogits | None:
    """Return logits of rows, each from the step that computed it; None if unknown.

    ``starts`` are the marks at which the attentions began.
    """
    parts: list[Tensor] = []  # for each step [B, T or 1, V], its last rows
    lengths: list[int] = []
    for (step, kept), taken in zip(shown.chain, shown.taken, strict=True):
        own = step.own
        if not own:
            return None
        after = max(one.mark.bit_length() for one in own)
        before = min((x for x in starts if x > after), default=after + 2**31)
        several = returned.between(after, before)
        rows, length = len(own[-1].weights), max(x.weights.shape[2] for x in own)
        made = laid_logits(several, rows, length, time_first=time_first)
        fits = made is not None and int(taken.max()) < len(made)
        if made is not None and kept < length:  # the loop took back the rest
            made = made[:, :kept] if made.shape[1] == length else made[:, :0]
        parts.append(made[taken] if fits and made is not None else torch.zeros(0, 0, 0))
        lengths.append(kept)
    found = next((x for x in parts if len(x)), None)
    if found is None or any(len(x) and x.shape[2] != found.shape[2] for x in parts):
        return None
    whole = found.new_full((len(found), sum(lengths), found.shape[2]), torch.nan)
    known = torch.zeros(sum(lengths), dtype=torch.bool)
    for part, end in zip(parts, itertools.accumulate(lengths), strict=True):
        there = slice(end - part.shape[1], end)
        whole[:, there], known[there] = part if len(part) else whole[:, there], True
    return RowLogits(whole, known)


def laid_logits(
    several: Sequence[Tensor], rows: int, length: int, *, time_first: bool
) -> Tensor | None:
    """Return the first possible logits as float32 [B, T, V] or [B, 1, V].

    Accepted are [B, T, V], [T, B, V] and [B T, V] ([T B, V] if ``time_first``), and for
    the last token [B, 1, V], [1, B, V], [B, V] and [V].
    """
    for one in several:
        if one.dim() == 2 and len(one) == rows * length:
            one = one.unflatten(0, (length, rows) if time_first else (rows, length))
            one = one.transpose(0, 1) if time_first else one
        elif one.dim() < 3:
            one = one.reshape(-1, 1, one.shape[-1])
        turned = one.transpose(0, 1)
        several_ways = (turned, one) if time_first else (one, turned)
        for shape in ((rows, length), (rows, 1)):
            for laid in several_ways:
                if laid.shape[:2] == shape:
                    return as_logits(laid)
    return None


def logits_of(output: Any, rows: int, length: int) -> Tensor | None:
    """Find logits [B, T, V] in the output of a function."""
    several = [_named_logits(output), *tree_leaves(output)]
    found = [x for x in several if isinstance(x, Tensor) and not x.is_nested]
    found = [x for x in found if x.is_floating_point()]
    whole = [x for x in found if x.dim() == 3 and x.shape[:2].numel() == rows * length]
    return laid_logits(whole, rows, length, time_first=False)


def _named_logits(output: Any) -> Any:
    named = output.get("logits") if isinstance(output, Mapping) else None
    return getattr(output, "logits", named)


def as_logits(numbers: Tensor) -> Tensor:
    """Return float32 logits [..., V] on the CPU; takes the log of probabilities."""
    numbers = numbers.detach().float().cpu()
    given = bool((numbers >= 0).all())
    given = given and bool(((numbers.sum(-1) - 1).abs() < 1e-3).all())
    return numbers.log() if given else numbers
