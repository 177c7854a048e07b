"""Healthy models of several inputs, of pictures, and around ``torch.nn``."""

from __future__ import annotations

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
    model,
    two,
)


# --- a second input that is no target ---
class Bert(One):
    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.Embedding(2, WIDTH)

    def with_parts(self, x: Tensor, parts: Tensor) -> Tensor:
        mask = (x != 0)[:, None, None]
        y: Tensor = self.out(self.body(self.embedded(x) + self.parts(parts), mask))
        return y


class SegmentIds(Bert):
    def forward(self, input_ids: Tensor, segment_ids: Tensor) -> Tensor:  # type: ignore[override]
        return self.with_parts(input_ids, segment_ids)


class Segments(Bert):
    def forward(self, x: Tensor, segments: Tensor) -> Tensor:  # type: ignore[override]
        return self.with_parts(x, segments)


class Seg(Bert):
    def forward(self, x: Tensor, seg: Tensor) -> Tensor:  # type: ignore[override]
        return self.with_parts(x, seg)


class TokenType(Bert):
    def forward(self, input_ids: Tensor, token_type: Tensor) -> Tensor:  # type: ignore[override]
        return self.with_parts(input_ids, token_type)


def _bert(made: nn.Module) -> Healthy:
    words = ids(3, 7, "right")
    parts = (torch.arange(7) > 3).long().expand(3, -1)
    return Healthy(made, (words, parts), E2, options=PADDED)


@model
def segment_ids() -> Healthy:
    return _bert(SegmentIds())


@model
def segments() -> Healthy:
    return _bert(Segments())


@model
def seg() -> Healthy:
    return _bert(Seg())


@model
def token_type() -> Healthy:
    return _bert(TokenType())


class Remembering(One):
    """As Transformer-XL: keys of the segment before stand before its own."""

    def forward(self, input_ids: Tensor, mems: Tensor) -> Tensor:  # type: ignore[override]
        x = self.words(input_ids)
        for layer in self.layers:
            own: Any = layer.attention
            y = torch.cat([mems, x], 1)
            x = x + own(x, y, lower(x.shape[1], y.shape[1]))
        out: Tensor = self.out(x)
        return out


@model
def memory_of_the_segment_before() -> Healthy:
    kinds = "decoder|other|merged|cross " * 2
    return Healthy(Remembering(), (ids(), torch.randn(3, 5, WIDTH)), kinds)


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


@model
def bi_encoder() -> Healthy:
    return Healthy(Pair(), (ids(), ids(3, 5)), "encoder|other " * 4, options=PADDED)


@model
def bi_encoder_of_equal_lengths() -> Healthy:
    return Healthy(Pair(), (ids(), ids()), "encoder|other " * 4)


