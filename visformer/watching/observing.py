"""Collect what the checks need to know about a watched model."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from visformer.analysis.checks.observation import (
    BrokenTensor,
    EqualLayers,
    ModelState,
    Observation,
)
from visformer.analysis.checks.outputs import predicts_next
from visformer.core.check import broken_tensors, is_gated
from visformer.values.arrays import Floats, Ids
from visformer.values.watched_attention import WatchedAttention
from visformer.watching.axis_rules import leaves_of
from visformer.watching.ledger import storage_of
from visformer.watching.module_calls import COMPILED

if TYPE_CHECKING:
    from visformer.watching.watcher import Watched

LIBRARY = "transformers."  # its models use the scale they were trained with
# the values of a fresh norm: copies of untrained layers are not reported
FRESH = {"weight": 1.0, "bias": 0.0}


def observed(watched: Watched) -> Observation:
    """Return what the checks need to know about the last pass."""
    run = tuple(watched.last_run)
    given = _given(run)
    labels = _labels(watched, given)
    pad, two = watched.watcher.pad, bool(watched.targets)
    output = watched.returned.last if watched.output is None else watched.output
    logits = _rows_of(output, given, watched.time_axis)
    best, surest = _predicted(logits, given)
    next_token = (
        labels is not None
        and given is not None
        and (two or given.shape[1] > 2)
        and predicts_next(given, labels, pad)
    )
    return Observation(
        run=run,
        watched=True,
        state=_state(watched, run, output),
        pad=pad,
        source=bool(watched.sources),
        target=two,
        given=given,
        labels=labels,
        rows_out=logits is not None,
        best=best,
        surest=surest,
        next_token=next_token,
    )


def _given(attentions: tuple[WatchedAttention, ...]) -> Ids | None:
    """Return the ids of the predicting side, [B, T]."""
    own = [one for one in attentions if one.kind not in ("encoder", "other")]
    several = [one.query_ids for one in own or attentions]
    return several[0] if several else None


def _labels(watched: Watched, given: Ids | None) -> Ids | None:
    labels = watched.watcher.labels
    if labels is None or given is None:
        return None
    wanted: Ids = labels.detach().cpu().numpy()
    if wanted.ndim == 1 and wanted.size == given.size:  # flattened for a loss
        wanted = wanted.reshape(given.shape[:: -1 if watched.time_axis == 0 else 1])
    if watched.time_axis == 0:
        wanted = wanted.T
    return wanted if wanted.shape == given.shape else None


def first_tensor(output: Any) -> Tensor | None:
    """Return the first floating-point tensor of an output that is not a scalar loss."""
    several = [x for x in leaves_of(output) if x.is_floating_point()]
    return next((x for x in several if x.dim() > 1), next(iter(several), None))


def _rows_of(output: Any, given: Ids | None, time_axis: int | None) -> Tensor | None:
    """Return an output as one row per given token, [B, T, V], if possible."""
    logits = first_tensor(output)
    if logits is None or given is None:
        return None
    if logits.dim() == 2 and len(logits) == given.size and time_axis != 0:
        logits = logits.reshape(*given.shape, -1)
    if logits.dim() == 3 and time_axis == 0:
        logits = logits.transpose(0, 1)
    fits = logits.dim() == 3 and logits.shape[:2] == given.shape
    return logits.detach() if fits else None


def _predicted(
    logits: Tensor | None, given: Ids | None
) -> tuple[Ids | None, Floats | None]:
    """Return the most likely token of each row, [B, T], and its probability."""
    if logits is None or given is None or given.min() < 0:
        return None, None
    if given.max() >= logits.shape[2]:
        return None, None
    surest, best = logits.float().softmax(-1).max(-1)
    return best.cpu().numpy(), surest.cpu().numpy()


# ---- the model -----------------------------------------------------------------------


def _state(
    watched: Watched, attentions: tuple[WatchedAttention, ...], output: Any
) -> ModelState:
    model = watched.watcher.model
    modules = {
        name.replace(COMPILED, "").removesuffix("_orig_mod"): module
        for name, module in model.named_modules()
    }
    dropped = [one.module for one in attentions if one.dropout]
    numbers = leaves_of(output)
    finite = bool(numbers) and all(bool(torch.isfinite(x).all()) for x in numbers)
    paths = dict.fromkeys([*watched.dropout, *dropped])
    on = [path for path in paths if modules.get(path, model).training]
    return ModelState(
        broken=tuple(broken_tensors(model, harmless=finite)),
        fast_path=next(
            (
                BrokenTensor(x.module or type(model).__name__, x.broken, x.places)
                for x in watched.fast_paths
                if x.broken
            ),
            None,
        ),
        dropping=tuple(on),
        dropping_always=tuple(path for path in paths if path not in on),
        gated=is_gated(model),
        equal=tuple(_equal(model, {one.module for one in attentions})),
        # its attention does not join a residual stream
        alone=frozenset(
            {one.module for one in watched.found if one.marks[0]}
            - {one.module for one in watched.found if one.mark & watched.joined}
        ),
        tied=_is_tied(model, watched.multiplied),
        own_scale=frozenset(
            one.module for one in attentions if _has_own_scale(one, modules)
        ),
        perhaps_normed=frozenset(
            one.module
            for one in attentions
            if one.weights.shape[1] * one.queries.shape[3] in _gains(one, modules)
        ),
    )


def _equal(model: nn.Module, attending: set[str]) -> Iterator[EqualLayers]:
    """Yield adjacent layers of a stack that have equal parameters."""
    for path, stack in model.named_modules():
        if not isinstance(stack, nn.ModuleList | nn.Sequential):
            continue
        several = [
            (f"{path}.{name}".lstrip("."), dict(layer.named_parameters()))
            for name, layer in stack.named_children()
        ]
        for (one, first), (other, second) in itertools.pairwise(several):
            layers = all(
                any(f"{module}.".startswith(f"{name}.") for module in attending)
                for name in (one, other)
            )
            if layers and _are_copies(first, second):
                yield EqualLayers(one, other, len(first))


def _are_copies(one: dict[str, nn.Parameter], other: dict[str, nn.Parameter]) -> bool:
    """Whether parameters are equal without being shared or untrained."""
    if not one or one.keys() != other.keys():
        return False
    pairs = [(one[name], other[name]) for name in one]
    if any(a is b or a.shape != b.shape for a, b in pairs):
        return False
    norms = [
        bool((x == FRESH[name.rpartition(".")[2]]).all())
        for name, x in one.items()
        if "norm" in name.lower() and name.rpartition(".")[2] in FRESH
    ]
    if norms and all(norms):  # torch.nn.TransformerEncoder starts with copies
        return False
    return all(torch.equal(a, b) for a, b in pairs)


def _has_own_scale(one: WatchedAttention, modules: dict[str, nn.Module]) -> bool:
    """Whether the scale is intended: a library's, learned, or with query-key norms."""
    heads, size = one.weights.shape[1], one.queries.shape[3]
    around = [modules.get(x) for x in (one.module, one.module.rpartition(".")[0])]
    return (_gains(one, modules) - {heads * size}) & {1, heads, size} != set() or any(
        type(module).__module__.startswith(LIBRARY) for module in around
    )


def _gains(one: WatchedAttention, modules: dict[str, nn.Module]) -> set[int]:
    """Return the sizes of learned gains beside the projections."""
    path, whole = one.module, one.weights.shape[1] * one.queries.shape[3]
    module = modules.get(path, nn.Identity())
    while path and all(x.numel() <= whole for x in module.parameters()):
        path = path.rpartition(".")[0]  # a submodule without projections
        module = modules.get(path, nn.Identity())
    above = modules.get(path.rpartition(".")[0], module)
    several = {x.numel() for name, x in module.named_parameters() if "bias" not in name}
    single = {x.numel() for x in above.parameters(recurse=False)}
    return several | (single & {1, one.weights.shape[1]})


def _is_tied(model: nn.Module, multiplied: set[int]) -> bool:
    """Whether an embedding table is also used in a product."""
    tables = (x for x in model.modules() if isinstance(x, nn.Embedding))
    return any(id(storage_of(x.weight)) in multiplied for x in tables)
