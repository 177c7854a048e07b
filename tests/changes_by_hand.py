"""Changes as they should act, and whole models to apply them to: written out by hand.

Everything is float64, and one sentence after the other.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from visformer.core.decoding import Decoding
from visformer.values.facts import Kind, StackName
from visformer.values.intervention import parse
from visformer.values.trace import Trace

SOURCE, TARGET = [4, 5, 6, 7], [2, 8, 9, 10, 11]
OTHER = [9, 4, 12, 7], [2, 10, 11, 8, 9]
At = tuple[Kind, int, int]  # a kind, a layer and a head, from 0
Streams = dict[str, list[Tensor]]
Project = Callable[[Tensor], Tensor]


def _same(x: Any, *_: Any) -> Any:
    return x


@dataclass(frozen=True)
class Effect:
    """What a text should do."""

    words: dict[tuple[str, int], int] | None = None  # a side and a row: another id
    allowed: Callable[[Tensor, At], Tensor] = _same  # [Q, K] of a head
    weights: Callable[[Tensor, At, Tensor], Tensor] = _same  # [Q, K]; its mask
    values: Callable[[Tensor, At], Tensor] = _same  # [K, d]
    z: Callable[[Tensor, At], Tensor] = _same  # [Q, d]
    skipped: tuple[tuple[StackName, int], ...] = ()
    stream: Callable[[Tensor, tuple[str, int]], Tensor] = _same  # [T, D]
    first_row: int = 0  # the first decoder row that may be another


def _filled(x: Tensor, at: Any, value: float | Tensor) -> Tensor:
    made = x.clone()
    made[at] = value
    return made


def _pinned(w: Tensor, query: int, key: int, weight: float) -> Tensor:
    others = w[query].sum() - w[query, key]
    row = w[query] / others * (1 - weight)
    return _filled(w, query, _filled(row, key, weight))


def _even(w: Tensor, query: int, mask: Tensor) -> Tensor:
    return _filled(w, query, mask[query].double() / mask[query].sum())


EFFECTS: dict[str, Effect] = {
    "head cross off @ L2H1": Effect(
        z=lambda z, at: 0 * z if at == ("cross", 1, 0) else z
    ),
    "head encoder off": Effect(z=lambda z, at: 0 * z if at[0] == "encoder" else z),
    "head decoder * -2.5 @ L1H2": Effect(
        z=lambda z, at: -2.5 * z if at == ("decoder", 0, 1) else z
    ),
    "head cross off @ L1H1,L2H2": Effect(
        z=lambda z, at: 0 * z if at in {("cross", 0, 0), ("cross", 1, 1)} else z
    ),
    "head decoder only @ L2H2": Effect(
        z=lambda z, at: 0 * z if at[:2] == ("decoder", 1) and at[2] != 1 else z
    ),
    "cell cross 3 2 off @ L2H1": Effect(
        allowed=lambda m, at: _filled(m, (2, 1), 0) if at == ("cross", 1, 0) else m,
        first_row=2,
    ),
    "cell encoder 1 1 off @ L1H1,L1H2": Effect(
        allowed=lambda m, at: (
            _filled(m, (0, 0), 0) if at[:2] == ("encoder", 0) and at[2] < 2 else m
        )
    ),
    "cell decoder 2 4 on @ L1H2": Effect(
        allowed=lambda m, at: _filled(m, (1, 3), 1) if at == ("decoder", 0, 1) else m,
        first_row=1,
    ),
    "cell cross 3 2 = 0.75 @ L2H1": Effect(
        weights=lambda w, at, _: _pinned(w, 2, 1, 0.75) if at == ("cross", 1, 0) else w,
        first_row=2,
    ),
    "cell decoder 3 2 = 0": Effect(
        weights=lambda w, at, _: _pinned(w, 2, 1, 0) if at[0] == "decoder" else w,
        first_row=2,
    ),
    "cell decoder 2 5 = 0.5 @ L1H1": Effect(
        weights=lambda w, at, _: (
            _pinned(w, 1, 4, 0.5) if at == ("decoder", 0, 0) else w
        ),
        first_row=1,
    ),
    "cell encoder 2 3 = -1.5 raw @ L1": Effect(
        weights=lambda w, at, _: (
            _filled(w, (1, 2), -1.5) if at[:2] == ("encoder", 0) else w
        )
    ),
    "cell cross 4 1 * 0.25": Effect(
        weights=lambda w, at, _: (
            _pinned(w, 3, 0, float(w[3, 0]) / 4) if at[0] == "cross" else w
        ),
        first_row=3,
    ),
    "cell cross 4 1 * 3 raw @ L1H2": Effect(
        weights=lambda w, at, _: (
            _filled(w, (3, 0), 3 * w[3, 0]) if at == ("cross", 0, 1) else w
        ),
        first_row=3,
    ),
    "row cross 3 = uniform @ L2H2": Effect(
        weights=lambda w, at, mask: _even(w, 2, mask) if at == ("cross", 1, 1) else w,
        first_row=2,
    ),
    "row decoder 4 = uniform": Effect(
        weights=lambda w, at, mask: _even(w, 3, mask) if at[0] == "decoder" else w,
        first_row=3,
    ),
    "value cross 2 off": Effect(
        values=lambda v, at: _filled(v, 1, 0) if at[0] == "cross" else v
    ),
    "value encoder 4 off @ L1": Effect(
        values=lambda v, at: _filled(v, 3, 0) if at[:2] == ("encoder", 0) else v
    ),
    "value decoder 3 off @ L2": Effect(
        values=lambda v, at: _filled(v, 2, 0) if at[:2] == ("decoder", 1) else v,
        first_row=2,
    ),
    "layer encoder off @ L2": Effect(skipped=(("encoder", 1),)),
    "layer decoder off": Effect(skipped=(("decoder", 0), ("decoder", 1))),
    'embedding source 2 = "q"': Effect(words={("source", 1): 20}),
    'embedding target 3 = "</s>"': Effect(
        words={("target", 2): 3},
        first_row=2,
    ),
    "row cross 2 = uniform @ L1; head cross off @ L2H1; value cross 1 off": Effect(
        weights=lambda w, at, mask: _even(w, 1, mask) if at[:2] == ("cross", 0) else w,
        values=lambda v, at: _filled(v, 0, 0) if at[0] == "cross" else v,
        z=lambda z, at: 0 * z if at == ("cross", 1, 0) else z,
    ),
}
AHEAD = {"cell decoder 2 4 on @ L1H2", "cell decoder 2 5 = 0.5 @ L1H1"}


def _first_rows(x: Tensor, other: Tensor) -> Tensor:
    made = x.clone()
    made[: len(other)] = other[: len(x)]
    return made


def _row(x: Tensor, other: Tensor, row: int) -> Tensor:
    made = x.clone()
    made[row] = other[row]
    return made


# of z of every head of another run, and of its streams
PATCHES: dict[str, Callable[[dict[At, Tensor], Streams], Effect]] = {
    "head cross from clean @ L2H1": lambda z, _: Effect(
        z=lambda x, at: _first_rows(x, z[at]) if at == ("cross", 1, 0) else x
    ),
    "head encoder from clean": lambda z, _: Effect(
        z=lambda x, at: _first_rows(x, z[at]) if at[0] == "encoder" else x
    ),
    "head decoder from clean @ L1": lambda z, _: Effect(
        z=lambda x, at: _first_rows(x, z[at]) if at[:2] == ("decoder", 0) else x
    ),
    "output cross 3 from clean @ L2": lambda z, _: Effect(
        z=lambda x, at: _row(x, z[at], 2) if at[:2] == ("cross", 1) else x,
        first_row=2,
    ),
    "output encoder 2 from clean": lambda z, _: Effect(
        z=lambda x, at: _row(x, z[at], 1) if at[0] == "encoder" else x
    ),
    "head cross * 3 @ L2; output cross 3 from clean @ L2": lambda z, _: Effect(
        z=lambda x, at: _row(3 * x, z[at], 2) if at[:2] == ("cross", 1) else x
    ),
    "residual encoder 1 from clean @ L1": lambda _, streams: Effect(
        stream=lambda x, at: (
            _row(x, streams["encoder"][1], 0) if at == ("encoder", 0) else x
        )
    ),
    "residual decoder 3 from clean": lambda _, streams: Effect(
        stream=lambda x, at: (
            _row(x, streams["decoder"][at[1] + 1], 2) if at[0] == "decoder" else x
        ),
        first_row=2,
    ),
    "head encoder mean @ L2H2": lambda _z, _s: Effect(
        z=lambda x, at: 0 * x + x.mean(0) if at == ("encoder", 1, 1) else x
    ),
    "head cross mean": lambda _z, _s: Effect(
        z=lambda x, at: 0 * x + x.mean(0) if at[0] == "cross" else x
    ),
}


def named(text: str, word: Callable[[int], str]) -> str:
    """Return a text whose words are those of a vocabulary, by their ids."""
    for id, own in ((20, '"q"'), (3, '"</s>"')):
        text = text.replace(own, json.dumps(word(id), ensure_ascii=False))
    return text


# ---- the models ----------------------------------------------------------------------


class Heads(NamedTuple):
    """One attention."""

    q: Project
    k: Project
    v: Project
    o: Project
    number: int
    scale: float
    bias: Callable[[int, int], Tensor] | None = None  # [H, Q, K]


class Layer(NamedTuple):
    """One layer; norms of its attention, its cross attention and its feed-forward."""

    own: Heads
    cross: Heads | None
    feed: Project
    norms: Sequence[Project]
    norm_first: bool


class HandModel(NamedTuple):
    """A whole model."""

    embed: Callable[[str, Tensor], Tensor]  # a side, ids [T] -> [T, D]
    stacks: dict[StackName, list[Layer]]
    output: Project  # what leaves the decoder -> logits
    memory: Project = _same  # what leaves the encoder -> what the decoder reads


class Passed(NamedTuple):
    """What a pass computed."""

    streams: Streams  # by stack, L + 1 of [T, D]
    logits: Tensor  # [T, V]
    weights: dict[At, Tensor]
    z: dict[At, Tensor]


def attended(
    heads: Heads, effect: Effect, at: tuple[Kind, int], x: Tensor, memory: Tensor
) -> tuple[Tensor, dict[At, Tensor], dict[At, Tensor]]:
    mask = torch.ones(len(x), len(memory)).bool()
    mask = mask.tril() if at[0] == "decoder" else mask
    q, k, v = heads.q(x), heads.k(memory), heads.v(memory)
    weights, z = {}, {}
    for head in range(heads.number):
        one: At = (*at, head)
        mine = [part.chunk(heads.number, -1)[head] for part in (q, k, v)]
        allowed = effect.allowed(mask, one)
        scores = mine[0] @ mine[1].T * heads.scale
        if heads.bias is not None:
            scores = scores + heads.bias(*scores.shape)[head]
        own = scores.where(allowed, -1e30).softmax(-1)
        weights[one] = effect.weights(own, one, allowed)
        z[one] = effect.z(weights[one] @ effect.values(mine[2], one), one)
    return heads.o(torch.cat([*z.values()], 1)), weights, z


@torch.no_grad()
def by_hand(
    model: HandModel,
    effect: Effect,
    source: Sequence[int] = SOURCE,
    target: Sequence[int] = TARGET,
) -> Passed:
    """Run a model over a source and all of a target; without an encoder the target."""
    streams: Streams = {}
    weights: dict[At, Tensor] = {}
    z: dict[At, Tensor] = {}
    memory = torch.zeros(0)
    sides = {"encoder": ("source", source), "decoder": ("target", target)}
    for name, layers in model.stacks.items():
        side, ids = sides[name]
        read = torch.tensor([*ids])
        for (of, row), id in (effect.words or {}).items():
            if of == side:
                read[row] = id
        x = model.embed(side, read)
        streams[name] = [x]
        for index, layer in enumerate(layers):
            entered = x

            def attend(
                x: Tensor, at: tuple[Kind, int], heads: Heads, keys: Tensor | None
            ) -> Tensor:
                keys = x if keys is None else keys
                made, own, out = attended(heads, effect, at, x, keys)
                weights.update(own)
                z.update(out)
                return made

            parts: list[Project] = [
                partial(attend, at=(name, index), heads=layer.own, keys=None)
            ]
            if layer.cross is not None:
                at: tuple[Kind, int] = "cross", index
                parts.append(partial(attend, at=at, heads=layer.cross, keys=memory))
            for part, norm in zip([*parts, layer.feed], layer.norms, strict=True):
                x = x + part(norm(x)) if layer.norm_first else norm(x + part(x))
            x = entered if (name, index) in effect.skipped else x
            x = effect.stream(x, (name, index))
            streams[name].append(x)
        memory = model.memory(x)
    return Passed(streams, model.output(x), weights, z)


def native(checkpoint: Any) -> HandModel:
    """Return a checkpoint of ours, post-norm, on the CPU."""
    model: Any = copy.deepcopy(checkpoint.model).double().cpu()

    def embed(side: str, ids: Tensor) -> Tensor:
        table = model.get_submodule(f"{side}_embedding")
        rows: Tensor = table(ids) * model.scale + model.positions[: len(ids)].double()
        return rows

    def heads(part: Any) -> Heads:
        own = part.query, part.key, part.value, part.output
        return Heads(*own, part.heads, (model.config.d_model / part.heads) ** -0.5)

    def layers(stack: StackName) -> list[Layer]:
        return [
            Layer(
                heads(one.self_attention),
                heads(one.cross_attention) if stack == "decoder" else None,
                one.feed_forward,
                [
                    one.self_attention_norm,
                    *([one.cross_attention_norm] if stack == "decoder" else []),
                    one.feed_forward_norm,
                ],
                norm_first=False,
            )
            for one in model.get_submodule(stack)
        ]

    both: dict[StackName, list[Layer]] = {
        "encoder": layers("encoder"),
        "decoder": layers("decoder"),
    }
    return HandModel(embed, both, model.output)


def scratch(own: Any) -> HandModel:
    """Return the model of tests.system.watching.faulty_models, without a fault."""
    model = copy.deepcopy(own).double()

    def embed(side: str, ids: Tensor) -> Tensor:
        coder = "encoder" if side == "source" else "decoder"
        table = model.get_submodule(f"{coder}_embedding")
        rows: Tensor = table(ids) * math.sqrt(model.d_model)
        rows = rows + model.pos_encoding.pe[0, : len(ids)]
        return rows

    def heads(part: Any) -> Heads:
        own = part.W_q, part.W_k, part.W_v, part.W_o
        return Heads(*own, part.num_heads, part.d_k**-0.5)

    def layer(one: Any, *, cross: bool) -> Layer:
        norms = [one.norm1, one.norm2, *([one.norm3] if cross else [])]
        read = heads(one.cross_attn) if cross else None
        return Layer(heads(one.self_attn), read, one.feed_forward, norms, False)

    both: dict[StackName, list[Layer]] = {
        "encoder": [layer(one, cross=False) for one in model.encoder_layers],
        "decoder": [layer(one, cross=True) for one in model.decoder_layers],
    }
    return HandModel(embed, both, model.fc_out)


def torch_nn(own: Any) -> HandModel:
    """Return a module with ``embed``, ``place``, ``inner`` (torch.nn), and ``head``."""
    model = copy.deepcopy(own).double()
    inner = model.inner

    def embed(_side: str, ids: Tensor) -> Tensor:
        rows: Tensor = model.embed(ids) + model.place.weight[: len(ids)]
        return rows

    def heads(part: Any) -> Heads:
        weights, biases = part.in_proj_weight.chunk(3), part.in_proj_bias.chunk(3)
        q, k, v = (
            lambda x, w=w, b=b: F.linear(x, w, b)
            for w, b in zip(weights, biases, strict=True)
        )
        return Heads(q, k, v, part.out_proj, part.num_heads, part.head_dim**-0.5)

    def layer(one: Any, *, cross: bool) -> Layer:
        norms = [one.norm1, one.norm2, *([one.norm3] if cross else [])]
        read = heads(one.multihead_attn) if cross else None

        def feed(x: Tensor) -> Tensor:
            return one.linear2(one.activation(one.linear1(x)))  # type: ignore[no-any-return]

        return Layer(heads(one.self_attn), read, feed, norms, one.norm_first)

    both: dict[StackName, list[Layer]] = {
        "encoder": [layer(one, cross=False) for one in inner.encoder.layers],
        "decoder": [layer(one, cross=True) for one in inner.decoder.layers],
    }
    return HandModel(
        *(embed, both, lambda x: model.head(inner.decoder.norm(x))), inner.encoder.norm
    )


def t5(own: Any) -> HandModel:
    """Return a T5 of transformers, for sentences of at most eight tokens."""
    model = copy.deepcopy(own).double()

    def bias(table: Any, *, both: bool) -> Callable[[int, int], Tensor]:
        def made(queries: int, keys: int) -> Tensor:
            apart = torch.arange(keys)[None] - torch.arange(queries)[:, None]
            half = table.num_embeddings // 2
            place = apart.abs() + half * (apart > 0) if both else (-apart).clamp(min=0)
            rows: Tensor = table(place).permute(2, 0, 1)
            return rows

        return made

    def heads(part: Any, table: Any = None, *, both: bool = False) -> Heads:
        own = part.q, part.k, part.v, part.o
        found = None if table is None else bias(table, both=both)
        return Heads(*own, part.n_heads, 1.0, found)

    def layers(stack: Any, *, cross: bool) -> list[Layer]:
        table = stack.block[0].layer[0].SelfAttention.relative_attention_bias
        made = []
        for block in stack.block:
            own, *read, feed = block.layer
            made.append(
                Layer(
                    heads(own.SelfAttention, table, both=not cross),
                    heads(read[0].EncDecAttention) if cross else None,
                    feed.DenseReluDense,
                    [one.layer_norm for one in block.layer],
                    norm_first=True,
                )
            )
        return made

    both: dict[StackName, list[Layer]] = {
        "encoder": layers(model.encoder, cross=False),
        "decoder": layers(model.decoder, cross=True),
    }
    factor = model.model_dim**-0.5 if model.config.scale_decoder_outputs else 1.0

    def output(x: Tensor) -> Tensor:
        return model.lm_head(model.decoder.final_layer_norm(x) * factor)  # type: ignore[no-any-return]

    return HandModel(
        *(lambda _side, ids: model.shared(ids), both, output),
        model.encoder.final_layer_norm,
    )


def gpt2(own: Any) -> HandModel:
    """Return a GPT-2 of transformers."""
    model = copy.deepcopy(own).double()
    inner = model.transformer

    def embed(_side: str, ids: Tensor) -> Tensor:
        rows: Tensor = inner.wte(ids) + inner.wpe.weight[: len(ids)]
        return rows

    def layer(block: Any) -> Layer:
        part = block.attn
        weights, biases = part.c_attn.weight.chunk(3, 1), part.c_attn.bias.chunk(3)
        q, k, v = (
            lambda x, w=w, b=b: x @ w + b for w, b in zip(weights, biases, strict=True)
        )
        heads = Heads(q, k, v, part.c_proj, part.num_heads, part.head_dim**-0.5)
        return Layer(heads, None, block.mlp, [block.ln_1, block.ln_2], norm_first=True)

    blocks: list[Layer] = [layer(block) for block in inner.h]
    return HandModel(embed, {"decoder": blocks}, lambda x: model.lm_head(inner.ln_f(x)))


# ---- how far a run is from the hand's ------------------------------------------------


def fed(
    model: Any,
    change: Any = "",
    source: Sequence[int] = SOURCE,
    target: Sequence[int] = TARGET,
) -> Trace:
    """Return the run of a model that consumes a source and a target."""
    given = target if model.alone else source
    decoding = Decoding(model, [*given], intervention=change)
    return decoding.feed([5] if model.alone else [*target[1:], 5])


@cache
def unchanged(model: Any, source: tuple[int, ...], target: tuple[int, ...]) -> Trace:
    """Return the run of a model that nothing changes, made once."""
    return fed(model, "", source, target)


def texts(model: Any) -> list[str]:
    """Return the changes that fit a model, in its words."""
    kinds = {*model.facts.kinds} | {"target"}
    kinds |= {"source"} if "encoder" in kinds else set()
    every = (*EFFECTS, *PATCHES)
    return [t for t in every if {k for one in parse([t]) for k in one.kinds} <= kinds]


def largest(model: Any, hand: HandModel, text: str) -> float:
    """Return how far a changed run of a watched model is from the hand's."""
    start = [model.bos, *TARGET[1:]]
    taken = named(text, lambda id: model.vocabulary.pieces([id])[0])
    if text in EFFECTS:
        effect, change = EFFECTS[text], parse([taken])
    else:
        other = OTHER[0], [model.bos, *OTHER[1][1:]]
        clean = by_hand(hand, Effect(), *other)
        effect = PATCHES[text](clean.z, clean.streams)
        clean_run = unchanged(model, *map(tuple, other))
        change = parse([taken]).filled({"clean": clean_run})
    made = fed(model, change, SOURCE, start)
    plain = unchanged(model, tuple(SOURCE), tuple(start))
    first = effect.first_row
    assert np.array_equal(made.decoder_rows[:first], plain.decoder_rows[:first])
    assert np.abs(made.logits - plain.logits).max() > 2e-5
    assert made.intervention == change
    return apart(made, by_hand(hand, effect, SOURCE, start))


def apart(trace: Any, expected: Passed) -> float:
    """Return the largest difference of streams, logits and weights.

    It is relative to the largest number of a stream or of the logits, at least to 1.
    """
    found = [
        (trace.hidden(stack, layer), stream)
        for stack, streams in expected.streams.items()
        for layer, stream in enumerate(streams)
    ]
    found.append((trace.logits, expected.logits))
    found += [
        (trace.attention(*at), weights) for at, weights in expected.weights.items()
    ]
    return max(
        float((torch.from_numpy(made.copy()) - own).abs().max())
        / max(1.0, float(own.abs().max()))
        for made, own in found
    )
