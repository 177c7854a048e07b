"""The attentions of Traces, as the checks look at them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from visformer.analysis.checks.observation import BrokenTensor
from visformer.language import _
from visformer.values.arrays import Floats, Ids
from visformer.values.facts import KINDS, STACKS, Kind, SentenceSide
from visformer.values.score_bias import bias_rows
from visformer.values.trace import Trace
from visformer.values.watched_attention import TOLERANCE, WatchedAttention

_PART = {"encoder": "self_attention", "decoder": "self_attention"}


def attentions_of(traces: Sequence[Trace]) -> tuple[WatchedAttention, ...]:
    """Return every attention of a batch: a Trace per row, all of one size."""
    first = traces[0]
    places = [
        (layer, kind) for kind in KINDS for layer in range(first.model.layers(kind))
    ]
    encoder = [x for x in places if x[1] == "encoder"]
    others = sorted(
        (x for x in places if x[1] != "encoder"),
        key=lambda x: (x[0], KINDS.index(x[1])),
    )
    return tuple(_attention(traces, kind, layer) for layer, kind in (*encoder, *others))


def ids_of(traces: Sequence[Trace], side: SentenceSide) -> Ids:
    """Return the ids of a side, [B, N]; padding, and nothing else, has the pad id."""
    pad = traces[0].model.pad

    def row(trace: Trace) -> Ids:
        ids = trace.source_ids if side == "source" else trace.target_ids
        return np.where(trace.pads(side), pad, np.where(ids == pad, -2, ids))

    return np.stack([row(trace) for trace in traces])


def _attention(traces: Sequence[Trace], kind: Kind, layer: int) -> WatchedAttention:
    first = traces[0]
    stack = "encoder" if kind == "encoder" else "decoder"
    sides: dict[Kind, tuple[SentenceSide, SentenceSide]] = {
        "encoder": ("source", "source"),
        "decoder": ("target", "target"),
        "cross": ("target", "source"),
    }
    queries, keys = sides[kind]
    captured = first.is_captured(kind, layer)

    def several(name: str) -> Floats:
        made = [getattr(trace, name)(kind, layer) for trace in traces]
        return np.stack(made)

    return WatchedAttention(
        module=f"{stack}.layers.{layer}.{_PART.get(kind, 'cross_attention')}",
        kind=kind,
        weights=several("attention"),
        queries=several("queries"),
        keys=several("keys"),
        values=several("values"),
        scale=first.scale(kind, layer),
        added=np.stack([_added(trace, kind, layer) for trace in traces]),
        difference=0.0,
        tolerance=TOLERANCE,
        linear=not captured,
        # what a watched model made of its heads was judged when it was watched
        mixed=captured and first.certificate is not None,
        query_ids=ids_of(traces, queries),
        key_ids=ids_of(traces, keys),
    )


def _added(trace: Trace, kind: Kind, layer: int) -> Floats:
    """Return what is added to the scores, [H, Q, K]: -inf where nothing may read."""
    heads = range(trace.heads(kind))
    masks = np.stack([trace.mask(kind, layer, head) for head in heads])
    bias, (_heads, *shape) = trace.added(kind, layer), masks.shape
    plus = 0 if bias is None else bias_rows(bias, slice(None), (shape[0], shape[1]))
    added: Floats = np.where(masks, plus, -np.inf).astype(np.float32)
    return added


def broken_results(trace: Trace) -> tuple[BrokenTensor, ...]:
    """Return the results that are not finite, in the order of computation."""
    found = []
    for stack in STACKS:
        facts = trace.model.stacks.get(stack)
        for layer in range(facts.hidden if facts else 0):
            name = _("{stack} layer {layer}", stack=stack, layer=layer)
            found.append((name, trace.hidden(stack, layer)))
    if len(trace):
        found.append((_("output"), trace.logits))
    counts = ((name, int((~np.isfinite(x)).sum()), x.size) for name, x in found)
    return tuple(BrokenTensor(*one) for one in counts if one[1])
