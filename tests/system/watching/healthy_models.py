"""Healthy models of many kinds: what each computes is right, so none has a fault.

Each attention keeps the weights that it used, a list ``seen``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

WIDTH, HEADS, SIZE, VOCABULARY = 32, 4, 8, 20
INF = float("-inf")


@dataclass(frozen=True)
class Healthy:
    """A model and a call of it; ``|`` stands between kinds that are both right."""

    model: nn.Module
    args: tuple[Any, ...]
    kinds: str  # in the order in which they run
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    missed: str = ""  # what is named as not shown
    training: bool = False


MODELS: dict[str, Callable[[], Healthy]] = {}
Making = Callable[[], Healthy]


def model(function: Making) -> Making:
    """Add what makes a model to the table."""
    MODELS[function.__name__] = function
    return function


def ids(rows: int = 3, length: int = 7, pads: str = "") -> Tensor:
    """Return ids; the second row has two pads on the left or on the right."""
    made = torch.randint(3, VOCABULARY, (rows, length))
    if pads:
        made[1, slice(2) if pads == "left" else slice(length - 2, length)] = 0
    return made


def lower(n: int, keys: int = 0) -> Tensor:
    """Return what a row may read, bool [n, keys or n]."""
    keys = keys or n
    return torch.ones(n, keys).tril(keys - n).bool()


class Attention(nn.Module):
    """Masked scores are filled with ``fill``; bool masks say what may be read."""

    def __init__(self, kv: int = HEADS, fill: float = INF) -> None:
        super().__init__()
        self.q, self.o = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.k, self.v = (nn.Linear(WIDTH, kv * SIZE) for _ in range(2))
        self.fill = fill
        self.seen: list[Tensor] = []

    def heads(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], -1, SIZE).transpose(1, 2)

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        scores: Tensor = q @ k.mT / SIZE**0.5
        return scores

    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        if mask is not None:
            scores = scores.masked_fill(~mask, self.fill)
        return scores.softmax(-1)

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = self.heads(self.q(x)), self.heads(self.k(memory)), self.v(memory)
        weights = self.weights(self.scores(q, k), mask)
        self.seen.append(weights.detach())
        y: Tensor = self.o((weights @ self.heads(v)).transpose(1, 2).flatten(2))
        return y


class Layer(nn.Module):
    def __init__(self, attention: Any, *, cross: bool = False, post: bool = False):
        super().__init__()
        self.attention = attention()
        self.cross = attention() if cross else None
        self.feed = nn.Sequential(
            nn.Linear(WIDTH, 48), nn.GELU(), nn.Dropout(0.2), nn.Linear(48, WIDTH)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(3))
        self.post, self.dropout = post, nn.Dropout(0.2)

    def forward(
        self, x: Tensor, mask: Any = None, memory: Any = None, memory_mask: Any = None
    ) -> Tensor:
        x = self.added(x, 0, lambda y: self.attention(y, y, mask))
        if self.cross is not None:
            cross = self.cross
            x = self.added(x, 1, lambda y: cross(y, memory, memory_mask))
        return self.added(x, 2, self.feed)

    def added(self, x: Tensor, at: int, part: Callable[[Tensor], Tensor]) -> Tensor:
        y: Tensor
        if self.post:
            y = self.norms[at](x + self.dropout(part(x)))
        else:
            y = x + self.dropout(part(self.norms[at](x)))
        return y


class One(nn.Module):
    """One input: an encoder or, with ``causal``, a language model."""

    def __init__(
        self, attention: Any = Attention, *, causal: bool = False, post: bool = False
    ) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(20, WIDTH), nn.Embedding(160, WIDTH)
        self.layers = nn.ModuleList(Layer(attention, post=post) for _ in range(2))
        self.norm, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)
        self.causal = causal

    def embedded(self, x: Tensor) -> Tensor:
        y: Tensor = self.words(x) + self.places(torch.arange(x.shape[1]))
        return y

    def mask(self, x: Tensor) -> Tensor | None:
        return lower(x.shape[1]) if self.causal else None

    def body(self, x: Tensor, mask: Tensor | None) -> Tensor:
        for layer in self.layers:
            x = layer(x, mask)
        y: Tensor = self.norm(x)
        return y

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.out(self.body(self.embedded(x), self.mask(x)))
        return y


class Two(nn.Module):
    """A source and a target, one layer each; padding 0 is masked on both sides."""

    def __init__(self, attention: Any = Attention, *, post: bool = False) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(20, WIDTH), nn.Embedding(20, WIDTH)
        self.places = nn.Embedding(160, WIDTH)
        self.encoder, self.decoder = (
            nn.ModuleList([Layer(attention, cross=cross, post=post)])
            for cross in (False, True)
        )
        self.out = nn.Linear(WIDTH, VOCABULARY)

    def embedded(self, table: nn.Embedding, x: Tensor) -> Tensor:
        y: Tensor = table(x) + self.places(torch.arange(x.shape[1]))
        return y

    def source_mask(self, src: Tensor) -> Tensor:
        return (src != 0)[:, None, None]

    def target_mask(self, tgt: Tensor) -> Tensor:
        return (tgt != 0)[:, None, None] & lower(tgt.shape[1])

    def encode(self, src: Tensor) -> Tensor:
        x = self.embedded(self.source, src)
        for layer in self.encoder:
            x = layer(x, self.source_mask(src))
        return x

    def decode(self, memory: Tensor, src: Tensor, tgt: Tensor) -> Tensor:
        x = self.embedded(self.target, tgt)
        for layer in self.decoder:
            x = layer(x, self.target_mask(tgt), memory, self.source_mask(src))
        y: Tensor = self.out(x)
        return y

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        return self.decode(self.encode(src), src, tgt)


E2, D2, S2S = "encoder " * 2, "decoder " * 2, "encoder decoder cross"
PADDED: dict[str, Any] = {"pad": 0}


def two(made: nn.Module, **more: Any) -> Healthy:
    args = ids(3, 7, "right"), ids(3, 6, "right")
    return Healthy(made, args, S2S, options=PADDED, **more)


def encoder(attention: Any) -> Healthy:
    return Healthy(One(attention), (ids(),), E2)


def language(attention: Any, **more: Any) -> Healthy:
    made = ids(3, 8)
    labels = {"labels": made[:, 1:]}
    return Healthy(
        One(attention, causal=True, **more), (made[:, :-1],), D2, options=labels
    )


# --- the attention ---
@model
def pre_norm() -> Healthy:
    return two(Two())


@model
def post_norm() -> Healthy:
    return two(Two(post=True))


class QueryKeyNorm(Attention):
    """Queries and keys are normalised with learned gains: the scale is 1."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.RMSNorm(SIZE) for _ in range(2))

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        scores: Tensor = self.norms[0](q) @ self.norms[1](k).mT
        return scores


