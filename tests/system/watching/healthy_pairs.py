"""Healthy models of several inputs, of pictures, and around ``torch.nn``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.system.watching.healthy_models import (
    D2,
    E2,
    INF,
    PADDED,
    S2S,
    VOCABULARY,
    WIDTH,
    Attention,
    Healthy,
    Layer,
    One,
    Two,
    ids,
    lower,
    one,
    two,
)


# --- a second input that is no target ---
class TokenType(One):
    """As BERT; ``test_sides`` gives the second input other names."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.Embedding(2, WIDTH)

    def forward(self, input_ids: Tensor, token_type: Tensor) -> Any:  # type: ignore[override]
        mask = (input_ids != 0)[:, None, None]
        x = self.embedded(input_ids) + self.parts(token_type)
        return self.out(self.body(x, mask))


class Remembering(One):
    """As Transformer-XL: keys of the segment before stand before its own."""

    def forward(self, input_ids: Tensor, mems: Tensor) -> Any:  # type: ignore[override]
        x = self.words(input_ids)
        for layer in self.layers:
            own: Any = layer.attention
            y = torch.cat([mems, x], 1)
            x = x + own(x, y, lower(x.shape[1], y.shape[1]))
        return self.out(x)


class Pair(nn.Module):
    """Two texts, one encoder: how alike all of one are to all of the other."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = One()

    def embed(self, x: Tensor) -> Tensor:
        own = self.encoder
        mask = (x != 0)[:, None, None]
        return F.normalize(own.body(own.embedded(x), mask).mean(1), dim=-1)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return self.embed(a) @ self.embed(b).T


class PairInTurn(Pair):
    """A number for each pair."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return (self.embed(a) * self.embed(b)).sum(-1)


class Picture(nn.Module):
    """Patches of 4 x 4, a token for the whole, and three registers."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, 4, 4)
        self.learned = nn.Parameter(torch.randn(1, 4, WIDTH))
        self.places = nn.Parameter(torch.randn(1, 9, WIDTH))
        self.layers = nn.ModuleList(Layer(Attention) for _ in range(2))

    def forward(self, pixel_values: Tensor) -> Tensor:
        x: Tensor = self.patches(pixel_values).flatten(2).mT + self.places
        x = torch.cat([self.learned.expand(len(x), -1, -1), x], 1)
        for layer in self.layers:
            x = layer(x)
        return x[:, 0]


def picture() -> Tensor:
    return torch.randn(2, 3, 12, 12)


class Towers(nn.Module):
    """As CLIP: all texts against all pictures."""

    def __init__(self) -> None:
        super().__init__()
        self.text, self.vision = One(causal=True), Picture()

    def forward(self, input_ids: Tensor, pixel_values: Tensor) -> Any:
        own = self.text
        text = own.body(own.embedded(input_ids), own.mask(input_ids))[:, -1]
        y: Tensor = self.vision(pixel_values)
        return text @ y.T


class Queries(nn.Module):
    """As DETR: learned queries read each other, and the picture."""

    def __init__(self) -> None:
        super().__init__()
        self.vision = Picture()
        self.queries = nn.Parameter(torch.randn(5, WIDTH))
        self.decoder = nn.ModuleList(Layer(Attention, cross=True) for _ in range(2))

    def forward(self, pixel_values: Tensor) -> Tensor:
        x = self.vision.patches(pixel_values).flatten(2).mT + self.vision.places
        for layer in self.vision.layers:
            x = layer(x)
        y = self.queries.expand(len(x), -1, -1)
        for layer in self.decoder:
            y = layer(y, None, x, None)
        return y


class Latents(nn.Module):
    """As a Perceiver: five learned latents read the input, then each other."""

    def __init__(self) -> None:
        super().__init__()
        self.latents = nn.Parameter(torch.randn(5, WIDTH))
        self.reads, self.layer = Attention(), Layer(Attention)
        self.out = nn.Linear(WIDTH, 3)

    def forward(self, x: Tensor) -> Any:
        y = self.latents.expand(len(x), -1, -1)
        y = self.layer(y + self.reads(y, x))
        return self.out(y.mean(1))


class SetPooling(nn.Module):
    """As a set transformer: learned seeds in ``nn.MultiheadAttention``."""

    def __init__(self) -> None:
        super().__init__()
        self.seeds = nn.Parameter(torch.randn(1, 2, WIDTH))
        self.body = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.pool = nn.MultiheadAttention(WIDTH, 4, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.body(x, x, x, need_weights=False)[0]
        seeds = self.seeds.expand(len(x), -1, -1)
        y: Tensor = self.pool(seeds, x, x, need_weights=False)[0]
        return y.flatten(1)


# --- around torch.nn ---
class Wrapped(nn.Module):
    """``nn.Transformer``; how its masks are given differs."""

    def __init__(self, masks: str) -> None:
        super().__init__()
        self.masks = masks
        self.source, self.target = nn.Embedding(20, WIDTH), nn.Embedding(20, WIDTH)
        self.body = nn.Transformer(WIDTH, 4, 1, 1, 48, batch_first=True)
        self.out = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, src: Tensor, tgt: Tensor) -> Any:
        n = tgt.shape[1]
        pads: dict[str, Any] = {
            "src_key_padding_mask": src == 0,
            "tgt_key_padding_mask": tgt == 0,
            "memory_key_padding_mask": src == 0,
        }
        future = ~lower(n)
        if self.masks != "bool":
            future = torch.zeros(n, n).masked_fill(future, INF)
            pads = {
                k: torch.zeros(x.shape).masked_fill(x, INF) for k, x in pads.items()
            }
        if self.masks == "is_causal":
            pads["tgt_is_causal"] = True
        y = self.body(self.source(src), self.target(tgt), tgt_mask=future, **pads)
        return self.out(y)


class PaddedEncoder(nn.Module):
    """In eval and without gradients torch takes its fast path."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(20, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 48, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2)
        self.out = nn.Linear(WIDTH, 5)

    def forward(self, x: Tensor) -> Any:
        y = self.body(self.words(x), src_key_padding_mask=x == 0)
        return self.out(y)


