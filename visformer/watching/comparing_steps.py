"""Comparing steps: the steps of a cached loop against one full pass of the model."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from visformer.analysis.checks.observation import Comparisons, Observation
from visformer.language import _
from visformer.values.arrays import Bools, Ids
from visformer.values.watched_attention import HALF_TOLERANCE, WatchedAttention
from visformer.watching.inputs import SOURCE_NAMES, TARGET_NAMES
from visformer.watching.surroundings import same_chances

if TYPE_CHECKING:
    from visformer.watching.watcher import Watched

APART = 1e-3  # of weights
HALF_APART = 5e-2  # the same in half precision, which rounds in every layer


class StepsCompared(NamedTuple):
    """What the comparison tells, and the sentence about it."""

    comparisons: Comparisons
    sentence: str


def compared_steps(watched: Watched, seen: Observation) -> StepsCompared | None:
    """Compare a cached loop with one call of the model on what the loop has read.

    None where there is no such loop, where the model's ``forward`` takes something
    else than source and target, or where it does something else with them.
    """
    if not _is_joined(watched) or seen.state.dropping or seen.state.dropping_always:
        return None
    try:
        return _compared(watched, seen.attentions)
    except Exception:  # the model does not take such a call
        return None


def _is_joined(watched: Watched) -> bool:
    """Whether the last run was made of several steps, each with new queries."""
    steps = {(one.module, one.weights.shape[2]) for one in watched.attentions}
    return any((x.module, x.weights.shape[2]) not in steps for x in watched.last_run)


def _compared(
    watched: Watched, steps: Sequence[WatchedAttention]
) -> StepsCompared | None:
    own = [one for one in steps if one.kind == "decoder"]
    encoder = [one for one in steps if one.kind == "encoder"]
    if not own or own[0].query_ids is None:
        return None
    if any(one.masked.all(2).any() for one in own):
        return None  # keys that nobody may read: the loop was given a mask as well
    target = _as_given(watched, own[0].query_ids)
    source = encoder[0].query_ids if encoder else None
    if watched.targets and source is None:
        return None
    whole = _pass(watched, source, target)
    if whole is None or not _agree(encoder, whole):
        return None
    limit = HALF_APART if any(x.tolerance >= HALF_TOLERANCE for x in steps) else APART
    cached, worst = _furthest(own, whole, target, limit, watched.watcher.pad)
    if cached is None:
        return None
    sentence = _(
        "Cached steps against one full pass: the weights differ by {worst:.2g}.",
        worst=worst,
    )
    last = target.shape[1] - 1
    apart = own[0].queries[:, :, last] - _first(whole).queries[:, :, last]
    restarts = float(np.abs(apart).max()) > limit
    if restarts and not _restarts(watched, source, target, own[0]):
        return None  # perhaps these are not the tokens that were read
    compared = Comparisons(limit=limit, cached=cached, restarts=restarts)
    return StepsCompared(compared, sentence)


def _as_given(watched: Watched, read: Ids) -> Ids:
    """Return what the last step was given, if that is all of it; else what was read."""
    given = (watched.targets or watched.sources)[-1]
    if given.shape == read.shape and not given.is_floating_point():
        ids: Ids = given.numpy()
        return ids
    return read


def _pass(
    watched: Watched, source: Ids | None, target: Ids
) -> list[WatchedAttention] | None:
    """Call the model once with all ids; None where its attention is of other ids."""
    from visformer.watching.watcher import watch

    model = watched.watcher.model
    parameters = [
        one
        for one in inspect.signature(model.forward).parameters.values()
        if one.kind == one.POSITIONAL_OR_KEYWORD
    ]
    names = [one.name for one in parameters]
    needed = [one.name for one in parameters if one.default is one.empty]
    several = [x for x in (source, target) if x is not None]
    tensors = [torch.from_numpy(np.array(x)) for x in several]
    device = next(model.parameters()).device
    args: list[Tensor] = [x.to(device) for x in tensors]
    kwargs: dict[str, Any] = {}
    if len(needed) != len(args) and len(args) == 2:
        named = [
            [name for name in names if name in known]
            for known in (SOURCE_NAMES, TARGET_NAMES)
        ]
        if not all(named):
            return None
        kwargs = {own[0]: x for own, x in zip(named, args, strict=True)}
        args = []
    with same_chances(model), torch.no_grad(), watch(model) as whole:
        model(*args, **kwargs)
    found = [one for one in whole.last_run if one.verified]
    ids = [one.query_ids for one in found if one.kind == "decoder"]
    same = bool(ids) and all(x is not None and np.array_equal(x, target) for x in ids)
    return found if same else None


def _agree(encoder: Sequence[WatchedAttention], whole: list[WatchedAttention]) -> bool:
    others = [one for one in whole if one.kind == "encoder"]
    return len(encoder) == len(others) and all(
        one.weights.shape == other.weights.shape
        and np.allclose(one.weights, other.weights, atol=APART)
        for one, other in zip(encoder, others, strict=True)
    )


def _furthest(
    own: Sequence[WatchedAttention],
    whole: Sequence[WatchedAttention],
    target: Ids,
    limit: float,
    pad: int | None,
) -> tuple[tuple[str, int, float] | None, float]:
    """Return where the first layer differs: module, row, by how much; and the worst."""
    others = [one for one in whole if one.kind == "decoder"]
    if [x.weights.shape for x in own] != [x.weights.shape for x in others]:
        return None, 0.0
    real: Bools = np.ones(target.shape, bool) if pad is None else target != pad
    first: tuple[str, int, float] | None = None
    worst = 0.0
    for one, other in zip(own, others, strict=True):
        apart = np.abs(one.weights - other.weights).max((1, 3))  # [B, Q]
        apart = np.nan_to_num(apart, nan=np.inf) * real
        most = float(apart.max())
        if first is None or first[2] <= limit:
            rows = apart.max(0)  # the row that is off first, in the first layer that is
            row = int((rows > limit).argmax()) if most > limit else int(rows.argmax())
            first = one.module or "forward", row, float(rows[row])
        worst = max(worst, most)
    return first, worst


def _first(whole: Sequence[WatchedAttention]) -> WatchedAttention:
    return next(one for one in whole if one.kind == "decoder")


def _restarts(
    watched: Watched, source: Ids | None, target: Ids, own: WatchedAttention
) -> bool:
    """Whether the last queries are those of the last token in the first place."""
    turned = _pass(watched, source, target[:, ::-1])
    if turned is None:
        return False
    first = _first(turned).queries
    return np.allclose(own.queries[:, :, -1], first[:, :, 0], atol=APART)
