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
INF, SMALLEST = float("-inf"), torch.finfo(torch.float32).min


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

    def scores(self, q: Tensor, k: Tensor) -> Any:
        return q @ k.mT / SIZE**0.5

    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        if mask is not None:
            scores = scores.masked_fill(~mask, self.fill)
        return scores.softmax(-1)

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor | None = None) -> Any:
        q, k, v = self.heads(self.q(x)), self.heads(self.k(memory)), self.v(memory)
        weights = self.weights(self.scores(q, k), mask)
        self.seen.append(weights.detach())
        return self.o((weights @ self.heads(v)).transpose(1, 2).flatten(2))


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

    def embedded(self, x: Tensor) -> Any:
        return self.words(x) + self.places(torch.arange(x.shape[1]))

    def mask(self, x: Tensor) -> Tensor | None:
        return lower(x.shape[1]) if self.causal else None

    def body(self, x: Tensor, mask: Tensor | None) -> Any:
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)

    def forward(self, x: Tensor) -> Any:
        return self.out(self.body(self.embedded(x), self.mask(x)))


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

    def embedded(self, table: nn.Embedding, x: Tensor) -> Any:
        return table(x) + self.places(torch.arange(x.shape[1]))

    def source_mask(self, src: Tensor) -> Tensor:
        return (src != 0)[:, None, None]

    def target_mask(self, tgt: Tensor) -> Tensor:
        return (tgt != 0)[:, None, None] & lower(tgt.shape[1])

    def encode(self, src: Tensor) -> Any:
        x = self.embedded(self.source, src)
        for layer in self.encoder:
            x = layer(x, self.source_mask(src))
        return x

    def decode(self, memory: Tensor, src: Tensor, tgt: Tensor) -> Any:
        x = self.embedded(self.target, tgt)
        for layer in self.decoder:
            x = layer(x, self.target_mask(tgt), memory, self.source_mask(src))
        return self.out(x)

    def forward(self, src: Tensor, tgt: Tensor) -> Any:
        return self.decode(self.encode(src), src, tgt)


E2, D2, S2S = "encoder " * 2, "decoder " * 2, "encoder decoder cross"
PADDED: dict[str, Any] = {"pad": 0}


def two(made: nn.Module, *given: Tensor) -> Healthy:
    args = given or (ids(3, 7, "right"), ids(3, 6, "right"))
    return Healthy(made, args, S2S, options=PADDED)


def one(made: nn.Module, kinds: str = E2, **more: Any) -> Healthy:
    return Healthy(made, (ids(),), kinds, **more)


def language(attention: Any, kinds: str = D2) -> Healthy:
    return labelled(lambda: One(attention, causal=True), kinds)


def labelled(build: Callable[[], nn.Module], kinds: str = D2) -> Healthy:
    """Return a model that is given the next tokens as labels."""
    made = ids(3, 8)
    return Healthy(build(), (made[:, :-1],), kinds, options={"labels": made[:, 1:]})


# --- the attention ---


class Cosine(Attention):
    """As in Swin 2: a learned temperature for each head."""

    def __init__(self) -> None:
        super().__init__()
        self.heat = nn.Parameter(torch.rand(HEADS, 1, 1) + 1)

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        scores: Tensor = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT
        return scores * self.heat.exp()


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


class RootOnBothSides(Attention):
    """As in Whisper: queries and keys are each divided by the root of the root."""

    def scores(self, q: Tensor, k: Tensor) -> Any:
        return (q * SIZE**-0.25) @ (k * SIZE**-0.25).mT


class KeyAtTheEnd(Attention):
    """A learned key stands after those of the text, and all may read it."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Parameter(torch.randn(1, 1, WIDTH))

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor | None = None) -> Any:
        memory = torch.cat([memory, self.last.expand(len(x), -1, -1)], 1)
        return super().forward(
            x, memory, None if mask is None else F.pad(mask, (0, 1), value=True)
        )


class Differential(Attention):
    """Two softmaxes, one less a part of the other: rows sum to less than one."""

    def __init__(self) -> None:
        super().__init__()
        self.q2, self.k2 = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.part = nn.Parameter(torch.tensor(0.3))

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor | None = None) -> Any:
        first, second = (
            super(Differential, self).weights(
                self.scores(self.heads(q(x)), self.heads(k(memory))), mask
            )
            for q, k in ((self.q, self.k), (self.q2, self.k2))
        )
        weights = first - self.part * second
        self.seen.append(weights.detach())
        v = self.heads(self.v(memory))
        return self.o((weights @ v).transpose(1, 2).flatten(2))


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


class Future(Attention):
    """As in nanoGPT: the mask is a buffer of -inf, for at most ten tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.future: Tensor
        self.register_buffer("future", torch.full((10, 10), INF).triu(1))

    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        n = scores.shape[-1]
        return (scores + self.future[:n, :n]).softmax(-1)


