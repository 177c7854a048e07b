"""Three of the tutorials' models, written anew from what their texts describe.

Every attention keeps the weights that it used as ``seen``, [B, H, Q, K].
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

TRUE = torch.bool


def sines(length: int, width: int) -> Tensor:
    """Return the sinusoidal table [length, width]."""
    at = torch.arange(length, dtype=torch.float32)[:, None]
    rate = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
    table = torch.empty(length, width)
    table[:, 0::2], table[:, 1::2] = torch.sin(at * rate), torch.cos(at * rate)
    return table


class Positions(nn.Module):
    def __init__(self, width: int, length: int = 200) -> None:
        super().__init__()
        self.register_buffer("pe", sines(length, width)[None])
        self.pe: Tensor

    def forward(self, x: Tensor) -> Tensor:
        return x + self.pe[:, : x.size(1)]


class HandoutAttention(nn.Module):
    """Heads split by view and permute; masked scores replaced by -1e9; dropout."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.h, self.d_k = heads, width // heads
        self.W_q, self.W_k, self.W_v, self.W_o = (
            nn.Linear(width, width) for _ in range(4)
        )
        self.dropout = nn.Dropout(dropout)
        self.seen = torch.empty(0)

    def split_head(self, x: Tensor) -> Tensor:
        return x.view(x.size(0), -1, self.h, self.d_k).permute(0, 2, 1, 3)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        q, k, v = (
            self.split_head(linear(x))
            for linear, x in ((self.W_q, q), (self.W_k, k), (self.W_v, v))
        )
        score = q @ k.transpose(-2, -1) / math.sqrt(self.d_k)
        if mask is not None:
            score = score.masked_fill(mask == 0, -1e9)
        weight = self.dropout(torch.softmax(score, -1))
        self.seen = weight.detach()
        mixed = (weight @ v).permute(0, 2, 1, 3)
        return self.W_o(mixed.reshape(len(mixed), -1, self.h * self.d_k))  # type: ignore[no-any-return]


class HandoutFeed(nn.Module):
    def __init__(self, width: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.linear1, self.linear2 = nn.Linear(width, inner), nn.Linear(inner, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.linear1(x).relu()))  # type: ignore[no-any-return]


class HandoutLayer(nn.Module):
    """Encoder layer, or decoder layer with ``cross``; norms come after."""

    def __init__(
        self, width: int, heads: int, inner: int, dropout: float, *, cross: bool
    ) -> None:
        super().__init__()
        self.self_att = HandoutAttention(width, heads, dropout)
        self.cross_att = HandoutAttention(width, heads, dropout) if cross else None
        self.ffn = HandoutFeed(width, inner, dropout)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(width) for _ in range(3))
        self.drop = nn.Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None,
        memory: Tensor | None = None,
        memory_mask: Tensor | None = None,
    ) -> Tensor:
        x = self.norm1(x + self.drop(self.self_att(x, x, x, mask)))
        if self.cross_att is not None:
            read = self.cross_att(x, memory, memory, memory_mask)
            x = self.norm2(x + self.drop(read))
        return self.norm3(x + self.drop(self.ffn(x)))  # type: ignore[no-any-return]


class Handout(nn.Module):
    """Masks come from outside; the result is a distribution."""

    def __init__(
        self, vocabulary: int = 24, width: int = 16, heads: int = 4, layers: int = 2
    ) -> None:
        super().__init__()
        self.encoder_embed = nn.Embedding(vocabulary, width)
        self.decoder_embed = nn.Embedding(vocabulary, width)
        self.positional_encoding = Positions(width)
        self.encoder, self.decoder = (
            nn.ModuleList(
                HandoutLayer(width, heads, 2 * width, 0.1, cross=cross)
                for _ in range(layers)
            )
            for cross in (False, True)
        )
        self.fc_output = nn.Linear(width, vocabulary)
        self.dropout = nn.Dropout(0.1)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
    ) -> Tensor:
        x = self.dropout(self.positional_encoding(self.encoder_embed(src)))
        for layer in self.encoder:
            x = layer(x, src_mask)
        y = self.dropout(self.positional_encoding(self.decoder_embed(tgt)))
        for layer in self.decoder:
            y = layer(y, tgt_mask, x, src_mask)
        return torch.softmax(self.fc_output(y), -1)