# --- source and target ---
class Luong(nn.Module):
    """Attention of recurrent layers: a state against states, without a scale."""

    def __init__(self, *, general: bool) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(20, WIDTH), nn.Embedding(20, WIDTH)
        self.encoder = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.decoder = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.between = nn.Linear(WIDTH, WIDTH) if general else nn.Identity()
        self.out = nn.Linear(2 * WIDTH, VOCABULARY)
        self.seen: list[Tensor] = []

    def forward(self, src: Tensor, tgt: Tensor) -> Any:
        memory, state = self.encoder(self.source(src))
        y, _state = self.decoder(self.target(tgt), state)
        scores = self.between(y) @ memory.mT
        weights = scores.masked_fill((src == 0)[:, None], -1e9).softmax(-1)
        self.seen.append(weights.detach()[:, None])
        return self.out(torch.cat([y, weights @ memory], -1))


class SequenceFirst(nn.Module):
    """Everything is [T, B, ...]."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Two()

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        y: Tensor = self.inner(src.T, tgt.T)
        return y.transpose(0, 1)


class Forecaster(nn.Module):
    """Numbers of the past, and what is known of the future."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.take = Two(), nn.Linear(3, WIDTH)
        self.out = nn.Linear(WIDTH, 1)

    def forward(self, past: Tensor, future: Tensor) -> Any:
        x, y = self.take(past), self.take(future)
        for layer in self.inner.encoder:
            x = layer(x)
        for layer in self.inner.decoder:
            y = layer(y, lower(y.shape[1]), x)
        return self.out(y)


class ShiftsItself(Two):
    """The target comes as the labels: it begins with 1 and loses its last."""

    def forward(self, src: Tensor, tgt: Tensor) -> Any:
        given = torch.cat([torch.ones_like(tgt[:, :1]), tgt[:, :-1]], 1)
        return super().forward(src, given)


class Reverses(Two):
    def encode(self, src: Tensor) -> Any:
        return super().encode(src.flip(1))

    def source_mask(self, src: Tensor) -> Tensor:
        return (src != 0)[:, None, None]

    def forward(self, src: Tensor, tgt: Tensor) -> Any:
        return self.decode(self.encode(src), src.flip(1), tgt)


class Sorts(Two):
    """The longest sentence comes first, and the order is restored."""

    def forward(self, src: Tensor, tgt: Tensor) -> Any:
        order = (src != 0).sum(1).argsort(stable=True)
        y = super().forward(src[order], tgt[order])
        return y[order.argsort()]