class PairInTurn(Pair):
    """A number for each pair."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return (self.embed(a) * self.embed(b)).sum(-1)


@model
def bi_encoder_of_pairs() -> Healthy:
    return Healthy(PairInTurn(), (ids(), ids(3, 5)), "encoder|other " * 4)


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


@model
def vision_with_registers() -> Healthy:
    return Healthy(Picture(), (torch.randn(2, 3, 12, 12),), E2)


class Towers(nn.Module):
    """As CLIP: all texts against all pictures."""

    def __init__(self) -> None:
        super().__init__()
        self.text, self.vision = One(causal=True), Picture()

    def forward(self, input_ids: Tensor, pixel_values: Tensor) -> Tensor:
        own = self.text
        text = own.body(own.embedded(input_ids), own.mask(input_ids))[:, -1]
        y: Tensor = self.vision(pixel_values)
        return text @ y.T


@model
def two_towers() -> Healthy:
    args = ids(2, 6), torch.randn(2, 3, 12, 12)
    return Healthy(Towers(), args, "decoder|other " * 2 + "encoder|other " * 2)


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


@model
def object_queries() -> Healthy:
    kinds = E2 + "decoder|encoder|other cross|other " * 2
    return Healthy(Queries(), (torch.randn(2, 3, 12, 12),), kinds)


class Latents(nn.Module):
    """As a Perceiver: five learned latents read the input, then each other."""

    def __init__(self) -> None:
        super().__init__()
        self.latents = nn.Parameter(torch.randn(5, WIDTH))
        self.reads, self.layer = Attention(), Layer(Attention)
        self.out = nn.Linear(WIDTH, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.latents.expand(len(x), -1, -1)
        y = self.layer(y + self.reads(y, x))
        out: Tensor = self.out(y.mean(1))
        return out


@model
def perceiver() -> Healthy:
    kinds = "cross|encoder|other encoder|decoder|other"
    return Healthy(Latents(), (torch.randn(3, 7, WIDTH),), kinds)


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


@model
def set_transformer() -> Healthy:
    args = (torch.randn(3, 9, WIDTH),)
    return Healthy(SetPooling(), args, "encoder cross|encoder|other")


# --- around torch.nn ---
class Wrapped(nn.Module):
    """``nn.Transformer``; how its masks are given differs."""

    def __init__(self, masks: str) -> None:
        super().__init__()
        self.masks = masks
        self.source, self.target = nn.Embedding(20, WIDTH), nn.Embedding(20, WIDTH)
        self.body = nn.Transformer(WIDTH, 4, 1, 1, 48, batch_first=True)
        self.out = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
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
        out: Tensor = self.out(y)
        return out


@model
def transformer_with_masks_of_numbers() -> Healthy:
    return two(Wrapped("float"))


@model
def transformer_with_masks_of_truths() -> Healthy:
    return two(Wrapped("bool"))


@model
def transformer_that_is_causal() -> Healthy:
    return two(Wrapped("is_causal"))


class PaddedEncoder(nn.Module):
    """In eval and without gradients torch takes its fast path."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(20, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 48, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2)
        self.out = nn.Linear(WIDTH, 5)

    def forward(self, x: Tensor) -> Tensor:
        y = self.body(self.words(x), src_key_padding_mask=x == 0)
        out: Tensor = self.out(y)
        return out


@model
def encoder_with_padding() -> Healthy:
    return Healthy(PaddedEncoder(), (ids(3, 7, "right"),), E2, options=PADDED)


@model
def encoder_whose_padding_is_not_told() -> Healthy:
    return Healthy(PaddedEncoder(), (ids(3, 7, "right"),), E2)


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

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        memory, state = self.encoder(self.source(src))
        y, _state = self.decoder(self.target(tgt), state)
        scores = self.between(y) @ memory.mT
        weights = scores.masked_fill((src == 0)[:, None], -1e9).softmax(-1)
        self.seen.append(weights.detach()[:, None])
        out: Tensor = self.out(torch.cat([y, weights @ memory], -1))
        return out


def _luong(*, general: bool) -> Healthy:
    args = ids(3, 7, "right"), ids(3, 6)
    missed = "mixes positions"
    return Healthy(Luong(general=general), args, "cross", options=PADDED, missed=missed)


@model
def luong_dot() -> Healthy:
    return _luong(general=False)


@model
def luong_general() -> Healthy:
    return _luong(general=True)


class SequenceFirst(nn.Module):
    """Everything is [T, B, ...]."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Two()

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        y: Tensor = self.inner(src.T, tgt.T)
        return y.transpose(0, 1)


@model
def sequence_first() -> Healthy:
    args = ids(3, 7, "right").T.contiguous(), ids(3, 6).T.contiguous()
    return Healthy(SequenceFirst(), args, S2S, options=PADDED)


class Forecaster(nn.Module):
    """Numbers of the past, and what is known of the future."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.take = Two(), nn.Linear(3, WIDTH)
        self.out = nn.Linear(WIDTH, 1)

    def forward(self, past: Tensor, future: Tensor) -> Tensor:
        x, y = self.take(past), self.take(future)
        for layer in self.inner.encoder:
            x = layer(x)
        for layer in self.inner.decoder:
            y = layer(y, lower(y.shape[1]), x)
        out: Tensor = self.out(y)
        return out


