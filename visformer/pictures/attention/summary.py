"""Weights of several heads and layers as one matrix, made in parts and kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from visformer.analysis.attention_summary import running_maximum, running_mean
from visformer.analysis.rollout import running_rollout, through
from visformer.pictures.attention.weights import head_weights, made_of, same, size
from visformer.session.state import State
from visformer.values.arrays import Floats
from visformer.values.facts import Kind

LARGE = 1 << 20  # weights up to which a summary is made in one go

Places = Iterable[tuple[int, int]]  # layers and heads
Key = tuple[tuple[object, ...], tuple[object, ...]]
_kept: dict[str, tuple[tuple[object, ...], tuple[object, ...], Floats]] = {}


def summary(state: State, kind: Kind, layer: int) -> Floats | None:
    """Return the matrix [Q, K] that the State's look asks for, of what is shown.

    None where that takes long: then ``summary_parts`` makes it, and this finds it.
    """
    if kept_summary(state, kind, layer) is None and not is_large_summary(state, kind):
        for _ in summary_parts(state, kind, layer):
            pass
    return kept_summary(state, kind, layer)


def kept_summary(state: State, kind: Kind, layer: int) -> Floats | None:
    """Return the matrix if it is made; None while it is not."""
    return _found(kind, _key(state, kind, layer))


def is_large_summary(state: State, kind: Kind) -> bool:
    """Tell whether making the matrix takes longer than a step may."""
    if state.trace is None:
        return False
    trace, how = state.trace, state.look.summary
    cells = size(trace, kind) * (1 if how in ("mean", "max") else trace.layers(kind))
    if kind == "cross" and how == "rollout":
        cells += size(trace, "encoder") * trace.layers("encoder")
    return cells * trace.heads > LARGE


def summary_parts(state: State, kind: Kind, layer: int) -> Iterator[None]:
    """Make the matrix and keep it, yielding after each head."""
    if state.shown is None:
        return
    heads = range(state.shown.heads)
    places = [(layer, head) for head in heads]
    layers = range(state.shown.layers(kind))
    made: Floats | None = None
    parts: Iterator[Floats | None]
    match state.look.summary:
        case "mean":
            parts = running_mean(_weights(state, kind, places))
        case "max":
            parts = running_maximum(_weights(state, kind, places))
        case "all":
            everything = [(layer, head) for layer in layers for head in heads]
            parts = running_mean(_weights(state, kind, everything))
        case _:
            parts = _rollout(state, kind, layer)
    for part in parts:
        made = part
        yield
    if made is not None:
        _kept[kind] = (*_key(state, kind, layer), made)


def _rollout(state: State, kind: Kind, layer: int) -> Iterator[Floats | None]:
    """Roll out layers 0 to ``layer``; cross attention reads the whole encoder's."""
    if kind != "cross":
        yield from _rolled(state, kind, layer + 1)
        return
    key = _key(state, "encoder", -1)
    below = _found("below", key)
    if below is None and state.shown is not None:
        for part in _rolled(state, "encoder", state.shown.layers("encoder")):
            below = part
            yield None
        if below is not None:
            _kept["below"] = (*key, below)
    mean: Floats | None = None
    for mean_so_far in _mean(state, kind, layer):
        mean = mean_so_far
        yield None
    if below is not None and mean is not None:
        yield through(mean, below)


def _rolled(state: State, kind: Kind, layers: int) -> Iterator[Floats | None]:
    """Yield None while it works, and last the rollout of so many layers."""
    means: list[Floats] = []
    for layer in range(layers):
        for mean_so_far in _mean(state, kind, layer):
            means[layer:] = [mean_so_far]
            yield None
    yield from running_rollout(means)


def _mean(state: State, kind: Kind, layer: int) -> Iterator[Floats]:
    heads = range(state.shown.heads if state.shown is not None else 0)
    return running_mean(_weights(state, kind, ((layer, head) for head in heads)))


def _weights(state: State, kind: Kind, places: Places) -> Iterator[Floats]:
    for layer, head in places:
        yield head_weights(state, kind, layer, head)


def _found(name: str, key: Key) -> Floats | None:
    objects, values, made = _kept.get(name, ((), (), None))
    return made if values == key[1] and same(objects, key[0]) else None


def _key(state: State, kind: Kind, layer: int) -> Key:
    """Return what a summary follows from: objects, and values."""
    look, trace = state.look, state.shown
    if trace is None:
        return (), ()
    place = None if look.summary == "all" else layer
    if kind == "encoder":  # the same at every step
        mask = trace.masks["encoder"]
        objects = trace.model, trace.source, trace.encoder_rows, mask
        return objects, (look.summary, place)
    return made_of(trace), (look.summary, place, len(trace))
