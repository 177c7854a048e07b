"""Turn watched attention into Traces, one for each row of the batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from visformer.values.arrays import Bools, Floats, read_only
from visformer.values.attention_heads import NO_WEIGHT, Bias
from visformer.values.facts import (
    KINDS,
    SIDES,
    WATCHED,
    AttentionFacts,
    Kind,
    ModelFacts,
    StackName,
)
from visformer.values.row_columns import Columns, RowsName
from visformer.values.trace import Trace
from visformer.values.watched_attention import TOLERANCE, WatchedAttention
from visformer.watching.row_tokens import Layers, RowTokens, tokens_of
from visformer.watching.streams import LayerStream, readout_of, steps_of, streams_of

if TYPE_CHECKING:
    from visformer.watching.watched_runs import RunRows
    from visformer.watching.watcher import Watched

Streams = Mapping[StackName, LayerStream]


class _Sizes(NamedTuple):
    """Sizes that all layers of a kind must share."""

    heads: int
    queries: int
    keys: int
    key_heads: int
    head_size: int
    value_size: int


def traces_of(watched: Watched) -> list[Trace]:
    """Return a Trace for each row of the batch, or each sequence of a beam search.

    The list is empty if no attention was verified.
    """
    return [
        trace
        for shown in watched.shown
        if (layers := layers_of(watched.attentions_of(shown)))
        for trace in _of_layers(watched, layers, shown)
    ]


def _of_layers(watched: Watched, layers: Layers, shown: RunRows) -> list[Trace]:
    sizes = dict(zip(("source", "target"), lengths(layers), strict=True))
    watcher, inputs = watched.watcher, (*watched.targets, *watched.sources)
    tokens = tokens_of(layers, sizes, watcher.tokens, watcher.tokenizer, inputs)
    streams = streams_of(watched.streams, layers, shown)
    found = watched.logits_of(shown)
    wanted = len(tokens), sizes["target"] or sizes["source"]
    if found is not None and found.logits.shape[:2] != wanted:
        found = None
    logits = None if found is None else found.logits
    readout = readout_of(watcher.model, streams.get("decoder"), logits)
    facts = _facts(watched, layers, streams, read_out=readout is not None)
    made = [
        _trace(facts, layers, at, row, watched, streams)
        for at, row in enumerate(tokens)
    ]
    if found is None:
        return made
    return [
        replace(
            trace,
            own_logits=read_only(own.numpy()),
            steps=steps_of(own, found.known, row),
            own_lens=None if readout is None else partial(readout.rows, row.piece),
        )
        for trace, own, row in zip(made, found.logits, tokens, strict=True)
    ]


def layers_of(attentions: Sequence[WatchedAttention]) -> Layers:
    """Return the layers that a Trace can hold: for each kind, those of one size."""
    layers: Layers = {}
    lengths_of: dict[str, int] = {}
    batch = Counter(len(one.weights) for one in attentions)
    for kind in KINDS:
        fit = [
            one
            for one in attentions
            if one.kind == kind
            and one.verified
            and one.weights.shape[1] == one.queries.shape[1]
            and len(one.weights) == batch.most_common(1)[0][0]
            and (kind == "cross" or one.weights.shape[2] == one.weights.shape[3])
        ]
        if not fit:
            continue
        sizes = Counter(map(_sizes, fit)).most_common(1)[0][0]
        queries, keys = SIDES[kind]
        wanted: dict[str, int] = {queries: sizes.queries, keys: sizes.keys}
        if any(lengths_of.get(side, n) != n for side, n in wanted.items()):
            continue
        lengths_of |= wanted
        layers[kind] = [one for one in fit if _sizes(one) == sizes]
    return layers


def not_in_traces(watched: Watched) -> list[WatchedAttention]:
    """Return verified attention of a known kind that fits into no Trace."""
    held = [one for several in layers_of(watched.last_run).values() for one in several]
    return [
        one
        for one in watched.last_run
        if one.verified and one.kind in KINDS and not any(one is x for x in held)
    ]


def lengths(layers: Layers) -> tuple[int, int]:
    """Return S and T; 0 for a missing side."""
    found = {"source": 0, "target": 0}
    for kind, several in layers.items():
        queries, keys = SIDES[kind]
        found[queries], found[keys] = several[0].weights.shape[2:]
    return found["source"], found["target"]


def _sizes(one: WatchedAttention) -> _Sizes:
    _rows, heads, queries, keys = one.weights.shape
    return _Sizes(
        *(heads, queries, keys, one.keys.shape[1]),
        *(one.queries.shape[3], one.values.shape[3]),
    )


def _facts(
    watched: Watched, layers: Layers, streams: Streams, *, read_out: bool
) -> ModelFacts:
    stacks = {
        stack: stream.facts(read_out=read_out and stack == "decoder")
        for stack, stream in streams.items()
    }
    attention = {}
    for kind, several in layers.items():
        sizes = _sizes(several[0])
        added = [one.added for one in several if one.added is not None]
        masked = [
            float(x[x <= NO_WEIGHT].min()) for x in added if (x <= NO_WEIGHT).any()
        ]
        attention[kind] = AttentionFacts(
            scales=tuple(one.scale for one in several),
            heads=sizes.heads,
            key_heads=sizes.key_heads,
            head_size=sizes.head_size,
            value_size=sizes.value_size,
            masked_value=min(masked, default=-np.inf),
        )
    watcher = watched.watcher
    parameters = list(watcher.model.parameters())
    return ModelFacts(
        attention=attention,
        stacks=stacks,
        known=None,
        name=type(watcher.model).__name__,
        digest="",
        layout=WATCHED,
        device=str(parameters[0].device) if parameters else "cpu",
        parameters=sum(one.numel() for one in parameters),
        pad=-1 if watcher.pad is None else watcher.pad,
        bos=-1,
        eos=-1,
    )


def _trace(
    facts: ModelFacts,
    layers: Layers,
    row: int,
    tokens: RowTokens,
    watched: Watched,
    streams: Streams,
) -> Trace:
    columns = Columns(facts)
    source, target = lengths(layers)
    masks: dict[Kind, Bools] = {}
    biases: dict[Kind, tuple[Bias, ...]] = {}
    for kind, several in layers.items():
        masks[kind], added = _masks(several, row)
        if added is not None:
            biases[kind] = added
    trace = Trace(
        model=facts,
        source_text=" ".join(tokens.source),
        source=tokens.source,
        source_ids=tokens.source_ids,
        source_spans=(),
        target=tokens.target,
        target_ids=tokens.target_ids,
        steps=(),
        encoder_rows=_rows(columns, "encoder", source, layers, row, streams),
        memory_rows=_rows(columns, "memory", source, layers, row, streams),
        decoder_rows=_rows(columns, "decoder", target, layers, row, streams),
        masks=masks,
        biases=biases,
        certificate=watched.certificate,
    )
    return with_own_weights(trace, layers, row)


def with_own_weights(trace: Trace, layers: Layers, row: int) -> Trace:
    """Store the weights of the layers that cannot be derived from the Trace."""
    trace = replace(trace, captured={})  # or they would be derived from those
    own = {
        (kind, layer): read_only(np.ascontiguousarray(one.weights[row]))
        for kind, several in layers.items()
        for layer, one in enumerate(several)
        if not _follows(trace, kind, layer, one.weights[row])
    }
    return replace(trace, captured=own)


def _follows(trace: Trace, kind: Kind, layer: int, weights: Floats) -> bool:
    """Whether the Trace derives a layer's weights."""
    derived = trace.attention(kind, layer)
    same = np.isclose(derived, weights, rtol=0, atol=TOLERANCE, equal_nan=True)
    return bool(same.all())