class TwoSources(Two):
    """A second encoder, and a second cross attention in every layer."""

    def __init__(self) -> None:
        super().__init__()
        self.second = One()
        self.crosses = nn.ModuleList([Attention()])

    def forward(self, src: Tensor, context: Tensor, tgt: Tensor) -> Any:  # type: ignore[override]
        memory = self.encode(src)
        other = self.second.body(self.second.embedded(context), None)
        y = self.embedded(self.target, tgt)
        for layer, cross in zip(self.decoder, self.crosses, strict=True):
            y = layer(y, self.target_mask(tgt), memory, self.source_mask(src))
            y = y + cross(y, other)
        return self.out(y)


class Pointer(Two):
    """What is returned is a softmax over the places of the source."""

    def decode(self, memory: Tensor, src: Tensor, tgt: Tensor) -> Tensor:
        y = self.embedded(self.target, tgt)
        for layer in self.decoder:
            y = layer(y, self.target_mask(tgt), memory, self.source_mask(src))
        scores: Tensor = y @ memory.mT / WIDTH**0.5
        return scores.masked_fill((src == 0)[:, None], INF).softmax(-1)


class Gate(Attention):
    """As Flamingo: what is read of the source begins with a gate of zero."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor | None = None) -> Any:
        y = super().forward(x, memory, mask)
        return y if x is memory else y * self.gate.tanh()


class Lengths(Two):
    """Told how long each sentence is, not what padding is."""

    def forward(self, src: Tensor, lengths: Tensor, tgt: Tensor) -> Any:  # type: ignore[override]
        mask = (torch.arange(src.shape[1]) < lengths[:, None])[:, None, None]
        x, y = self.embedded(self.source, src), self.embedded(self.target, tgt)
        for layer in self.encoder:
            x = layer(x, mask)
        for layer in self.decoder:
            y = layer(y, self.target_mask(tgt), x, mask)
        return self.out(y)


class ThreeInputs(nn.Module):
    """Queries, keys and values are given apart."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(WIDTH, 4, batch_first=True)

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Any:
        return self.inner(query, key, value)[0]


def in_bfloat16_with_large_scores() -> Healthy:
    made = Two()
    for part in made.modules():
        if isinstance(part, Attention):
            part.q.weight.data *= 4
            part.k.weight.data *= 4
    return two(made.bfloat16())


class Autocast(Two):
    def forward(self, src: Tensor, tgt: Tensor) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            return super().forward(src, tgt)


class BeginsWithPadding(Two):
    """The target begins with the id of padding, and only what is later is hidden."""

    def target_mask(self, tgt: Tensor) -> Tensor:
        return lower(tgt.shape[1])


def begins_with_padding() -> Healthy:
    case = two(BeginsWithPadding())
    case.args[1][:, 0] = 0
    return case


# --- sizes and outputs that are easily taken for others ---


class Flattened(Two):
    """Logits as a loss takes them, [B T, V]."""

    def forward(self, src: Tensor, tgt: Tensor) -> Any:
        return super().forward(src, tgt).flatten(0, 1)


class Banned(Two):
    """Some tokens are never to be returned."""

    def forward(self, src: Tensor, tgt: Tensor) -> Any:
        never = torch.arange(VOCABULARY) < 2
        return super().forward(src, tgt).masked_fill(never, INF)


class LossFirst(One):
    """As with labels in transformers: the loss, and then the logits."""

    def forward(self, input_ids: Tensor, labels: Tensor) -> Any:  # type: ignore[override]
        y = super().forward(input_ids)
        loss = F.cross_entropy(y[:, :-1].transpose(1, 2), labels[:, 1:])
        return loss, y


class Classes(One):
    """Seven classes, said at the last of seven tokens."""

    def __init__(self) -> None:
        super().__init__(causal=True)
        self.out = nn.Linear(WIDTH, 7)

    def forward(self, x: Tensor) -> Any:
        return super().forward(x)[:, -1]