@model
def query_key_norm() -> Healthy:
    return language(QueryKeyNorm)


class Cosine(Attention):
    """As in Swin 2: a learned temperature for each head."""

    def __init__(self) -> None:
        super().__init__()
        self.heat = nn.Parameter(torch.rand(HEADS, 1, 1) + 1)

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        scores: Tensor = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT
        return scores * self.heat.exp()


@model
def cosine_with_temperature() -> Healthy:
    return encoder(Cosine)


class RelativeBias(Attention):
    """As in T5: no scale, and a bias by distance; none where another text is read."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Embedding(9, HEADS)

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        plain: Tensor = q @ k.mT
        if q.shape[2] != k.shape[2]:
            return plain
        at = torch.arange(k.shape[2])[None] - torch.arange(q.shape[2])[:, None]
        bias: Tensor = self.bias(at.clamp(-4, 4) + 4).permute(2, 0, 1)
        return plain + bias


@model
def relative_bias_of_t5() -> Healthy:
    return language(RelativeBias)


@model
def translator_of_t5() -> Healthy:
    return two(Two(RelativeBias))


class RootOnBothSides(Attention):
    """As in Whisper: queries and keys are each divided by the root of the root."""

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        scores: Tensor = (q * SIZE**-0.25) @ (k * SIZE**-0.25).mT
        return scores


@model
def root_on_both_sides() -> Healthy:
    return language(RootOnBothSides)


class KeyAtTheEnd(Attention):
    """A learned key stands after those of the text, and all may read it."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Parameter(torch.randn(1, 1, WIDTH))

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor | None = None) -> Tensor:
        memory = torch.cat([memory, self.last.expand(len(x), -1, -1)], 1)
        return super().forward(
            x, memory, None if mask is None else F.pad(mask, (0, 1), value=True)
        )