@model
def forecaster() -> Healthy:
    return Healthy(Forecaster(), (torch.randn(3, 9, 3), torch.randn(3, 4, 3)), S2S)


@model
def copy_task() -> Healthy:
    x = ids()
    return Healthy(Two(), (x, x), S2S, options=PADDED)


@model
def autoencoder() -> Healthy:
    x = ids()
    return Healthy(Two(), (x, x[:, :-1]), S2S, options={"labels": x[:, 1:]})


@model
def chunked() -> Healthy:
    return Healthy(Two(), ids(3, 14).chunk(2, 1), S2S)


@model
def pair_in_one_tensor() -> Healthy:
    xy = torch.stack([ids(), ids()])
    return Healthy(Two(), (xy[0], xy[1]), S2S)


class ShiftsItself(Two):
    """The target comes as the labels: it begins with 1 and loses its last."""

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        given = torch.cat([torch.ones_like(tgt[:, :1]), tgt[:, :-1]], 1)
        return super().forward(src, given)


@model
def target_shifted_inside() -> Healthy:
    src, tgt = ids(3, 7, "right"), ids(3, 6, "right")
    options = {"pad": 0, "labels": tgt}
    return Healthy(ShiftsItself(), (src, tgt), S2S, options=options)


class Reverses(Two):
    def encode(self, src: Tensor) -> Tensor:
        return super().encode(src.flip(1))

    def source_mask(self, src: Tensor) -> Tensor:
        return (src != 0)[:, None, None]

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        return self.decode(self.encode(src), src.flip(1), tgt)


@model
def source_reversed_inside() -> Healthy:
    return two(Reverses())


class Sorts(Two):
    """The longest sentence comes first, and the order is restored."""

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        order = (src != 0).sum(1).argsort(stable=True)
        y = super().forward(src[order], tgt[order])
        return y[order.argsort()]


@model
def batch_sorted_inside() -> Healthy:
    return two(Sorts())


class TwoSources(Two):
    """A second encoder, and a second cross attention in every layer."""

    def __init__(self) -> None:
        super().__init__()
        self.second = One()
        self.crosses = nn.ModuleList([Attention()])

    def forward(self, src: Tensor, context: Tensor, tgt: Tensor) -> Tensor:  # type: ignore[override]
        memory = self.encode(src)
        other = self.second.body(self.second.embedded(context), None)
        y = self.embedded(self.target, tgt)
        for layer, cross in zip(self.decoder, self.crosses, strict=True):
            y = layer(y, self.target_mask(tgt), memory, self.source_mask(src))
            y = y + cross(y, other)
        out: Tensor = self.out(y)
        return out


@model
def two_encoders() -> Healthy:
    kinds = "encoder " + "encoder|other " * 2 + "decoder cross cross|other"
    return Healthy(TwoSources(), (ids(), ids(3, 5), ids(3, 6)), kinds)


class Pointer(Two):
    """What is returned is a softmax over the places of the source."""

    def decode(self, memory: Tensor, src: Tensor, tgt: Tensor) -> Tensor:
        y = self.embedded(self.target, tgt)
        for layer in self.decoder:
            y = layer(y, self.target_mask(tgt), memory, self.source_mask(src))
        scores: Tensor = y @ memory.mT / WIDTH**0.5
        return scores.masked_fill((src == 0)[:, None], INF).softmax(-1)


@model
def pointer_network() -> Healthy:
    return two(Pointer())


@model
def in_bfloat16() -> Healthy:
    return two(Two().bfloat16())


