"""The mean of heads over the pairs of a file, made once of each file and model."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from visformer.core.loaded import Loaded
from visformer.core.models import Model, WorkDone
from visformer.errors import InputError
from visformer.files import Pair, read_pairs, real_path, short
from visformer.language import _
from visformer.values.changes.head_changes import HeadMeanOf
from visformer.values.changes.patch import TakenRows
from visformer.values.facts import Kind
from visformer.values.intervention import Intervention
from visformer.values.trace import Trace

RunPair = Callable[[Loaded | Model, str, str], list[Trace]]  # ``core.passes.run``
MOST_KEPT = 16  # files, kinds and models
_kept: dict[tuple[object, ...], tuple[int, NDArray[np.float64]]] = {}


def with_means(
    model: Loaded | Model, change: Intervention, run: RunPair
) -> Generator[WorkDone, None, Intervention]:
    """Return changes with their means over files; each yield is a place to stop.

    InputError for a model that is not run by Visformer itself, and for no such file.
    """
    made = []
    for one in change:
        if isinstance(one, HeadMeanOf) and one.taken is None:
            one = yield from _filled(model, one, run)
        made.append(one)
    return Intervention(*made)


def _filled(
    model: Loaded | Model, one: HeadMeanOf, run: RunPair
) -> Generator[WorkDone, None, HeadMeanOf]:
    if model.facts.known is None or one.kind not in model.facts.kinds:
        raise InputError(
            "“{change}” needs a model with such attention whose layers are known; "
            "“head {kind} mean” takes the mean over the sentence alone.",
            change=one,
            kind=one.kind,
        )
    path = Path(one.run)
    try:
        real, found = real_path(path), path.stat()
    except (OSError, ValueError):
        raise InputError(
            "There is no file “{path}”: give one of pairs, a source, a tab and a "
            "target on each line.",
            path=short(path.name),
        ) from None
    key = real, found.st_mtime_ns, found.st_size, model.facts.digest, one.kind
    if key not in _kept:
        pairs = read_pairs(path)
        if not pairs:
            raise InputError("{path} has no pair of sentences.", path=short(path.name))
        while len(_kept) >= MOST_KEPT:
            del _kept[next(iter(_kept))]
        _kept[key] = yield from _mean(model, one.kind, pairs, run)
    count, mean = _kept[key]
    layer, head = one.place
    some = mean if layer is None else mean[layer : layer + 1]
    some = some if head is None else some[:, head : head + 1]
    numbers = np.ascontiguousarray(some[:, :, None], "<f4")  # [layers, heads, 1, d]
    taken = TakenRows(count, model.facts.digest, numbers.shape, numbers.tobytes())
    return replace(one, taken=taken)


def _mean(
    model: Loaded | Model, kind: Kind, pairs: Sequence[Pair], run: RunPair
) -> Generator[WorkDone, None, tuple[int, NDArray[np.float64]]]:
    """Return how many rows there were, and the mean of z, [layers, heads, d]."""
    facts = model.facts.attention[kind]
    total, rows = np.zeros((facts.layers, facts.heads, facts.value_size)), 0
    for at, pair in enumerate(pairs):
        yield WorkDone(at, len(pairs), _("sentences"))
        (trace,) = run(model, pair.source, pair.target)
        rows += len(trace.tokens(kind)[0])
        for layer, head in np.ndindex(total.shape[:2]):
            total[layer, head] += trace.z(kind, layer, head).sum(0, dtype=np.float64)
    return rows, total / rows
