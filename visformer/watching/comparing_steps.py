"""Comparing steps: the steps of a cached loop against one full pass of the model."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from visformer.analysis.checks.observation import Comparisons, Observation, StrangeToken
from visformer.language import _
from visformer.values.arrays import Bools, Ids
from visformer.values.watched_attention import HALF_TOLERANCE, WatchedAttention
from visformer.watching.inputs import (
    SOURCE_NAMES,
    TARGET_NAMES,
    counting_tables,
    goes_with_another,
)
from visformer.watching.surroundings import same_chances
from visformer.watching.watched_steps import logits_of_rows

if TYPE_CHECKING:
    from visformer.watching.watcher import Watched

APART = 1e-3  # of weights
HALF_APART = 5e-2  # the same in half precision, which rounds in every layer


class StepsCompared(NamedTuple):
    """What the comparison tells, None where there was none, and the sentence of it."""

    comparisons: Comparisons | None
    sentence: str


class _NotCompared(Exception):
    """Why steps could not be compared; the message says it to people."""


def compared_steps(watched: Watched, seen: Observation) -> StepsCompared | None:
    """Compare a cached loop with one call of the model on what the loop has read.

    None where there is no such loop. Where it was not compared, the sentence says why.
    """
    if not _is_joined(watched):
        return None
    strange = _strange_token(watched, seen.attentions)
    comparisons = None if strange is None else Comparisons(limit=APART, strange=strange)
    try:
        if strange is not None:
            raise _NotCompared(_("the cache has other tokens than the loop"))
        if seen.state.dropping or seen.state.dropping_always:
            raise _NotCompared(_("numbers are dropped at random"))
        return _compared(watched, seen.attentions)
    except _NotCompared as error:
        why = str(error)
    except Exception:  # the model does not take such a call
        why = _("the model does not take all tokens in one call")
    sentence = _("Cached steps were not compared with one full pass: {why}.", why=why)
    return StepsCompared(comparisons, sentence)


def _is_joined(watched: Watched) -> bool:
    """Whether the last run was made of several steps, each with new queries."""
    steps = {(one.module, one.weights.shape[2]) for one in watched.attentions}
    return any((x.module, x.weights.shape[2]) not in steps for x in watched.last_run)


def _strange_token(
    watched: Watched, steps: Sequence[WatchedAttention]
) -> StrangeToken | None:
    """Return a token read before that is another one in the ids the loop has now.

    They are known where the last step was given the end of longer rows.
    """
    own = next((x.query_ids for x in steps if x.kind == "decoder"), None)
    places = counting_tables(watched.read)
    for one in reversed(watched.read):
        if own is None or one.before is None or one.table in places:
            continue
        now = torch.cat([one.before, one.ids], 1).numpy()
        ends = [0, *range(one.before.shape[1], now.shape[1])]  # where they are the same
        if now.shape != own.shape or not np.array_equal(now[:, ends], own[:, ends]):
            continue
        for row, at in np.argwhere(now != own)[:1].tolist():
            return StrangeToken(row, at, int(own[row, at]), int(now[row, at]))
        return None
    return None


def _compared(watched: Watched, steps: Sequence[WatchedAttention]) -> StepsCompared:
    own = [one for one in steps if one.kind == "decoder"]
    encoder = [one for one in steps if one.kind == "encoder"]
    source = encoder[0].query_ids if encoder else None
    read = own[0].query_ids if own else None
    if read is None or (watched.targets and source is None):
        raise _NotCompared(_("it is not known which tokens were read"))
    if any(one.masked.all(2).any() for one in own):
        raise _NotCompared(_("a mask hides some of the keys from all queries"))
    target = _as_given(watched, read)
    whole = _pass(watched, source, target)
    passed = [one for one in whole.last_run if one.kind == "decoder" and one.verified]
    if not _agree(encoder, whole.last_run):
        raise _NotCompared(_("the encoder reads something else in one call"))
    limit = HALF_APART if any(x.tolerance >= HALF_TOLERANCE for x in steps) else APART
    real: Bools = np.ones(target.shape, bool)
    if watched.watcher.pad is not None:
        real = target != watched.watcher.pad
    cached, worst = _furthest(own, passed, real, limit)
    outputs = _outputs_apart(watched, whole, real)
    if cached is None or (cached[2] <= limit and outputs is not None):
        cached = max((x for x in (cached, outputs) if x), key=_gap, default=None)
    if cached is None:
        raise _NotCompared(_("its attention has other sizes in one call"))
    if cached[2] > limit and (others := _others(watched)):
        names = ", ".join(others)
        raise _NotCompared(_("the steps were also given {names}", names=names))
    if cached[2] > limit and not _is_prefix_free(
        watched, source, target, passed, limit
    ):
        raise _NotCompared(_("a pass over fewer tokens gives other numbers by itself"))
    sentence = _(
        "Cached steps against one full pass: they differ by {worst:.1e}.",
        worst=max(worst, cached[2]),
    )
    restarts = cached[2] > limit and _restarts(watched, source, target, own[0])
    compared = Comparisons(limit=limit, cached=cached, restarts=restarts)
    return StepsCompared(compared, sentence)


def _others(watched: Watched) -> list[str]:
    """Name what steps were given that one pass is not; places, and no mask, aside."""
    sides = watched.sides.source | watched.sides.target
    others = [
        x
        for x in watched.inputs
        if x.name and (goes_with_another(x.name) or not x.mark & sides)
    ]
    said = [
        x for x in others if "position" not in x.name and bool((x.tensor != 1).any())
    ]
    return [*dict.fromkeys(x.name for x in said if x.tensor.dim() < 3)]


def _gap(found: tuple[str, int, float]) -> float:
    return found[2]


def _outputs_apart(
    watched: Watched, whole: Watched, real: Bools
) -> tuple[str, int, float] | None:
    """Return the row whose logits are furthest from one pass's, if they are known."""
    pair = [logits_of_rows(x, x.last_rows) for x in (watched, whole)]
    if pair[0] is None or pair[1] is None:
        return None
    first, second = (x.logits.numpy() for x in pair if x is not None)
    if first.shape != second.shape or first.shape[:2] != real.shape:
        return None
    known = (pair[0].known & pair[1].known).numpy() & real
    size = np.abs(second).max(2).clip(1)
    apart = np.where(known, np.nan_to_num(np.abs(first - second).max(2), nan=np.inf), 0)
    rows = (apart / size).max(0)
    row = int(rows.argmax())
    return _("output"), row, float(rows[row])


