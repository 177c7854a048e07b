"""Importance: every head, layer and source token of a run switched off in turn.

Letters: ``L`` layers, ``H`` heads, ``S`` source tokens, ``T`` choices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from visformer.core.attribution import KnownRun, chosen_log_p, forced_log_p
from visformer.core.decoding import Decoding
from visformer.core.loaded import Loaded, native
from visformer.core.long_work import announced
from visformer.core.model import work
from visformer.core.models import Model, SourceTokens, WorkDone
from visformer.core.threads import few_threads
from visformer.errors import InputError
from visformer.files import read_pairs, short
from visformer.language import _
from visformer.values.arrays import Doubles, read_only
from visformer.values.changes.mask_changes import HideSource
from visformer.values.changes.run_change import ALL, LocalChanges, RunChange
from visformer.values.changes.weight_changes import HeadScale
from visformer.values.facts import STACKS, Kind, StackName
from visformer.values.intervention import NO_CHANGES, Intervention
from visformer.values.measured import Importance, ImportanceOfPairs, Patched

MOST_NUMBERS = 1 << 24  # of a batch: its logits, and the weights of a layer

Ablated = tuple[int, int | None]  # a layer and a head; None: all its heads
Changes = dict[Kind, Doubles]


class _Job(NamedTuple):
    """Parts of one sort, each of which is switched off by a change of its own."""

    parts: Sequence[Any]
    each: Callable[[tuple[Any, ...]], RunChange]  # one in each row of a batch
    alone: Callable[[Any], RunChange] | None = None  # None: only in a batch


Jobs = dict[str, _Job]
LogPWithout = Generator[WorkDone, None, tuple[Doubles, dict[str, Doubles]]]
# makes log p [T], and that without each of some parts, [n, T]
Ablating = Callable[[_Job, tuple[Any, ...]], tuple[Doubles, Doubles]]


def importance(
    model: Model, run: KnownRun, other: SourceTokens | None = None
) -> Generator[WorkDone, None, Importance]:
    """Measure a run's heads, layers and source tokens; each yield is a place to stop.

    ``other`` is a source that streams are taken from, and patched into, too.
    What the model cannot tell is left out, and why in ``reasons``. Raises InputError
    for a run without choices, and where no head can be switched off.
    """
    jobs, reasons, gates = _head_jobs(model), list[str](), (Changes(), Changes())
    if "cross" in jobs:
        tokens = range(len(run.source.ids))
        jobs["source"] = _Job(tokens, _EachHidden, HideSource)
        try:
            model.can(Intervention(*run.change, HideSource(0)), run.source)
        except InputError as error:
            del jobs["source"]
            reasons.append(str(error))
    log_p, sums = yield from _measured(model, run, jobs)
    try:
        gates = by_gradient(model, run)
    except InputError as error:
        reasons.append(str(error))
    patched = None
    if other is not None:
        try:
            patched = yield from _patched(model, run, other)
        except InputError as error:
            reasons.append(str(error))
    return Importance(
        log_p=read_only(log_p),
        heads=_heads(model, sums),
        layers={
            kind: read_only(sums[kind][-model.facts.layers(kind) :])
            for kind in model.facts.kinds
        },
        source=read_only(sums["source"]) if "source" in sums else None,
        gradient=gates[0],
        sensitivity=gates[1],
        patched=patched,
        reasons=tuple(reasons),
    )


def importance_of_pairs(
    model: Model, path: Path, change: Intervention = NO_CHANGES
) -> Generator[WorkDone, None, ImportanceOfPairs]:
    """Return mean and spread of what heads do to the references of a file of pairs.

    Raises InputError for a file without pairs or with a faulty line, and as
    ``importance`` does.
    """
    pairs = read_pairs(path)
    if not pairs:
        raise InputError("{path} has no pair of sentences.", path=short(path.name))
    found: dict[Kind, list[Doubles]] = {kind: [] for kind in model.facts.kinds}
    jobs = _head_jobs(model)
    for at, pair in enumerate(pairs):
        decoding = Decoding(model, pair.source, intervention=change)
        decoding.feed(pair.target)
        log_p, sums = yield from announced(
            _measured(model, decoding.known, jobs),
            WorkDone(at, len(pairs), _("sentences")),
        )
        for kind, changes in _heads(model, sums).items():
            found[kind].append(changes / len(log_p))
    return ImportanceOfPairs(
        pairs=len(pairs),
        mean={kind: read_only(np.mean(each, 0)) for kind, each in found.items()},
        spread={kind: read_only(np.std(each, 0)) for kind, each in found.items()},
    )


# ---- exact ---------------------------------------------------------------------------


def _head_jobs(model: Model) -> Jobs:
    jobs, facts = Jobs(), model.facts
    for kind in facts.kinds:
        layers, heads = facts.layers(kind), facts.heads(kind)
        parts: list[Ablated] = [*np.ndindex(layers, heads)]
        parts += [(layer, None) for layer in range(layers)]
        jobs[kind] = _Job(parts, partial(_EachOff, kind), partial(_head_off, kind))
    return jobs


def _head_off(kind: Kind, part: Ablated) -> HeadScale:
    return HeadScale(kind, 0.0, *part)


def _heads(model: Model, sums: Mapping[str, Doubles]) -> Changes:
    """Return the changes without single heads, [L, H]."""
    facts = model.facts
    shapes = {kind: (facts.layers(kind), facts.heads(kind)) for kind in facts.kinds}
    return {
        kind: read_only(sums[kind][: math.prod(shape)].reshape(shape))
        for kind, shape in shapes.items()
    }


def _measured(model: Model, run: KnownRun, jobs: Jobs) -> LogPWithout:
    """Return the log p of T choices, and how their sum changes without each part."""
    if len(run.chosen) <= run.given:
        raise InputError("Nothing was decoded: there is no token to measure.")
    if isinstance(model, Loaded):
        most, ablated = _in_batches(model, run)
    else:
        most, ablated = _one_by_one(model, run)
    log_p, sums = np.zeros(0), dict[str, Doubles]()
    done, of = 0, sum(len(job.parts) for job in jobs.values())
    for name, job in jobs.items():
        changes = []
        for first in range(0, len(job.parts), most):
            yield WorkDone(done, of, _("runs"))
            some = tuple(job.parts[first : first + most])
            log_p, without = ablated(job, some)
            changes.append((without - log_p).sum(1))
            done += len(some)
        sums[name] = np.concatenate(changes)
    return log_p, sums


def _one_by_one(model: Model, run: KnownRun) -> tuple[int, Ablating]:
    """Return that a run is without one part, and what runs it."""
    log_p = chosen_log_p(model, run)[run.given :]

    def ablated(job: _Job, parts: tuple[Any, ...]) -> tuple[Doubles, Doubles]:
        assert job.alone is not None
        changes = map(job.alone, parts)
        after = [chosen_log_p(model, run, one)[run.given :] for one in changes]
        return log_p, np.stack(after)

    return 1, ablated


def _in_batches(loaded: Loaded, run: KnownRun) -> tuple[int, Ablating]:
    """Return how many rows a batch may have, and what runs it.

    There is a row for each part, after a first one without a change.
    """
    config, tokens = loaded.config, max(len(run.source.ids), len(run.target))
    row = tokens * (config.target_vocabulary + config.heads * tokens)

    def ablated(job: _Job, parts: tuple[Any, ...]) -> tuple[Doubles, Doubles]:
        rows, change = 1 + len(parts), job.each(parts)
        with torch.inference_mode(), few_threads(work(loaded.model, tokens, rows)):
            log_p = forced_log_p(loaded, run, change, rows=rows)
        every: Doubles = log_p.numpy()[:, run.given :]  # [B, T]
        return every[0], every[1:]

    return max(1, MOST_NUMBERS // row - 1), ablated


@dataclass(frozen=True)
class _EachOff(RunChange):
    """Switch off another part in each row of a batch; in the first row, nothing."""

    point = "heads"

    kind: Kind
    parts: tuple[Ablated, ...]

    def apply(self, x: Any, place: LocalChanges) -> Any:
        """Zero z, [B, H, Q, d], of those parts that are in this layer."""
        for row, (layer, head) in enumerate(self.parts, 1):
            if layer == place.layer:
                x[row, ALL if head is None else head] = 0
        return x


@dataclass(frozen=True)
class _EachHidden(RunChange):
    """Hide another source token in each row of a batch; in the first row, none."""

    point = "head mask"
    everywhere = HideSource.everywhere

    parts: tuple[int, ...]

    def apply(self, x: Any, place: LocalChanges) -> Any:
        """Mask the tokens' columns, bool [B, H, Q, K]."""
        for row, token in enumerate(self.parts, 1):
            x[row, ..., token] = False
        return x


