"""A module's own forward pass held against the checkpoint that its weights make."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from visformer.core.checkpoint import Checkpoint
from visformer.core.model import Layer
from visformer.core.parts import Attention
from visformer.core.passes import IdRows, run
from visformer.errors import InputError, VisformerError
from visformer.language import _
from visformer.values.facts import Kind
from visformer.values.trace import Trace
from visformer.watching.watcher import watch

SAME = 1e-4  # weights that differ by less are the same
_CHANGES = ("causal off", "multiply", "scale off", "positions none", "positions halves")
_SETTINGS: dict[str, tuple[Any, ...]] = {
    "mask_rule": ("keys", "source_keys", "causal", "rows_and_keys", "target_rows"),
    "position_axis": ("time", "batch"),
    "embedding_scale": (False, True),
    "norm_first": (False, True),
}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Where a module's attention first differs from a checkpoint's, and what mends it.

    ``kind`` is None where nothing differs; ``layer`` and ``head`` count from 0.
    ``difference`` is the largest there, ``heads`` the numbers of heads of the module
    and the checkpoint. ``remedies`` are the changes of a run, or the settings, under
    each of which the difference vanishes.
    """

    kind: Kind | None
    layer: int
    head: int
    difference: float
    heads: tuple[int, int]
    remedies: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Say it in one sentence or two."""
        if self.kind is None:
            return _("The module's attention is the checkpoint's, in every head.")
        first = _(
            "The module differs from the checkpoint first in {kind} attention, layer "
            "{layer}, head {head}, by {difference:.2g}.",
            kind=self.kind,
            layer=self.layer + 1,
            head=self.head + 1,
            difference=self.difference,
        )
        if not self.remedies:
            return first
        second = _("It vanishes with {remedies}.", remedies=", ".join(self.remedies))
        return f"{first} {second}"


def compare(
    module: nn.Module, checkpoint: Checkpoint, source_ids: IdRows, target_ids: IdRows
) -> Comparison:
    """Compare ``module(source, target)`` with the checkpoint that was opened from it.

    Ids are int [B, S] and [B, T] as the module takes them. Raises InputError where no
    attention is found in the module, and what ``watch`` and ``run`` raise.
    """
    source, target = torch.as_tensor(source_ids), torch.as_tensor(target_ids)
    with torch.no_grad():
        theirs = watch(module)(source, target).traces
    if not theirs or not theirs[0].kinds:
        raise InputError(
            _("No attention was found in the module: give one that attends.")
        )
    ids = source.tolist(), target.tolist()
    found = _first(theirs, run(checkpoint, *ids))
    if found.kind is None:
        return found
    remedies = []
    for words, variant, change in _variants(checkpoint, found.heads):
        try:
            made = _first(theirs, run(variant, *ids, intervention=change))
        except VisformerError:
            continue
        if made.kind is None:
            remedies.append(words)
    return replace(found, remedies=tuple(remedies))


def _first(theirs: Sequence[Trace], ours: Sequence[Trace]) -> Comparison:
    """Return the first head, in the order of computation, whose weights differ."""
    one, other = theirs[0], ours[0]
    for kind, layer in _places(one, other):
        heads = one.heads(kind), other.heads(kind)
        for head in range(min(heads)):
            gap = max(
                float(np.abs(a.attention(kind, layer, head) - b).max())
                for a, mine in zip(theirs, ours, strict=True)
                for b in (mine.attention(kind, layer, head),)
            )
            if not gap < SAME or heads[0] != heads[1]:
                return Comparison(kind, layer, head, gap, heads)
    heads = one.heads(one.kinds[0]), other.heads(one.kinds[0])
    return Comparison(None, 0, 0, 0.0, heads)


def _places(one: Trace, other: Trace) -> Iterator[tuple[Kind, int]]:
    shared = [kind for kind in one.kinds if kind in other.kinds]
    stacks: tuple[tuple[Kind, ...], ...] = (("encoder",), ("decoder", "cross"))
    for stack in stacks:
        kinds = [kind for kind in stack if kind in shared]
        layers = max((one.layers(kind) for kind in kinds), default=0)
        for layer in range(layers):
            for kind in kinds:
                if layer < min(one.layers(kind), other.layers(kind)):
                    yield kind, layer


def _variants(
    checkpoint: Checkpoint, heads: tuple[int, int]
) -> Iterator[tuple[str, Checkpoint, str | None]]:
    """Yield what a program may do: words, the checkpoint, a change of its run."""
    if heads[0] != heads[1] and checkpoint.config.d_model % heads[0] == 0:
        yield f"heads={heads[0]}", _with(checkpoint, heads=heads[0]), None
    for change in _CHANGES:
        yield change, checkpoint, change
    for name, values in _SETTINGS.items():
        for value in values:
            if value != getattr(checkpoint.config, name):
                yield f"{name}={value}", _with(checkpoint, **{name: value}), None


def _with(checkpoint: Checkpoint, **fields: Any) -> Checkpoint:
    """Return the same weights under other settings."""
    config = replace(checkpoint.config, **fields)
    model = copy.deepcopy(checkpoint.model)
    model.config = config
    model.scale = math.sqrt(config.d_model) if config.embedding_scale else 1.0
    for part in model.modules():
        if isinstance(part, Attention):
            part.heads = config.heads
        elif isinstance(part, Layer):
            part.norm_first = config.norm_first
    return replace(checkpoint, config=config, model=model)
