"""Settings that a file does not say, varied until a checkpoint agrees with a run."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from torch import nn

from visformer.core.checkpoint import Checkpoint
from visformer.core.model import Layer, Stack, Transformer, norm_length
from visformer.core.parts import (
    ACTIVATIONS,
    Attention,
    FeedForward,
    UnbiasedNorm,
    make_norm,
)
from visformer.values.config import ModelConfig
from visformer.watching.compared_runs import Comparison

# changes of a run; a module makes at most one of each line
CHANGES = {
    "causal": ("causal off", "causal +1", "causal -1"),
    "masked score": ("multiply",),
    "scale": ("scale off",),
    "positions": ("positions none", "positions halves", "positions interleaved"),
}
_SETTINGS: dict[str, tuple[Any, ...]] = {
    "norm": ("layer", "unbiased", "rms"),
    "mask_rule": ("keys", "source_keys", "causal", "rows_and_keys", "target_rows"),
    "position_axis": ("time", "batch"),
    "embedding_scale": (False, True),
    "norm_first": (False, True),
    "activation": ("relu", "gelu", "silu", "tanh"),
    "masked_value": (-1e9, -1e4, -math.inf),
    "norm_eps": (1e-5, 1e-6, 1e-12),
}
_NORMS = nn.LayerNorm, nn.RMSNorm, UnbiasedNorm
_PROMISING = 4  # pairs that are extended by a third switch
_MOST = 60  # limit of tried pairs, and of tried triples
_SECONDS = 5.0  # time limit for pairs and triples


@dataclass(frozen=True, slots=True)
class Switch:
    """A setting or a change of the run that may be varied."""

    name: str  # switches of the same name exclude each other
    words: str
    value: Any = None  # the config's field ``name``; None for a change of the run


# runs with some switches and compares; returns None if they do not apply to the model
Attempt = Callable[[Sequence[Switch]], Comparison | None]


def remedies(
    switches: Sequence[Switch], attempt: Attempt, found: Comparison
) -> tuple[tuple[Switch, ...], ...]:
    """Return the single switches that remove the difference, else pairs, else triples.

    All single switches are tried, and combinations while time is left. Pairs consist of
    switches with an effect; triples extend the pairs whose first difference comes
    latest in the order of computation.
    """
    end = time.monotonic() + _SECONDS
    alone = _tried(((one,) for one in switches), attempt)
    if mended := _mended(alone, found):
        return mended
    telling = [one for (one,), made in alone.items() if made != found]
    # a switch that does not move the first difference helps only beside one that does
    moving = {one for (one,), made in alone.items() if made.progress != found.progress}
    moving = moving or {*telling}  # only the output differs
    likely = sorted(
        combinations(telling, 2),
        key=lambda pair: max(alone[one,].progress for one in pair),
        reverse=True,
    )
    pairs = _tried(
        (pair for pair in likely if not moving.isdisjoint(pair)), attempt, end
    )
    if mended := _mended(pairs, found):
        return mended
    best = sorted(pairs, key=lambda pair: pairs[pair].progress, reverse=True)
    wider = {
        tuple(sorted({*pair, *one}, key=switches.index))
        for pair in best[:_PROMISING]
        for one in alone
    }
    several = [three for three in combinations(switches, 3) if three in wider]
    threes = _tried(several, attempt, end)
    return _mended(threes, found)


def _tried(
    several: Iterable[tuple[Switch, ...]], attempt: Attempt, end: float = math.inf
) -> dict[tuple[Switch, ...], Comparison]:
    tried: dict[tuple[Switch, ...], Comparison] = {}
    for one in several:
        if end < math.inf and (time.monotonic() > end or len(tried) == _MOST):
            break
        if len({x.name for x in one}) == len(one) and (made := attempt(one)):
            tried[one] = made
    return tried


def _mended(
    tried: dict[tuple[Switch, ...], Comparison], found: Comparison
) -> tuple[tuple[Switch, ...], ...]:
    """Return what also makes the outputs equal; if nothing does, the attention."""
    inside = [chosen for chosen, made in tried.items() if made.kind is None]
    whole = [chosen for chosen in inside if tried[chosen].same_output]
    return tuple(whole if whole or found.kind is None else inside)


def switches_of(config: ModelConfig | None, heads: tuple[int, int]) -> Iterator[Switch]:
    """Yield the switches of a model whose attention has ``heads[1]`` heads.

    The other model has ``heads[0]``. Without a config, only changes of the run.
    """
    for name, changes in CHANGES.items():
        for change in changes:
            yield Switch(name, change)
    if config is None:
        return
    if heads[0] != heads[1] and heads[0] and config.d_model % heads[0] == 0:
        yield Switch("heads", f"heads={heads[0]}", heads[0])
    for name, values in _SETTINGS.items():
        for value in values:
            biased_rms = value == "rms" and config.norm_bias  # RMS norms have no bias
            if value != getattr(config, name) and not biased_rms:
                said = f"{value:g}" if isinstance(value, float) else value
                yield Switch(name, f"{name}={said}", value)


def spare_of(checkpoint: Checkpoint) -> Checkpoint:
    """Return a checkpoint with new modules that share the tensors."""
    return replace(checkpoint, model=_copied(checkpoint.model))


def _copied(model: Transformer, shared: Iterable[nn.Module] = ()) -> Transformer:
    """Copy a model's modules except ``shared``; the tensors are never copied."""
    same = (*shared, *model.parameters(), *model.buffers())
    return copy.deepcopy(model, {id(x): x for x in same})


def _holds_norm(module: nn.Module) -> bool:
    return any(isinstance(one, _NORMS) for one in module.modules())


def switched(
    spare: Checkpoint, switches: Sequence[Switch]
) -> tuple[Checkpoint, str | None]:
    """Apply switches to a spare checkpoint; also returns the change of its run, if any.

    The modules are reused by the next call.
    """
    changes = [one.words for one in switches if one.value is None]
    fields = {one.name: one.value for one in switches if one.value is not None}
    config, model = replace(spare.config, **fields), spare.model
    if not fields.keys().isdisjoint(("norm", "norm_eps")):
        # to copy what holds no norm takes longer than to run it
        model = _copied(model, (x for x in model.modules() if not _holds_norm(x)))
        _renew_norms(model.encoder, config, norm_length(config, cross=False))
        _renew_norms(model.decoder, config, norm_length(config, cross=True))
    model.config = config
    model.scale = math.sqrt(config.d_model) if config.embedding_scale else 1.0
    for part in model.modules():
        if isinstance(part, Attention):
            part.heads, part.masked_value = config.heads, config.masked_value
        elif isinstance(part, Layer):
            part.norm_first = config.norm_first
        elif isinstance(part, FeedForward):
            part.activation = ACTIVATIONS[config.activation]
    return replace(spare, config=config, model=model), "; ".join(changes) or None


def _renew_norms(stack: Stack, config: ModelConfig, length: int) -> None:
    """Replace the norms of a stack by those of the config, keeping their weights."""
    for parent in stack.modules():
        for name, old in [*parent.named_children()]:
            if isinstance(old, _NORMS):
                made = make_norm(
                    config.norm,
                    d_model=config.d_model,
                    eps=config.norm_eps,
                    bias=getattr(old, "bias", None) is not None,
                    length=length,
                )
                for kept, weight in old.named_parameters():
                    setattr(made, kept, weight)
                setattr(parent, name, made)