# ---- streams of another run ----------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _KeptStreams(RunChange):
    """Keep what leaves each layer; it changes nothing."""

    point = "stream"
    everywhere = STACKS

    kept: dict[tuple[str, int], Tensor] = field(default_factory=dict)

    def apply(self, x: Any, place: LocalChanges) -> Any:
        """Keep it, [1, T, D]."""
        self.kept[place.of, place.layer] = x[0]
        return x


@dataclass(frozen=True, eq=False)
class _EachPatched(RunChange):
    """Take another place of a stream in each row of a batch; in the first row, none."""

    point = "stream"

    stack: StackName
    taken: Mapping[tuple[str, int], Tensor]  # [T, D] of each layer
    parts: tuple[tuple[int, int], ...]  # layers and tokens

    def apply(self, x: Any, place: LocalChanges) -> Any:
        """Write those of this layer, [B, T, D]."""
        for row, (layer, token) in enumerate(self.parts, 1):
            if layer == place.layer:
                x[row, token] = self.taken[self.stack, layer][token]
        return x


def _patched(
    model: Model, run: KnownRun, other: SourceTokens
) -> Generator[WorkDone, None, Patched]:
    """Patch each token and layer of both stacks, in both directions.

    "Denoising" and "noising" of activation patching: Heimersheim and Nanda 2024, "How
    to Use and Interpret Activation Patching".
    """
    loaded = native(model, _("Taking streams from another run"))
    here, there = (len(one.ids) for one in (run.source, other))
    if here != there:
        raise InputError(
            "Streams are taken from a run whose source is as long: this one has {here} "
            "tokens, the other {there}.",
            here=here,
            there=there,
        )
    runs, kept, found = (run, run._replace(source=other)), [], []
    with torch.inference_mode():
        for one in runs:
            streams = _KeptStreams()
            forced_log_p(loaded, one, streams)
            kept.append(streams.kept)
    config = loaded.config
    layers = {"encoder": config.encoder_layers, "decoder": config.decoder_layers}
    lengths = {"encoder": here, "decoder": len(run.target)}
    for into, taken in zip(runs, reversed(kept), strict=True):
        jobs: Jobs = {
            stack: _Job(
                [*np.ndindex(layers[stack], lengths[stack])],
                partial(_EachPatched, stack, taken),
            )
            for stack in STACKS
        }
        log_p, sums = yield from _measured(model, into, jobs)
        changes = {
            stack: read_only(sums[stack].reshape(layers[stack], lengths[stack]))
            for stack in STACKS
        }
        found.append((float(log_p.sum()), changes))
    return Patched(other=found[1][0], into_other=found[1][1], from_other=found[0][1])