@model
def learned_key_at_the_end() -> Healthy:
    case = language(KeyAtTheEnd)
    return replace(case, kinds="decoder|other|merged " * 2)


class Grouped(Attention):
    def __init__(self) -> None:
        super().__init__(kv=2)

    def heads(self, x: Tensor) -> Tensor:
        y = super().heads(x)
        return y.repeat_interleave(HEADS // y.shape[1], 1)


@model
def grouped_keys() -> Healthy:
    return language(Grouped)


class OneKeyHead(Attention):
    """One head of keys for all, and a penalty by distance (ALiBi)."""

    def __init__(self) -> None:
        super().__init__(kv=1)

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        at = torch.arange(k.shape[2])[None] - torch.arange(q.shape[2])[:, None]
        slopes = 2.0 ** -torch.arange(1, HEADS + 1)[:, None, None]
        return super().scores(q, k) + at * slopes


@model
def one_key_head_with_alibi() -> Healthy:
    return language(OneKeyHead)


class Rotary(Attention):
    def turned(self, x: Tensor) -> Tensor:
        angle = torch.arange(x.shape[2])[:, None] / 10 ** torch.arange(4)
        cos, sin = angle.cos().repeat(1, 2), angle.sin().repeat(1, 2)
        first, second = x.chunk(2, -1)
        return x * cos + torch.cat([-second, first], -1) * sin

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return super().scores(self.turned(q), self.turned(k))


@model
def rotary() -> Healthy:
    return language(Rotary)


class Sliding(Attention):
    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        near = torch.ones(scores.shape[-2:]).triu(-2).bool()
        return super().weights(scores, near if mask is None else near & mask)


@model
def sliding_window() -> Healthy:
    return language(Sliding)


class Differential(Attention):
    """Two softmaxes, one less a part of the other: rows sum to less than one."""

    def __init__(self) -> None:
        super().__init__()
        self.q2, self.k2 = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.part = nn.Parameter(torch.tensor(0.3))

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor | None = None) -> Tensor:
        first, second = (
            super(Differential, self).weights(
                self.scores(self.heads(q(x)), self.heads(k(memory))), mask
            )
            for q, k in ((self.q, self.k), (self.q2, self.k2))
        )
        weights = first - self.part * second
        self.seen.append(weights.detach())
        v = self.heads(self.v(memory))
        y: Tensor = self.o((weights @ v).transpose(1, 2).flatten(2))
        return y


@model
def differential() -> Healthy:
    return language(Differential)


class FusedDifferential(Differential):
    """The same, as one softmax over twice as many heads."""

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor | None = None) -> Tensor:
        q = self.heads(torch.cat([self.q(x), self.q2(x)], -1))
        k = self.heads(torch.cat([self.k(memory), self.k2(memory)], -1))
        first, second = self.weights(self.scores(q, k), mask).chunk(2, 1)
        weights = first - self.part * second
        self.seen.append(weights.detach())
        v = self.heads(self.v(memory))
        y: Tensor = self.o((weights @ v).transpose(1, 2).flatten(2))
        return y


@model
def fused_differential() -> Healthy:
    return language(FusedDifferential)