class Gate(Attention):
    """As Flamingo: what is read of the source begins with a gate of zero."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor | None = None) -> Tensor:
        y = super().forward(x, memory, mask)
        return y if x is memory else y * self.gate.tanh()


@model
def gate_that_is_zero_at_first() -> Healthy:
    return two(Two(Gate))


class Lengths(Two):
    """Told how long each sentence is, not what padding is."""

    def forward(self, src: Tensor, lengths: Tensor, tgt: Tensor) -> Tensor:  # type: ignore[override]
        mask = (torch.arange(src.shape[1]) < lengths[:, None])[:, None, None]
        x, y = self.embedded(self.source, src), self.embedded(self.target, tgt)
        for layer in self.encoder:
            x = layer(x, mask)
        for layer in self.decoder:
            y = layer(y, self.target_mask(tgt), x, mask)
        out: Tensor = self.out(y)
        return out


@model
def told_its_lengths() -> Healthy:
    args = ids(3, 7, "right"), torch.tensor([7, 5, 7]), ids(3, 6)
    return Healthy(Lengths(), args, S2S, options=PADDED)


class ThreeInputs(nn.Module):
    """Queries, keys and values are given apart."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(WIDTH, 4, batch_first=True)

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        y: Tensor = self.inner(query, key, value)[0]
        return y


@model
def queries_keys_and_values() -> Healthy:
    args = torch.randn(3, 5, WIDTH), torch.randn(3, 7, WIDTH), torch.randn(3, 7, WIDTH)
    return Healthy(ThreeInputs(), args, "cross|other")


@model
def in_bfloat16_with_large_scores() -> Healthy:
    made = Two()
    for part in made.modules():
        if isinstance(part, Attention):
            part.q.weight.data *= 4
            part.k.weight.data *= 4
    return two(made.bfloat16())


class Autocast(Two):
    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return super().forward(src, tgt)


@model
def autocast() -> Healthy:
    return two(Autocast())


class BeginsWithPadding(Two):
    """The target begins with the id of padding, and only what is later is hidden."""

    def target_mask(self, tgt: Tensor) -> Tensor:
        return lower(tgt.shape[1])


@model
def begins_with_padding() -> Healthy:
    case = two(BeginsWithPadding())
    case.args[1][:, 0] = 0
    return case


# --- sizes and outputs that are easily taken for others ---
@model
def as_many_rows_as_tokens() -> Healthy:
    return Healthy(Two(), (ids(7, 7), ids(7, 6)), S2S, options=PADDED)


@model
def one_sentence() -> Healthy:
    return Healthy(Two(), (ids(1, 7), ids(1, 6)), S2S, options=PADDED)


@model
def first_token_alone() -> Healthy:
    return Healthy(Two(), (ids(3, 7), torch.ones(3, 1).long()), S2S, options=PADDED)


@model
def rows_all_alike() -> Healthy:
    args = ids(1, 7).expand(3, -1), ids(1, 6).expand(3, -1)
    return Healthy(Two(), args, S2S, options=PADDED)


class Flattened(Two):
    """Logits as a loss takes them, [B T, V]."""

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        return super().forward(src, tgt).flatten(0, 1)


@model
def logits_in_one_row() -> Healthy:
    return two(Flattened())


class Banned(Two):
    """Some tokens are never to be returned."""

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        never = torch.arange(VOCABULARY) < 2
        return super().forward(src, tgt).masked_fill(never, INF)


@model
def banned_tokens() -> Healthy:
    return two(Banned())


class LossFirst(One):
    """As with labels in transformers: the loss, and then the logits."""

    def forward(self, input_ids: Tensor, labels: Tensor) -> Any:  # type: ignore[override]
        y = super().forward(input_ids)
        loss = F.cross_entropy(y[:, :-1].transpose(1, 2), labels[:, 1:])
        return loss, y


@model
def loss_before_the_logits() -> Healthy:
    x = ids()
    return Healthy(LossFirst(causal=True), (x,), D2, {"labels": x})


class Classes(One):
    """Seven classes, said at the last of seven tokens."""

    def __init__(self) -> None:
        super().__init__(causal=True)
        self.out = nn.Linear(WIDTH, 7)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x)[:, -1]


@model
def as_many_classes_as_tokens() -> Healthy:
    return Healthy(Classes(), (ids(),), D2)
