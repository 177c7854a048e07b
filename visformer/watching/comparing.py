"""A module's own forward pass held against the checkpoint that its weights make."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from visformer.core.checkpoint import Checkpoint
from visformer.core.model import Layer
from visformer.core.parts import Attention
from visformer.core.passes import IdRows, run
from visformer.errors import InputError, VisformerError
from visformer.language import _
from visformer.values.arrays import log_softmax
from visformer.values.facts import Kind
from visformer.values.trace import Trace
from visformer.watching.watcher import Watched, watch

SAME = 1e-4  # weights that differ by less are the same
SAME_OUTPUT = 1e-3  # so are logarithms of probabilities
_CHANGES = {  # changes of a run, of which a module makes at most one of each line
    "causal": ("causal off", "causal +1", "causal -1"),
    "masked score": ("multiply",),
    "scale": ("scale off",),
    "positions": ("positions none", "positions halves", "positions interleaved"),
}
_SETTINGS: dict[str, tuple[Any, ...]] = {
    "mask_rule": ("keys", "source_keys", "causal", "rows_and_keys", "target_rows"),
    "position_axis": ("time", "batch"),
    "embedding_scale": (False, True),
    "norm_first": (False, True),
}
_EVAL, _AND = "module.eval()", " + "


@dataclass(frozen=True, slots=True)
class Comparison:
    """Where a module's attention first differs from a checkpoint's, and what mends it.

    ``kind`` is None where nothing differs; ``layer`` and ``head`` count from 0.
    ``difference`` is the largest there, ``heads`` the numbers of heads of the module
    and the checkpoint. ``remedies`` are the changes of a run, or the settings, under
    each of which the difference vanishes; where no single one does, pairs of them,
    joined by " + ". ``log_probabilities`` is the largest difference between the
    logarithms of the next token's probabilities, NaN where the module returns no
    logits [B, T, V].
    """

    kind: Kind | None
    layer: int
    head: int
    difference: float
    heads: tuple[int, int]
    log_probabilities: float = math.nan
    remedies: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Say it in one sentence or two."""
        if self.kind is None and self.log_probabilities > SAME_OUTPUT:
            return _(
                "The module's attention is the checkpoint's, in every head, but the "
                "logarithms of its probabilities differ by {difference:.2g}: look "
                "after the last attention.",
                difference=self.log_probabilities,
            )
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
        second = _(
            "No switch makes it vanish: visformer.watch(module).certify(source, "
            "target) looks for faults in its forward pass."
        )
        if self.remedies:
            remedies = ", ".join(self.remedies)
            second = _("It vanishes with {remedies}.", remedies=remedies)
        return f"{first} {second}"


def compare(
    module: nn.Module, checkpoint: Checkpoint, source_ids: IdRows, target_ids: IdRows
) -> Comparison:
    """Compare ``module(source, target)`` with the checkpoint that was opened from it.

    Ids are int [B, S] and [B, T] as the module takes them. Raises InputError where no
    attention is found in the module, and what ``watch`` and ``run`` raise.
    """
    source, target = torch.as_tensor(source_ids), torch.as_tensor(target_ids)
    theirs = _watched(module, source, target)
    if not theirs.traces or not theirs.traces[0].kinds:
        raise InputError(
            _("No attention was found in the module: give one that attends.")
        )
    ids = source.tolist(), target.tolist()
    ours = run(checkpoint, *ids)
    apart = _output_difference(theirs.output, ours)
    found = replace(_first(theirs.traces, ours), log_probabilities=apart)
    if found.kind is None:
        return found
    quiet, first = theirs, ""
    if any(part.training for part in module.modules()):
        quiet = _watched(copy.deepcopy(module).eval(), source, target)
        if _first(theirs.traces, quiet.traces).kind is not None:  # dropout is on
            first = _EVAL
            if _first(quiet.traces, ours).kind is None:
                return replace(found, remedies=(first,))
    remedies = _remedies(quiet, checkpoint, ids, found.heads)
    if first:
        remedies = tuple(_AND.join((first, remedy)) for remedy in remedies)
    return replace(found, remedies=remedies)


def _watched(module: nn.Module, source: Tensor, target: Tensor) -> Watched:
    with torch.no_grad():
        return watch(module)(source, target)


def _remedies(
    theirs: Watched,
    checkpoint: Checkpoint,
    ids: tuple[IdRows, IdRows],
    heads: tuple[int, int],
) -> tuple[str, ...]:
    """Return the switches that mend it alone, else the pairs of switches that do."""
    switches = list(_switches(checkpoint, heads))
    for several in (1, 2):
        mended = [
            _AND.join(switch.words for switch in chosen)
            for chosen in combinations(switches, several)
            if len({switch.name for switch in chosen}) == several
            and _mends(theirs, checkpoint, ids, chosen)
        ]
        if mended:
            return tuple(mended)
    return ()


def _mends(
    theirs: Watched,
    checkpoint: Checkpoint,
    ids: tuple[IdRows, IdRows],
    switches: Sequence[_Switch],
) -> bool:
    changes = [switch.words for switch in switches if switch.fields is None]
    fields = {k: v for switch in switches for k, v in (switch.fields or {}).items()}
    variant = _with(checkpoint, **fields) if fields else checkpoint
    try:
        made = run(variant, *ids, intervention="; ".join(changes) or None)
    except VisformerError:  # not every switch is every model's
        return False
    return _first(theirs.traces, made).kind is None


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


def _output_difference(output: Any, ours: Sequence[Trace]) -> float:
    """Return how far the next token's log-probabilities are apart, at most."""
    if not isinstance(output, Tensor) or not output.is_floating_point():
        return math.nan
    theirs = log_softmax(output.float().numpy(force=True))
    mine = np.stack([log_softmax(trace.logits) for trace in ours])
    if theirs.shape != mine.shape:
        return math.nan
    return float(np.abs(theirs - mine).max())


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


@dataclass(frozen=True, slots=True)
class _Switch:
    """What a program may do otherwise: a change of the run, or a setting."""

    name: str  # at most one switch of a name is tried at a time
    words: str
    fields: dict[str, Any] | None = None  # of the config; None: a change of the run


def _switches(checkpoint: Checkpoint, heads: tuple[int, int]) -> Iterator[_Switch]:
    if heads[0] != heads[1] and checkpoint.config.d_model % heads[0] == 0:
        yield _Switch("heads", f"heads={heads[0]}", {"heads": heads[0]})
    for name, changes in _CHANGES.items():
        for change in changes:
            yield _Switch(name, change)
    for name, values in _SETTINGS.items():
        for value in values:
            if value != getattr(checkpoint.config, name):
                yield _Switch(name, f"{name}={value}", {name: value})


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