def handout_masks(src: Tensor, tgt: Tensor, pad: int = 0) -> tuple[Tensor, Tensor]:
    """Return masks [B, 1, 1, S] and [B, 1, T, T]."""
    of_source = (src != pad)[:, None, None]
    causal = (1 - torch.triu(torch.ones(1, tgt.size(1), tgt.size(1)), 1)).bool()
    return of_source, (tgt != pad)[:, None, None] & causal


class LabmlHeads(nn.Module):
    def __init__(self, width: int, heads: int, *, bias: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width, bias=bias)
        self.heads = heads

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x).view(*x.shape[:-1], self.heads, -1)  # type: ignore[no-any-return]


class LabmlAttention(nn.Module):
    """Sequence first: scores [Q, K, B, H], the softmax over axis 1, -inf for masked."""

    def __init__(self, heads: int, width: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.query, self.key = (LabmlHeads(width, heads, bias=True) for _ in range(2))
        self.value = LabmlHeads(width, heads, bias=True)
        self.output = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)
        self.scale = 1 / math.sqrt(width // heads)
        self.attn: Tensor | None = None
        self.seen = torch.empty(0)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Any) -> Tensor:
        q, k, v = self.query(query), self.key(key), self.value(value)
        scores = torch.einsum("ibhd,jbhd->ijbh", q, k)
        scores *= self.scale
        if mask is not None:
            scores = scores.masked_fill(mask.unsqueeze(-1) == 0, float("-inf"))
        attn = self.dropout(scores.softmax(1))
        self.attn = attn.detach()
        self.seen = self.attn.permute(2, 3, 0, 1)
        x = torch.einsum("ijbh,jbhd->ibhd", attn, v)
        return self.output(x.reshape(*x.shape[:2], -1))  # type: ignore[no-any-return]


class LabmlLayer(nn.Module):
    """The norm comes before each part; one dropout serves all."""

    def __init__(self, width: int, heads: int, *, cross: bool) -> None:
        super().__init__()
        self.self_attn = LabmlAttention(heads, width)
        self.src_attn = LabmlAttention(heads, width) if cross else None
        self.gate, self.linear_v = (nn.Linear(width, 2 * width) for _ in range(2))
        self.layer2 = nn.Linear(2 * width, width)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(width) for _ in range(3))
        self.dropout = nn.Dropout(0.1)

    def forward(
        self, x: Tensor, mask: Any, src: Tensor | None = None, src_mask: Any = None
    ) -> Tensor:
        z = self.norm1(x)
        x = x + self.dropout(self.self_attn(z, z, z, mask))
        if self.src_attn is not None:
            x = x + self.dropout(self.src_attn(self.norm2(x), src, src, src_mask))
        z = self.norm3(x)
        fed = self.layer2(self.gate(z).relu() * self.linear_v(z))
        return x + self.dropout(fed)  # type: ignore[no-any-return]


class Labml(nn.Module):
    """Ids come batch first, everything inside is sequence first."""

    def __init__(
        self, vocabulary: int = 24, width: int = 16, heads: int = 4, layers: int = 2
    ) -> None:
        super().__init__()
        self.width = width
        self.src_embed, self.tgt_embed = (
            nn.Embedding(vocabulary, width) for _ in range(2)
        )
        self.learned = nn.Parameter(torch.randn(200, 1, width))
        self.encoder, self.decoder = (
            nn.ModuleList(LabmlLayer(width, heads, cross=cross) for _ in range(layers))
            for cross in (False, True)
        )
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.generator = nn.Linear(width, vocabulary)

    def forward(
        self, src: Tensor, tgt: Tensor, src_mask: Tensor, tgt_mask: Tensor
    ) -> Tensor:
        x, y = (
            embed(ids.t()) * math.sqrt(self.width) + self.learned[: ids.size(1)]
            for embed, ids in ((self.src_embed, src), (self.tgt_embed, tgt))
        )
        for layer in self.encoder:
            x = layer(x, src_mask)
        x = self.norm1(x)
        for layer in self.decoder:
            y = layer(y, tgt_mask, x, src_mask)
        return self.generator(self.norm2(y))  # type: ignore[no-any-return]


