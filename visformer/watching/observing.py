"""Observed: what the checks are told of a watched model."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from visformer.analysis.checks.observation import (
    BrokenTensor,
    EqualLayers,
    ModelState,
    Observation,
)
from visformer.analysis.checks.outputs import predicts_next
from visformer.values.arrays import Floats, Ids
from visformer.values.watched_attention import WatchedAttention
from visformer.watching.module_calls import COMPILED

if TYPE_CHECKING:
    from visformer.watching.watcher import Watched

LIBRARY = "transformers."  # its models have the scale that they were trained with
# as layers are before training: copies of one of them are no finding then
FRESH = {"weight": 1.0, "bias": 0.0}


class Predicted(NamedTuple):
    """What an output says of each token given, [B, T]."""

    best: Ids
    chances: Floats


def observed(watched: Watched) -> Observation:
    """Return what is known of the last pass, as the checks take it."""
    run = tuple(watched.last_run)
    given = _given(run)
    labels = _labels(watched, given)
    pad, two = watched.watcher.pad, bool(watched.targets)
    output = watched.returned.last if watched.output is None else watched.output
    logits = _rows_of(output, given, watched.time_axis)
    predicted = _predicted(logits, given)
    next_token = (
        labels is not None
        and given is not None
        and (two or given.shape[1] > 2)
        and predicts_next(given, labels, pad)
    )
    return Observation(
        run=run,
        state=_state(watched, run, logits),
        pad=pad,
        source=bool(watched.sources),
        target=two,
        given=given,
        labels=labels,
        rows_out=logits is not None,
        best=predicted.best if predicted else None,
        chances=predicted.chances if predicted else None,
        next_token=next_token,
    )


def _given(attentions: tuple[WatchedAttention, ...]) -> Ids | None:
    """Return the ids of the side that predicts, [B, T]."""
    own = [one for one in attentions if one.kind not in ("encoder", "other")]
    several = [one.query_ids for one in own or attentions]
    return several[0] if several else None


def _labels(watched: Watched, given: Ids | None) -> Ids | None:
    labels = watched.watcher.labels
    if labels is None or given is None:
        return None
    wanted: Ids = labels.detach().cpu().numpy()
    if wanted.ndim == 1 and wanted.size == given.size:  # as a loss takes them
        wanted = wanted.reshape(given.shape[:: -1 if watched.time_axis == 0 else 1])
    if watched.time_axis == 0:
        wanted = wanted.T
    return wanted if wanted.shape == given.shape else None


def first_tensor(output: Any) -> Tensor | None:
    """Return the first tensor of numbers of what a model returned; a loss is none."""
    several = [
        x
        for x in tree_leaves(output)
        if isinstance(x, Tensor) and x.is_floating_point()
    ]
    return next((x for x in several if x.dim() > 1), next(iter(several), None))


def _rows_of(output: Any, given: Ids | None, time_axis: int | None) -> Tensor | None:
    """Return an output with a row for each token given, [B, T, V]; None for none."""
    logits = first_tensor(output)
    if logits is None or given is None:
        return None
    if logits.dim() == 2 and len(logits) == given.size and time_axis != 0:
        logits = logits.reshape(*given.shape, -1)
    if logits.dim() == 3 and time_axis == 0:
        logits = logits.transpose(0, 1)
    fits = logits.dim() == 3 and logits.shape[:2] == given.shape
    return logits.detach() if fits else None


def _predicted(logits: Tensor | None, given: Ids | None) -> Predicted | None:
    if logits is None or given is None or given.min() < 0:
        return None
    if given.max() >= logits.shape[2]:
        return None
    own = torch.from_numpy(np.array(given)).to(logits.device)[..., None]
    chances = logits.float().log_softmax(-1).gather(-1, own)[..., 0].exp()
    return Predicted(logits.argmax(-1).cpu().numpy(), chances.cpu().numpy())


# ---- the model -----------------------------------------------------------------------


def _state(
    watched: Watched, attentions: tuple[WatchedAttention, ...], logits: Tensor | None
) -> ModelState:
    model = watched.watcher.model
    modules = {
        name.replace(COMPILED, "").removesuffix("_orig_mod"): module
        for name, module in model.named_modules()
    }
    dropped = [one.module for one in attentions if one.dropout]
    paths = dict.fromkeys([*watched.dropout, *dropped])
    on = [path for path in paths if modules.get(path, model).training]
    return ModelState(
        broken=tuple(_broken(model)),
        dropping=tuple(on),
        dropping_always=tuple(path for path in paths if path not in on),
        gated=any(
            not name.endswith("bias") and not bool(x.any())
            for name, x in model.named_parameters()
            if not x.is_meta and x.layout == torch.strided
        ),
        equal=tuple(_equal(model, {one.module for one in attentions})),
        tied=logits is not None and _is_tied(model, logits.shape[2]),
        own_scale=frozenset(
            one.module for one in attentions if _has_own_scale(one, modules)
        ),
    )


def _broken(model: nn.Module) -> Iterator[BrokenTensor]:
    """Yield parameters that are not finite, and buffers that hold NaN."""
    parameters = dict(model.named_parameters())
    for name, tensor in [*parameters.items(), *model.named_buffers()]:
        if not tensor.is_floating_point() or tensor.layout != torch.strided:
            continue
        if tensor.is_nested or tensor.dtype.itemsize == 1:  # no sum of them
            continue
        if tensor.is_meta or torch.isfinite(tensor.detach().sum()):
            continue  # finite numbers may overflow in the sum
        bad = ~torch.isfinite(tensor) if name in parameters else tensor.isnan()
        if count := int(bad.sum()):
            yield BrokenTensor(name, count, tensor.numel())


def _equal(model: nn.Module, attending: set[str]) -> Iterator[EqualLayers]:
    """Yield neighbours of a stack of layers that hold the same numbers."""
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
    """Whether tensors are equal, not shared, and not as a fresh layer's are."""
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
    if norms and all(norms):  # torch.nn.TransformerEncoder begins with copies
        return False
    return all(torch.equal(a, b) for a, b in pairs)


def _is_tied(model: nn.Module, size: int) -> bool:
    """Whether only tables of embeddings have as many rows as the output has numbers."""
    tables = {
        module.weight.data_ptr()
        for module in model.modules()
        if isinstance(module, nn.Embedding) and module.num_embeddings == size
    }
    own = {x.data_ptr() for x in model.parameters() if x.dim() == 2 and size in x.shape}
    return bool(tables) and own <= tables


def _has_own_scale(one: WatchedAttention, modules: dict[str, nn.Module]) -> bool:
    """Whether the scale is a choice: a library's, learned, or beside norms of heads."""
    heads, size = one.weights.shape[1], one.queries.shape[3]
    for path in (one.module, one.module.rpartition(".")[0]):
        module = modules.get(path)
        if module is None:
            continue
        if type(module).__module__.startswith(LIBRARY):
            return True
        if any(x.numel() in (1, heads) for x in module.parameters(recurse=False)):
            return True
        norms = [x for x in module.children() if "norm" in type(x).__name__.lower()]
        widths = [x.numel() for norm in norms for x in norm.parameters(recurse=False)]
        if size in widths and path == one.module:
            return True
    return False