# ---- by gradient ---------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Gates(RunChange):
    """Multiply every row of every head by a gate of 1, to be derived by."""

    point = "heads"

    kept: dict[tuple[str, int], Tensor] = field(default_factory=dict)

    def apply(self, x: Any, place: LocalChanges) -> Any:
        """Return z, [1, H, Q, d], with a gate [1, H, Q, 1]."""
        gate = torch.ones_like(x[..., :1]).requires_grad_()
        self.kept[place.of, place.layer] = gate
        return x * gate


def by_gradient(model: Model, run: KnownRun) -> tuple[Changes, Changes]:
    """Return the estimate of the change without each head, and Michel's measure.

    Both are [L, H] of each kind, from one backward pass. A gate g on a head's z turns
    it from on (1) to off (0), so that the estimate is - d log p / d g. The measure is
    |z . dL/dz| of each of the head's rows, their mean divided by the layer's length
    over its heads: Michel et al. 2019, "Are Sixteen Heads Really Better than One?".
    """
    loaded, gates = native(model, _("Importance by gradient")), _Gates()
    with torch.inference_mode(False), torch.enable_grad():
        total = forced_log_p(loaded, run, gates)[0, run.given :].sum()
        slopes = torch.autograd.grad(total, [*gates.kept.values()])
    found = dict(zip(gates.kept, slopes, strict=True))
    estimates, measures = Changes(), Changes()
    for kind in model.facts.kinds:
        layers = range(model.facts.layers(kind))
        rows = torch.stack([found[kind, layer][0, :, :, 0] for layer in layers])
        slope: Doubles = rows.cpu().double().numpy()  # [L, H, Q]
        estimates[kind] = read_only(-slope.sum(-1))
        mean = np.abs(slope).mean(-1)  # [L, H]
        length = np.linalg.norm(mean, axis=1, keepdims=True)
        measures[kind] = read_only(mean / np.where(length == 0, 1, length))
    return estimates, measures
