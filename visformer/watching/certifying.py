"""Several calls made of one: faults may show only at other lengths or batches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from visformer.language import _, ngettext
from visformer.values.finding import Certificate
from visformer.watching.certifying_watched import certificate_of, together
from visformer.watching.comparing_calls import CallComparing, along, is_same
from visformer.watching.module_calls import Given
from visformer.watching.observing import first_tensor, observed

if TYPE_CHECKING:
    from visformer.watching.watcher import Watched, Watcher

LENGTHS = 1, 2, 12, 33, 129


def certified(
    watcher: Watcher, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Certificate:
    """Return what a call, and others made of it, tell together."""
    first = watcher(*args, **kwargs)
    calls = CallComparing(first, (args, kwargs), observed(first))
    certificates, checks = [], []
    with _without(watcher):
        seen = calls.observed()
        certificates.append(certificate_of(first, seen))
        # of a prefix, which predicts nothing, the length is not known
        whole = seen.target or seen.labels is None or bool((seen.labels >= 0).all())
        next_token = seen.next_token and whole
        # a scale that does not hang on the length was told, and at length 1 none shows
        scales = {(one.module, round(one.scale, 4)) for one in seen.run}
        if first.time_axis is None and first.attentions:
            checks.append(
                _(
                    "No other lengths or batches were tried: it cannot be told which "
                    "axis of the inputs counts tokens."
                )
            )
        for length in LENGTHS:
            try:
                watched = _at_length(watcher, first, (args, kwargs), length)
            except Exception:  # the model does not take this length
                continue
            if watched is None or not watched.found or _is_as_long(watched, first):
                continue
            if _is_broken(watched) and not _is_broken(first):
                checks.append(
                    _(
                        "Length {length:,}: the output is not finite, so the model is "
                        "not made for it.",
                        length=length,
                    )
                )
                continue
            own = observed(watched)
            told = [
                x.module for x in own.run if (x.module, round(x.scale, 4)) in scales
            ]
            judged = (
                frozenset(told) if length > 1 else frozenset(x.module for x in own.run)
            )
            state = replace(seen.state, own_scale=seen.state.own_scale | judged)
            own = replace(own, next_token=next_token, state=state)
            certificates.append(certificate_of(watched, own))
            checks.append(
                ngettext(
                    "Length {length:,}: {n} attention, within {worst:.2g}.",
                    "Length {length:,}: {n} attentions, within {worst:.2g}.",
                    len(watched.attentions),
                    length=length,
                    worst=certificates[-1].worst,
                )
            )
    return together(certificates, (*checks, *calls.sentences))


@contextmanager
def _without(watcher: Watcher) -> Iterator[None]:
    """Leave out what belongs to the one call: its tokens and labels."""
    kept = watcher.tokens, watcher.labels
    watcher.tokens, watcher.labels = (None, None), None
    try:
        yield
    finally:
        watcher.tokens, watcher.labels = kept


def _is_broken(watched: Watched) -> bool:
    output = first_tensor(watched.output)
    return output is not None and not bool(torch.isfinite(output).all())


def _is_as_long(watched: Watched, first: Watched) -> bool:
    """Whether a model made other tokens as many as before, as broadcasting does."""
    lengths = [[x.weights.shape[2:] for x in w.found] for w in (watched, first)]
    given = [[x.shape for x in (*w.sources, *w.targets)] for w in (watched, first)]
    return lengths[0] == lengths[1] and given[0] != given[1]


def _at_length(
    watcher: Watcher, first: Watched, given: Given, length: int
) -> Watched | None:
    """Watch the call with inputs of another length: repeated, or cut off.

    Whatever has a dimension as long as the source or the target follows it; masks that
    were given can only be cut off.
    """
    inputs = [x for x in (*first.sources[-1:], *first.targets[-1:]) if x.dim() > 1]
    axis = first.time_axis
    if not inputs or axis is None:
        return None
    old = {x.shape[axis] for x in inputs}
    unclear = inputs[0].shape[1 - axis] in old  # what of a mask's axes are tokens
    pads = _pads(watcher)
    left = any(_begins_with_padding(x, axis, pads) for x in _rowed(given, inputs))

    def stretched(x: Tensor) -> Tensor:
        is_input = any(is_same(x, one) for one in inputs)
        for at in [axis] if is_input else along(x, old):
            if (length > x.shape[at] or unclear) and not is_input:
                raise ValueError("a mask of another length cannot be made")
            if length <= x.shape[at]:
                start = x.shape[at] - length if left else 0
                x = x.narrow(at, start, length)
            else:
                x = _repeated(x, at, length, pads)
        return x

    args, kwargs = tree_map(
        lambda x: stretched(x) if isinstance(x, Tensor) else x, given
    )
    return watcher(*args, **kwargs)


def _repeated(x: Tensor, axis: int, length: int, pads: set[int]) -> Tensor:
    """Return an input with its tokens again and again; of ids, the real ones alone.

    What begins a row stays there, also where its id is that of padding.
    """
    index = torch.arange(length, device=x.device) % x.shape[axis]
    if x.is_floating_point() or x.dim() != 2:
        return x.index_select(axis, index)
    made = []
    for row in x if axis == 1 else x.T:
        real = [word for word in row[1:].tolist() if word not in pads] or [int(row[0])]
        begin = int(row[0]) if int(row[0]) not in pads or len(real) > 1 else real[0]
        made.append([begin, *(real[at % len(real)] for at in range(length - 1))])
    several = torch.tensor(made, dtype=x.dtype, device=x.device)
    return several if axis == 1 else several.T


def _pads(watcher: Watcher) -> set[int]:
    """Return the ids that may be padding: as told, and as tables of the model say."""
    told = {watcher.pad} if watcher.pad is not None else set()
    tables = [x for x in watcher.model.modules() if isinstance(x, nn.Embedding)]
    return told | {x.padding_idx for x in tables if x.padding_idx is not None}


def _rowed(given: Given, inputs: list[Tensor]) -> list[Tensor]:
    """Return the inputs, and masks of their shape."""
    shapes = {x.shape for x in inputs}
    tensors = [x for x in tree_leaves(given) if isinstance(x, Tensor)]
    return [x for x in tensors if x.shape in shapes and not x.is_floating_point()]


def _begins_with_padding(x: Tensor, axis: int, pads: set[int]) -> bool:
    """Whether some rows begin with padding, and others do not."""
    if x.dim() != 2:
        return False
    begin = x.select(axis, 0)
    if int(x.max()) <= 1 and int(x.min()) >= 0:  # a mask
        return bool(begin.any()) and not bool(begin.all())
    at = torch.zeros_like(begin, dtype=torch.bool)
    for pad in pads:
        at |= begin == pad
    return bool(at.any()) and not bool(at.all())
