"""Weights of several heads and layers as one matrix, made in parts and cached."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator

from visformer.analysis.attention_summary import running_maximum, running_mean
from visformer.pictures.attention.weights import head_weights, size
from visformer.pictures.look import Summary
from visformer.values.arrays import Floats
from visformer.values.facts import Kind
from visformer.values.rollout import running_rollout, through
from visformer.values.trace import Trace

LARGE = 1 << 20  # weights up to which a summary is made at once

LayerHeads = Iterable[tuple[int, int]]  # layers and heads


def summary(trace: Trace, kind: Kind, layer: int, how: Summary) -> Floats | None:
    """Return heads and layers as one matrix [Q, K].

    None if that takes long: then ``summary_parts`` makes it, and this finds it.
    """
    kept = _kept(trace, kind, _details(trace, kind, layer, how))
    if kept is not None or is_large_summary(trace, kind, how):
        return kept
    for _ in summary_parts(trace, kind, layer, how):
        pass
    return _kept(trace, kind, _details(trace, kind, layer, how))


def is_impossible(trace: Trace, kind: Kind, how: Summary) -> bool:
    """Tell whether a summary needs a kind of attention that is not there."""
    return how == "rollout" and kind == "cross" and "encoder" not in trace.kinds


def is_large_summary(trace: Trace, kind: Kind, how: Summary) -> bool:
    """Tell whether making the matrix takes too long for one step."""
    whole = trace.whole
    cells = size(whole, kind) * (1 if how in ("mean", "max") else whole.layers(kind))
    if kind == "cross" and how == "rollout":
        cells += size(whole, "encoder") * whole.layers("encoder")
    return cells * whole.heads(kind) > LARGE


def summary_parts(trace: Trace, kind: Kind, layer: int, how: Summary) -> Iterator[None]:
    """Make the matrix and cache it, yielding after each head."""
    heads, layers = range(trace.heads(kind)), range(trace.layers(kind))
    layer_heads = [(layer, head) for head in heads]
    result: Floats | None = None
    parts: Iterator[Floats | None]
    match how:
        case "mean":
            parts = running_mean(_weights(trace, kind, layer_heads))
        case "max":
            parts = running_maximum(_weights(trace, kind, layer_heads))
        case "all":
            everything = [(layer, head) for layer in layers for head in heads]
            parts = running_mean(_weights(trace, kind, everything))
        case _:
            parts = _rollout(trace, kind, layer)
    for part in parts:
        result = part
        yield
    if result is not None:
        _keep(trace, kind, _details(trace, kind, layer, how), result)


def _rollout(trace: Trace, kind: Kind, layer: int) -> Iterator[Floats | None]:
    """Roll out layers 0 to ``layer``; cross attention reads the whole encoder's."""
    if kind != "cross":
        yield from _rolled(trace, kind, layer + 1)
        return
    below = _kept(trace, "below", ())
    if below is None:
        for part in _rolled(trace, "encoder", trace.layers("encoder")):
            below = part
            yield None
        if below is not None:
            _keep(trace, "below", (), below)
    mean: Floats | None = None
    for mean_so_far in _mean(trace, kind, layer):
        mean = mean_so_far
        yield None
    if below is not None and mean is not None:
        yield through(mean, below)


def _rolled(trace: Trace, kind: Kind, layers: int) -> Iterator[Floats | None]:
    """Yield None while it works, then the rollout of the first ``layers`` layers."""
    means: list[Floats] = []
    for layer in range(layers):
        for mean_so_far in _mean(trace, kind, layer):
            means[layer:] = [mean_so_far]
            yield None
    yield from running_rollout(means)


def _mean(trace: Trace, kind: Kind, layer: int) -> Iterator[Floats]:
    layer_heads = ((layer, head) for head in range(trace.heads(kind)))
    return running_mean(_weights(trace, kind, layer_heads))


def _weights(trace: Trace, kind: Kind, layer_heads: LayerHeads) -> Iterator[Floats]:
    for layer, head in layer_heads:
        yield head_weights(trace, kind, layer, head)


# ---- the last one of each kind is kept ---------------------------------------------


def _kept(trace: Trace, name: str, details: Hashable) -> Floats | None:
    kept: tuple[Hashable, Floats] | None
    kept = trace.memo.find(trace.storage, ("summary", name))
    return kept[1] if kept is not None and kept[0] == details else None


def _keep(trace: Trace, name: str, details: Hashable, matrix: Floats) -> None:
    trace.memo.keep(trace.storage, ("summary", name), (details, matrix), matrix.size)


def _details(trace: Trace, kind: Kind, layer: int, how: Summary) -> Hashable:
    """Return what a summary of a run depends on; the encoder's has no steps."""
    at_layer = None if how == "all" else layer
    return how, at_layer, None if kind == "encoder" else len(trace)