def _is_prefix_free(
    watched: Watched,
    source: Ids | None,
    target: Ids,
    passed: Sequence[WatchedAttention],
    limit: float,
) -> bool:
    """Whether one pass gives the rows of a shorter one, which no cache could else."""
    short = target[:, :-1]
    before = [x for x in _pass(watched, source, short).last_run if x.kind == "decoder"]
    cut = [x.weights[:, :, :-1, :-1] for x in passed]
    return len(cut) == len(before) and all(
        x.weights.shape == y.shape and float(np.abs(x.weights - y).max()) <= limit
        for x, y in zip(before, cut, strict=True)
    )


def _as_given(watched: Watched, read: Ids) -> Ids:
    """Return what the last step was given, if that is all of it; else what was read."""
    given = (watched.targets or watched.sources)[-1]
    if given.shape == read.shape and not given.is_floating_point():
        ids: Ids = given.numpy()
        return ids
    return read


def _pass(watched: Watched, source: Ids | None, target: Ids) -> Watched:
    """Call the model once with all ids; raises where its attention is of other ids."""
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
            raise _NotCompared(_("the model takes more than a source and a target"))
        kwargs = {own[0]: x for own, x in zip(named, args, strict=True)}
        args = []
    with same_chances(model), torch.no_grad(), watch(model) as whole:
        model(*args, **kwargs)
    own = [one for one in whole.last_run if one.verified and one.kind == "decoder"]
    ids = [one.query_ids for one in own]
    if not ids or not all(x is not None and np.array_equal(x, target) for x in ids):
        raise _NotCompared(_("in one call, its attention is of other tokens"))
    return whole


def _agree(
    encoder: Sequence[WatchedAttention], whole: Sequence[WatchedAttention]
) -> bool:
    others = [one for one in whole if one.kind == "encoder"]
    return len(encoder) == len(others) and all(
        one.weights.shape == other.weights.shape
        and np.allclose(one.weights, other.weights, atol=APART)
        for one, other in zip(encoder, others, strict=True)
    )


def _furthest(
    own: Sequence[WatchedAttention],
    others: Sequence[WatchedAttention],
    real: Bools,
    limit: float,
) -> tuple[tuple[str, int, float] | None, float]:
    """Return where the first layer differs: module, row, by how much; and the worst."""
    if [x.weights.shape for x in own] != [x.weights.shape for x in others]:
        return None, 0.0
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


def _restarts(
    watched: Watched, source: Ids | None, target: Ids, own: WatchedAttention
) -> bool:
    """Whether the last queries are those of the last token in the first place."""
    turned = _pass(watched, source, target[:, ::-1])
    first = next(one for one in turned.last_run if one.kind == "decoder")
    return np.allclose(own.queries[:, :, -1], first.queries[:, :, 0], atol=APART)