def _masks(
    several: Sequence[WatchedAttention], row: int
) -> tuple[Bools, tuple[Bias, ...] | None]:
    """Return the masks, [Q, K] or [layers, Q, K], and any other bias of the scores."""
    masks: list[Bools] = []
    biases: list[Floats] = []
    for one in several:
        shape = one.weights.shape[2:]
        if one.added is None:
            added = np.zeros((1, *shape), np.float32)
        else:
            added = np.array(one.added[row if len(one.added) > 1 else 0], np.float32)
        hidden = ~(added > NO_WEIGHT)
        everywhere = hidden.all(0)
        masks.append(np.asarray(~everywhere))
        added[np.broadcast_to(everywhere, added.shape)] = 0
        biases.append(added)
    if all((mask == masks[0]).all() for mask in masks):
        mask: Bools = masks[0]
    else:
        mask = np.stack(masks)
    return mask, tuple(biases) if any(bias.any() for bias in biases) else None


def _rows(
    columns: Columns,
    rows: RowsName,
    length: int,
    layers: Layers,
    row: int,
    streams: Streams,
) -> Floats:
    """Fill the rows of a Trace; unknown parts stay zero."""
    made = np.zeros((length, columns.width(rows)), np.float32)
    for name, layer in columns.names(rows):
        if name in ("hidden", "output") and rows != "memory":
            whole = streams[rows].part(name, layer)
            made[:, columns.part(rows, name, layer)] = whole[row].numpy()
            continue
        kind: Kind = "encoder" if rows == "encoder" else "decoder"
        if rows == "memory" or name.startswith("cross "):
            kind = "cross"
        one = layers[kind][layer]
        part: Any = getattr(one, name.removeprefix("cross "))[row]  # [H, N, d]
        flat = np.swapaxes(part, 0, 1).reshape(part.shape[1], -1)
        made[:, columns.part(rows, name, layer)] = flat
    return read_only(made)