# --- one input ---
class Prefix(One):
    """The first three tokens read each other, the rest what is before them."""

    def mask(self, x: Tensor) -> Tensor:
        return lower(x.shape[1]) | (torch.arange(x.shape[1]) < 3)


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

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Any:  # type: ignore[override]
        mask = attention_mask.bool()[:, None, None]
        if self.causal:
            mask = mask & lower(input_ids.shape[1])
        at = (attention_mask.cumsum(1) - 1).clamp(min=0)
        x = self.words(input_ids) + self.places(at)
        return self.out(self.body(x, mask))


def _padded(side: str, pad: int, fill: float = -1e9, **more: Any) -> Healthy:
    words = ids(3, 7, side)
    mask = (words != 0).long()
    words[words == 0] = pad
    options = {"pad": pad}
    made = Padded(fill, **more)
    kinds = D2 if made.causal else E2
    return Healthy(made, (words,), kinds, {"attention_mask": mask}, options)


def masked_language_model() -> Healthy:
    case = _padded("right", 0)
    labels = torch.full((3, 7), -100)
    labels[:, 2] = case.args[0][:, 2]
    return Healthy(case.model, case.args, E2, case.kwargs, {"pad": 0, "labels": labels})


def end_is_padding() -> Healthy:
    """As GPT-2 is used: it begins, ends and is padded with the same id."""
    case = _padded("right", 2, causal=True)
    case.args[0][:, 0] = 2
    return case


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


class NothingIsZero(Attention):
    """Rows without keys are set to zero after the softmax over -inf."""

    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return super().weights(scores, mask).nan_to_num(0)


def rows_without_keys_set_to_zero() -> Healthy:
    case = _nothing_to_read(INF)
    for layer in case.model.layers:  # type: ignore[union-attr]
        layer.attention.__class__ = NothingIsZero
    return case


def no_dropout_in_training() -> Healthy:
    case = language(Attention)
    for part in case.model.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
    return replace(case, training=True)


class Recomputed(One):
    """Gradient checkpointing, while gradients are kept."""

    def body(self, x: Tensor, mask: Tensor | None) -> Any:
        for layer in self.layers:
            x = checkpoint(layer, x, mask, use_reentrant=False)
        return self.norm(x)

    def forward(self, x: Tensor) -> Any:
        with torch.enable_grad():
            return super().forward(x)


class Registers(One):
    """Four learned tokens stand before those of the sentence."""

    def __init__(self) -> None:
        super().__init__(causal=True)
        self.registers = nn.Parameter(torch.randn(4, WIDTH))

    def forward(self, x: Tensor) -> Any:
        y = torch.cat([self.registers.expand(len(x), -1, -1), self.embedded(x)], 1)
        return self.out(self.body(y, lower(y.shape[1]))[:, 4:])


class Hybrid(One):
    """The first layer is linear attention, which has no matrix."""

    def body(self, x: Tensor, mask: Tensor | None) -> Any:
        own: Any = self.layers[0].attention
        q, k, v = (own.heads(f(x)) for f in (own.q, own.k, own.v))
        q, k = F.elu(q) + 1, F.elu(k) + 1
        total = (q * k.sum(2, keepdim=True)).sum(-1, keepdim=True)
        x = x + own.o((q @ (k.mT @ v) / total).transpose(1, 2).flatten(2))
        return self.norm(self.layers[1](x, mask))


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


MODELS: dict[str, Callable[[], Healthy]] = {
    "pre_norm": lambda: two(Two()),
    "post_norm": lambda: two(Two(post=True)),
    "cosine_with_temperature": lambda: one(One(Cosine)),
    "relative_bias_of_t5": lambda: language(RelativeBias),
    "translator_of_t5": lambda: two(Two(RelativeBias)),
    "root_on_both_sides": lambda: language(RootOnBothSides),
    "learned_key_at_the_end": lambda: language(
        KeyAtTheEnd, "decoder|other|merged " * 2
    ),
    "differential": lambda: language(Differential),
    "nothing_written_at_first": nothing_written_at_first,
    "tied_and_untrained": lambda: labelled(Tied),
    "mask_in_a_buffer": lambda: one(One(Future), D2),
    "prefix_language_model": prefix_language_model,
    "masked_language_model": masked_language_model,
    "tagger_whose_labels_are_its_tokens": lambda: replace(
        case := one(One()), options={"labels": case.args[0]}
    ),
    "left_padding": lambda: _padded("left", 0, causal=True),
    "right_padding": lambda: _padded("right", 0, causal=True),
    "end_is_padding": end_is_padding,
    "end_is_padding_and_there_is_none": end_is_padding_and_there_is_none,
    "filled_with_ten_thousand": lambda: _nothing_to_read(-1e4),
    "filled_with_a_billion": lambda: _nothing_to_read(-1e9),
    "filled_with_the_smallest_number": lambda: _nothing_to_read(SMALLEST),
    "rows_without_keys_set_to_zero": rows_without_keys_set_to_zero,
    "no_dropout_in_training": no_dropout_in_training,
    "checkpointing": lambda: one(Recomputed(causal=True), D2),
    "learned_registers": lambda: one(Registers(), "decoder|other " * 2),
    "linear_attention_and_softmax": lambda: one(
        Hybrid(), "encoder", missed="without a softmax"
    ),
    "mixture_of_experts": lambda: one(Experts(), D2, missed="a softmax over 3 choices"),
}