class Sink(Attention):
    """A learned score beside those of the keys takes a part of each row."""

    def __init__(self) -> None:
        super().__init__()
        self.sink = nn.Parameter(torch.randn(HEADS, 1, 1))

    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        if mask is not None:
            scores = scores.masked_fill(~mask, INF)
        sink = self.sink.expand(len(scores), -1, scores.shape[2], -1)
        return torch.cat([scores, sink], -1).softmax(-1)[..., :-1]


@model
def sink_column() -> Healthy:
    return language(Sink)


@model
def nothing_written_at_first() -> Healthy:
    """Output projections begin at zero, so all heads do."""
    case = language(Attention)
    for part in case.model.modules():
        if isinstance(part, Attention):
            nn.init.zeros_(part.o.weight)
            nn.init.zeros_(part.o.bias)
    return case


class Tied(One):
    """Untrained, words and output are the same matrix: it predicts what it reads."""

    def __init__(self) -> None:
        super().__init__(causal=True)
        nn.init.normal_(self.places.weight, std=0.02)
        self.out.weight = self.words.weight
        nn.init.zeros_(self.out.bias)


@model
def tied_and_untrained() -> Healthy:
    made = ids(3, 8)
    return Healthy(Tied(), (made[:, :-1],), D2, options={"labels": made[:, 1:]})


class Repeated(One):
    """One layer, three times over, as in ALBERT."""

    def body(self, x: Tensor, mask: Tensor | None) -> Tensor:
        for _time in range(3):
            x = self.layers[0](x, mask)
        y: Tensor = self.norm(x)
        return y


@model
def one_layer_three_times() -> Healthy:
    return Healthy(Repeated(), (ids(),), "encoder " * 3)


