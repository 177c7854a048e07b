"""Compare two models or two runs: find the first head that differs."""

import copy
import inspect
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from visformer.arguments import wrong_type
from visformer.core.checkpoint import Checkpoint
from visformer.core.model import Layer, Stack, Transformer, norm_length
from visformer.core.models import SourceTokens
from visformer.core.modified import as_intervention
from visformer.core.parts import (
    ACTIVATIONS,
    Attention,
    FeedForward,
    UnbiasedNorm,
    make_norm,
)
from visformer.core.passes import IdRows, run
from visformer.errors import InputError, VisformerError
from visformer.language import _
from visformer.values.config import ModelConfig
from visformer.values.intervention import NO_CHANGES
from visformer.values.trace import Trace
from visformer.watching.compared_runs import ComparedRun, Comparison, compared
from visformer.watching.module_calls import same_chances
from visformer.watching.stepped import SteppedModel
from visformer.watching.watcher import Watched, difference, watch

AND = " + "
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
) -> tuple[tuple[tuple[Switch, ...], ...], int]:
    """Return the single switches that remove the difference, else pairs, else triples.

    Also returns how many runs were tried: all single switches, and combinations while
    time is left. Pairs consist of switches with an effect; triples extend the pairs
    whose first difference comes latest in the order of computation.
    """
    end = time.monotonic() + _SECONDS
    alone = _tried(((one,) for one in switches), attempt)
    if mended := _mended(alone, found):
        return mended, len(alone)
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
        return mended, len(alone) + len(pairs)
    best = sorted(pairs, key=lambda pair: pairs[pair].progress, reverse=True)
    wider = {
        tuple(sorted({*pair, *one}, key=switches.index))
        for pair in best[:_PROMISING]
        for one in alone
    }
    several = [three for three in combinations(switches, 3) if three in wider]
    threes = _tried(several, attempt, end)
    return _mended(threes, found), len(alone) + len(pairs) + len(threes)


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


def words_of(chosen: Sequence[Switch]) -> str:
    """Join the names of switches that are used together."""
    return AND.join(one.words for one in chosen)


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


Compared = nn.Module | Checkpoint | SteppedModel | Watched | Trace
IdSides = tuple[Tensor | None, Tensor | None]  # source and target ids
_SWITCHED = Checkpoint, SteppedModel  # the sides that have settings come first
_DECODER = "decoder_input_ids"  # the argument's name in transformers


def compare(
    a: Compared, b: Compared, source: IdRows | None = None, target: IdRows | None = None
) -> Comparison:
    """Return the first kind, layer and head whose attention differs.

    ``visformer.compare`` says what the sides and ids may be. Raises TypeError for other
    types, InputError if ids are missing or no attention is found, and whatever
    ``watch`` and ``run`` raise.
    """
    for name, given in (("a", a), ("b", b)):
        if not isinstance(given, Compared):
            allowed = _(
                "a torch.nn.Module, what visformer.load or wrap returns, a Watched or "
                "a Trace"
            )
            raise wrong_type(name, given, allowed)
    ids = _ids((a, b), source, target)
    runs = _ran(a, ids), _ran(b, ids)
    found = compared(*runs)
    outputs = [run.returned.last for run in runs if isinstance(run, Watched)]
    known = len(outputs) == 2 and all(x is not None for x in outputs)
    said = replace(
        found,
        output=difference(*outputs) if known else math.nan,
        certifiable=any(isinstance(side, nn.Module) for side in (a, b)),
    )
    if found.kind is None and found.same_output:
        return said
    quiet, first = _in_eval((a, b), runs, ids)
    if first and compared(*quiet).kind is None:
        return replace(said, remedies=(first,), tried=1)
    places = (at for kind in _SWITCHED for at in (1, 0) if isinstance((a, b)[at], kind))
    at = next(places, None)
    if at is None or not found.comparable:
        return replace(said, tried=int(bool(first)))
    side: Any = (a, b)[at]
    heads = found.heads if at else found.heads[::-1]
    config = side.config if isinstance(side, Checkpoint) else None
    spare = spare_of(side) if config else side
    attempt = attempts(
        spare,
        ids,
        lambda made: compared(*((quiet[0], made) if at else (made, quiet[1]))),
    )
    mended, tried = remedies([*switches_of(config, heads)], attempt, compared(*quiet))
    words = (AND.join(filter(None, (first, words_of(chosen)))) for chosen in mended)
    return replace(said, remedies=tuple(words), tried=tried + bool(first))


def attempts(
    spare: Checkpoint | SteppedModel,
    ids: IdSides,
    compare_with: Callable[[ComparedRun], Comparison],
) -> Attempt:
    """Return a function that runs a side with some switches and compares the result."""

    def attempt(chosen: Sequence[Switch]) -> Comparison | None:
        try:
            return compare_with(_again(spare, ids, chosen))
        except VisformerError:  # a switch may not apply to this model
            return None

    return attempt