PAIRS: dict[str, Callable[[], Healthy]] = {
    "token_type": lambda: Healthy(
        TokenType(),
        (ids(3, 7, "right"), (torch.arange(7) > 3).long().expand(3, -1)),
        E2,
        options=PADDED,
    ),
    "memory_of_the_segment_before": lambda: Healthy(
        Remembering(),
        (ids(), torch.randn(3, 5, WIDTH)),
        "decoder|other|merged|cross " * 2,
    ),
    "bi_encoder": lambda: Healthy(
        Pair(), (ids(), ids(3, 5)), "encoder|other " * 4, options=PADDED
    ),
    "bi_encoder_of_equal_lengths": lambda: Healthy(
        Pair(), (ids(), ids()), "encoder|other " * 4
    ),
    "bi_encoder_of_pairs": lambda: Healthy(
        PairInTurn(), (ids(), ids(3, 5)), "encoder|other " * 4
    ),
    "vision_with_registers": lambda: Healthy(Picture(), (picture(),), E2),
    "two_towers": lambda: Healthy(
        Towers(), (ids(2, 6), picture()), "decoder|other " * 2 + "encoder|other " * 2
    ),
    "object_queries": lambda: Healthy(
        Queries(), (picture(),), E2 + "decoder|encoder|other cross|other " * 2
    ),
    "perceiver": lambda: Healthy(
        Latents(),
        (torch.randn(3, 7, WIDTH),),
        "cross|encoder|other encoder|decoder|other",
    ),
    "set_transformer": lambda: Healthy(
        SetPooling(), (torch.randn(3, 9, WIDTH),), "encoder cross|encoder|other"
    ),
    "transformer_with_masks_of_numbers": lambda: two(Wrapped("float")),
    "transformer_with_masks_of_truths": lambda: two(Wrapped("bool")),
    "transformer_that_is_causal": lambda: two(Wrapped("is_causal")),
    "encoder_with_padding": lambda: Healthy(
        PaddedEncoder(), (ids(3, 7, "right"),), E2, options=PADDED
    ),
    "encoder_whose_padding_is_not_told": lambda: Healthy(
        PaddedEncoder(), (ids(3, 7, "right"),), E2
    ),
    "luong_dot": lambda: replace(
        two(Luong(general=False), ids(3, 7, "right"), ids(3, 6)),
        kinds="cross",
        missed="mixes positions",
    ),
    "luong_general": lambda: replace(
        two(Luong(general=True), ids(3, 7, "right"), ids(3, 6)),
        kinds="cross",
        missed="mixes positions",
    ),
    "sequence_first": lambda: two(
        SequenceFirst(), ids(3, 7, "right").T.contiguous(), ids(3, 6).T.contiguous()
    ),
    "forecaster": lambda: Healthy(
        Forecaster(), (torch.randn(3, 9, 3), torch.randn(3, 4, 3)), S2S
    ),
    "copy_task": lambda: two(Two(), x := ids(), x),
    "autoencoder": lambda: Healthy(
        Two(), (x := ids(), x[:, :-1]), S2S, options={"labels": x[:, 1:]}
    ),
    "chunked": lambda: Healthy(Two(), ids(3, 14).chunk(2, 1), S2S),
    "pair_in_one_tensor": lambda: Healthy(
        Two(), torch.stack([ids(), ids()]).unbind(), S2S
    ),
    "target_shifted_inside": lambda: replace(
        case := two(ShiftsItself()), options={"pad": 0, "labels": case.args[1]}
    ),
    "source_reversed_inside": lambda: two(Reverses()),
    "batch_sorted_inside": lambda: two(Sorts()),
    "two_encoders": lambda: Healthy(
        TwoSources(),
        (ids(), ids(3, 5), ids(3, 6)),
        "encoder " + "encoder|other " * 2 + "decoder cross cross|other",
    ),
    "pointer_network": lambda: two(Pointer()),
    "in_bfloat16": lambda: two(Two().bfloat16()),
    "gate_that_is_zero_at_first": lambda: two(Two(Gate)),
    "told_its_lengths": lambda: two(
        Lengths(), ids(3, 7, "right"), torch.tensor([7, 5, 7]), ids(3, 6)
    ),
    "queries_keys_and_values": lambda: Healthy(
        ThreeInputs(), tuple(torch.randn(3, n, WIDTH) for n in (5, 7, 7)), "cross|other"
    ),
    "in_bfloat16_with_large_scores": in_bfloat16_with_large_scores,
    "autocast": lambda: two(Autocast()),
    "begins_with_padding": begins_with_padding,
    "as_many_rows_as_tokens": lambda: two(Two(), ids(7, 7), ids(7, 6)),
    "one_sentence": lambda: two(Two(), ids(1, 7), ids(1, 6)),
    "first_token_alone": lambda: two(Two(), ids(3, 7), torch.ones(3, 1).long()),
    "rows_all_alike": lambda: two(
        Two(), ids(1, 7).expand(3, -1), ids(1, 6).expand(3, -1)
    ),
    "logits_in_one_row": lambda: two(Flattened()),
    "banned_tokens": lambda: two(Banned()),
    "loss_before_the_logits": lambda: Healthy(
        LossFirst(causal=True), (x := ids(),), D2, {"labels": x}
    ),
    "as_many_classes_as_tokens": lambda: one(Classes(), D2),
}