class Future(Attention):
    """As in nanoGPT: the mask is a buffer of -inf, for at most ten tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.future: Tensor
        self.register_buffer("future", torch.full((10, 10), INF).triu(1))

    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        n = scores.shape[-1]
        return (scores + self.future[:n, :n]).softmax(-1)


@model
def mask_in_a_buffer() -> Healthy:
    return Healthy(One(Future), (ids(),), D2)


# --- one input ---
class Prefix(One):
    """The first three tokens read each other, the rest what is before them."""

    def mask(self, x: Tensor) -> Tensor:
        return lower(x.shape[1]) | (torch.arange(x.shape[1]) < 3)


@model
def prefix_language_model() -> Healthy:
    made = ids(3, 8)
    labels = made[:, 1:].clone()
    labels[:, :2] = -100
    kinds = "encoder|decoder|other " * 2
    return Healthy(Prefix(), (made[:, :-1],), kinds, options={"labels": labels})


class Padded(One):
    """``attention_mask`` says what is padding."""

    def __init__(self, fill: float = INF, *, causal: bool = False) -> None:
        super().__init__(lambda: Attention(fill=fill), causal=causal)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:  # type: ignore[override]
        mask = attention_mask.bool()[:, None, None]
        if self.causal:
            mask = mask & lower(input_ids.shape[1])
        at = (attention_mask.cumsum(1) - 1).clamp(min=0)
        x = self.words(input_ids) + self.places(at)
        y: Tensor = self.out(self.body(x, mask))
        return y


def _padded(side: str, pad: int, fill: float = -1e9, **more: Any) -> Healthy:
    words = ids(3, 7, side)
    mask = (words != 0).long()
    words[words == 0] = pad
    options = {"pad": pad}
    made = Padded(fill, **more)
    kinds = D2 if made.causal else E2
    return Healthy(made, (words,), kinds, {"attention_mask": mask}, options)


@model
def masked_language_model() -> Healthy:
    case = _padded("right", 0)
    labels = torch.full((3, 7), -100)
    labels[:, 2] = case.args[0][:, 2]
    return Healthy(case.model, case.args, E2, case.kwargs, {"pad": 0, "labels": labels})


@model
def tagger_whose_labels_are_its_tokens() -> Healthy:
    words = ids()
    return Healthy(One(), (words,), E2, options={"labels": words})


@model
def left_padding() -> Healthy:
    return _padded("left", 0, causal=True)


@model
def right_padding() -> Healthy:
    return _padded("right", 0, causal=True)


@model
def end_is_padding() -> Healthy:
    """As GPT-2 is used: it begins, ends and is padded with the same id."""
    case = _padded("right", 2, causal=True)
    case.args[0][:, 0] = 2
    return case


@model
def end_is_padding_and_there_is_none() -> Healthy:
    words = ids(3, 8)
    words[:, 0] = 2
    words[2, 4] = 2  # one text ends there, and the next begins
    return Healthy(One(causal=True), (words,), D2, options={"pad": 2})


def _nothing_to_read(fill: float) -> Healthy:
    """The last row of the batch is padding alone."""
    case = _padded("right", 0, fill)
    case.args[0][2] = 0
    case.kwargs["attention_mask"][2] = 0
    return case


@model
def filled_with_ten_thousand() -> Healthy:
    return _nothing_to_read(-1e4)


@model
def filled_with_a_billion() -> Healthy:
    return _nothing_to_read(-1e9)


@model
def filled_with_the_smallest_number() -> Healthy:
    return _nothing_to_read(torch.finfo(torch.float32).min)


class NothingIsZero(Attention):
    """Rows without keys are set to zero after the softmax over -inf."""

    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return super().weights(scores, mask).nan_to_num(0)


@model
def rows_without_keys_set_to_zero() -> Healthy:
    case = _nothing_to_read(INF)
    for layer in case.model.layers:  # type: ignore[union-attr]
        layer.attention.__class__ = NothingIsZero
    return case


@model
def no_dropout_in_training() -> Healthy:
    case = language(Attention)
    for part in case.model.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
    return replace(case, training=True)


class Recomputed(One):
    """Gradient checkpointing, while gradients are kept."""

    def body(self, x: Tensor, mask: Tensor | None) -> Tensor:
        for layer in self.layers:
            x = checkpoint(layer, x, mask, use_reentrant=False)
        y: Tensor = self.norm(x)
        return y

    def forward(self, x: Tensor) -> Tensor:
        with torch.enable_grad():
            return super().forward(x)


@model
def checkpointing() -> Healthy:
    return Healthy(Recomputed(causal=True), (ids(),), D2)


class Registers(One):
    """Four learned tokens stand before those of the sentence."""

    def __init__(self) -> None:
        super().__init__(causal=True)
        self.registers = nn.Parameter(torch.randn(4, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        y = torch.cat([self.registers.expand(len(x), -1, -1), self.embedded(x)], 1)
        out: Tensor = self.out(self.body(y, lower(y.shape[1]))[:, 4:])
        return out


@model
def learned_registers() -> Healthy:
    return Healthy(Registers(), (ids(),), "decoder|other " * 2)


class Hybrid(One):
    """The first layer is linear attention, which has no matrix."""

    def body(self, x: Tensor, mask: Tensor | None) -> Tensor:
        own: Any = self.layers[0].attention
        q, k, v = (own.heads(f(x)) for f in (own.q, own.k, own.v))
        q, k = F.elu(q) + 1, F.elu(k) + 1
        total = (q * k.sum(2, keepdim=True)).sum(-1, keepdim=True)
        x = x + own.o((q @ (k.mT @ v) / total).transpose(1, 2).flatten(2))
        y: Tensor = self.norm(self.layers[1](x, mask))
        return y


@model
def linear_attention_and_softmax() -> Healthy:
    missed = "without a softmax"
    return Healthy(Hybrid(), (ids(),), "encoder", missed=missed)


class Experts(One):
    """A softmax chooses among three networks."""

    def __init__(self) -> None:
        super().__init__(causal=True)
        self.router = nn.Linear(WIDTH, 3)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def body(self, x: Tensor, mask: Tensor | None) -> Tensor:
        x = super().body(x, mask)
        several = torch.stack([expert(x) for expert in self.experts], -2)
        return x + torch.einsum("bte,bted->btd", self.router(x).softmax(-1), several)


@model
def mixture_of_experts() -> Healthy:
    return Healthy(Experts(), (ids(),), D2)