def _again(
    spare: Checkpoint | SteppedModel, ids: IdSides, chosen: Sequence[Switch]
) -> ComparedRun:
    """Run a side with switches; InputError if they do not apply to this model."""
    if isinstance(spare, Checkpoint):
        variant, changes = switched(spare, chosen)
        return run(variant, *ids, intervention=changes)  # type: ignore[arg-type]
    change = as_intervention("; ".join(one.words for one in chosen))
    given = [x for x in ids if x is not None]
    spare.can(change, SourceTokens(given[0][0].tolist()))
    return spare.watched_batch(given, change)


def _ids(
    sides: tuple[Compared, Compared], source: IdRows | None, target: IdRows | None
) -> IdSides:
    """Return the ids to run, by default those that one of the sides has read."""
    if source is not None or target is not None:
        return _tensor("source", source), _tensor("target", target)
    if all(isinstance(side, Watched | Trace) for side in sides):
        return None, None
    for side in sides:
        if isinstance(side, Watched):
            return _read_by(side)
        if isinstance(side, Trace):
            return _of_traces([side])
    raise InputError(
        "There are no ids to run: give source and target, or the source alone of a "
        "model with one side."
    )


def _read_by(watched: Watched) -> IdSides:
    """Return a watched model's ids; for a loop, the ids it had read at the end."""
    if others := _others(watched):
        raise InputError(
            "The watched call was also given {names}: watch the other model in the "
            "same way, and compare what was watched.",
            names=", ".join(others),
        )
    calls = watched.sources, watched.targets
    if max(map(len, calls)) > 1:
        return _of_traces(watched.traces)
    source, target = (several[0] if several else None for several in calls)
    return source, target


def _others(watched: Watched) -> list[str]:
    """Name the inputs of a watched model other than source and target."""
    sides = watched.sides.source | watched.sides.target
    others = (one.name for one in watched.inputs if one.name and not one.mark & sides)
    return [*dict.fromkeys(others)]


def _of_traces(traces: Sequence[Trace]) -> IdSides:
    sides = [[t.source_ids for t in traces], [t.target_ids for t in traces]]
    source, target = (
        torch.from_numpy(np.stack(rows)) if rows and rows[0].size else None
        for rows in sides
    )
    return source, target


def _tensor(name: str, ids: IdRows | None) -> Tensor | None:
    if ids is None:
        return None
    try:
        return torch.as_tensor(ids)
    except (TypeError, ValueError, RuntimeError):
        allowed = _("rows of ids, padded to one length")
        raise wrong_type(name, ids, allowed) from None


def _ran(side: Compared, ids: IdSides) -> ComparedRun:
    """Run a side; InputError if no attention is found."""
    made: ComparedRun
    if isinstance(side, Trace):
        made = [side]
    elif isinstance(side, Watched):
        made = side
    elif isinstance(side, Checkpoint):
        if ids[1] is None:
            raise InputError("A checkpoint is run on a source and a target: give both.")
        made = run(side, *ids)  # type: ignore[arg-type]
    else:
        made = _watched(side, ids)
    if not (made.attentions if isinstance(made, Watched) else made[0].kinds):
        raise InputError("No attention was found in one of the two: give others.")
    return made


def _watched(side: nn.Module | SteppedModel, ids: IdSides) -> Watched:
    given = [x for x in ids if x is not None]
    if isinstance(side, SteppedModel):
        return side.watched_batch(given, NO_CHANGES)
    device = next((x.device for x in (*side.parameters(), *side.buffers())), "cpu")
    given = [x.to(device) for x in given]
    with torch.no_grad(), same_chances(side):
        taken = inspect.signature(side.forward).parameters
        if len(given) == 2 and _DECODER in taken:  # the second argument may be a mask
            return watch(side)(given[0], **{_DECODER: given[1]})
        return watch(side)(*given)


def _in_eval(
    sides: tuple[Compared, Compared],
    runs: tuple[ComparedRun, ComparedRun],
    ids: IdSides,
) -> tuple[tuple[ComparedRun, ComparedRun], str]:
    """Repeat the runs without dropout; also returns what disables it, or ""."""
    quiet, words = [*runs], []
    several = sum(_module_of(side) is not None for side in sides) > 1
    for at, (side, name) in enumerate(zip(sides, "ab", strict=True)):
        module = _module_of(side)
        if module is None or not any(part.training for part in module.modules()):
            continue
        own = _read_by(side) if isinstance(side, Watched) else ids
        with _evaluated(module):
            made = _watched(module, own)
        if compared(runs[at], made).kind is not None:
            quiet[at] = made
            words.append(f"{name}.eval()" if several else "module.eval()")
    return (quiet[0], quiet[1]), AND.join(words)


def _module_of(side: Compared) -> nn.Module | None:
    """Return a side's module, if it can be called again."""
    if isinstance(side, Watched):
        again = side.output is not None and not _others(side)
        return side.watcher.model if again else None
    return side if isinstance(side, nn.Module) else None


@contextmanager
def _evaluated(module: nn.Module) -> Iterator[None]:
    """Set eval mode inside the context; restores the mode of every submodule."""
    modes = {part: part.training for part in module.modules()}
    module.eval()
    try:
        yield
    finally:
        for part, mode in modes.items():
            part.training = mode