class ScratchAttention(nn.Module):
    """The whole formula in one method; the mask replaces scores by -1e9."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.d_k = heads, width // heads
        self.W_q, self.W_k, self.W_v, self.W_o = (
            nn.Linear(width, width) for _ in range(4)
        )
        self.seen = torch.empty(0)

    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        return torch.softmax(scores, -1)

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.d_k)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        q, k, v = (
            linear(x).view(len(x), -1, self.heads, self.d_k).transpose(1, 2)
            for linear, x in ((self.W_q, q), (self.W_k, k), (self.W_v, v))
        )
        weights = self.weights(self.scores(q, k), mask)
        self.seen = weights.detach()
        joined = (weights @ v).transpose(1, 2).contiguous().view(len(q), q.size(2), -1)
        return self.W_o(joined)  # type: ignore[no-any-return]


class ScratchLayer(nn.Module):
    def __init__(self, width: int, heads: int, *, cross: bool, attention: Any) -> None:
        super().__init__()
        self.self_attn = attention(width, heads)
        self.cross_attn = attention(width, heads) if cross else None
        self.fc1, self.fc2 = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(width) for _ in range(3))
        self.dropout = nn.Dropout(0.1)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None,
        memory: Tensor | None = None,
        memory_mask: Tensor | None = None,
    ) -> Tensor:
        x = self.norm1(x + self.dropout(self.self_attn(x, x, x, mask)))
        if self.cross_attn is not None:
            read = self.cross_attn(x, memory, memory, memory_mask)
            x = self.norm2(x + self.dropout(read))
        fed = self.fc2(self.dropout(self.fc1(x).relu()))
        return self.norm3(x + self.dropout(fed))  # type: ignore[no-any-return]


class Scratch(nn.Module):
    """Makes its masks itself, from pad id 0; ``attention`` and ``masks`` may err."""

    def __init__(
        self,
        vocabulary: int = 24,
        width: int = 16,
        heads: int = 4,
        layers: int = 2,
        attention: Any = ScratchAttention,
    ) -> None:
        super().__init__()
        self.width = width
        self.encoder_embedding = nn.Embedding(vocabulary, width)
        self.decoder_embedding = nn.Embedding(vocabulary, width)
        self.pos_encoding = Positions(width)
        self.encoder_layers, self.decoder_layers = (
            nn.ModuleList(
                ScratchLayer(width, heads, cross=cross, attention=attention)
                for _ in range(layers)
            )
            for cross in (False, True)
        )
        self.fc_out = nn.Linear(width, vocabulary)
        self.dropout = nn.Dropout(0.1)

    def masks(self, src: Tensor, tgt: Tensor) -> tuple[Tensor | None, Tensor | None]:
        causal = (1 - torch.triu(torch.ones(1, tgt.size(1), tgt.size(1)), 1)).bool()
        rows = (tgt != 0)[:, None, :, None]  # the text's fault: rows, not keys
        return (src != 0)[:, None, None], rows & causal

    def embedded(self, table: nn.Embedding, ids: Tensor) -> Tensor:
        x = self.pos_encoding(table(ids) * math.sqrt(self.width))
        return self.dropout(x)  # type: ignore[no-any-return]

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        src_mask, tgt_mask = self.masks(src, tgt)
        x = self.embedded(self.encoder_embedding, src)
        for layer in self.encoder_layers:
            x = layer(x, src_mask)
        y = self.embedded(self.decoder_embedding, tgt)
        for layer in self.decoder_layers:
            y = layer(y, tgt_mask, x, src_mask)
        return self.fc_out(y)  # type: ignore[no-any-return]
