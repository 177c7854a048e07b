"""001: valid lengths for masks, heads merged into the batch, block inputs kept.

Its faults: positions restart with every call of the decoder (001-4), which is causal
in training mode only (001-5).
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from tests.system.tutorials.sizes import SMALL, Sizes, by_power


def masked_softmax(scores: Tensor, lengths: Tensor | None) -> Tensor:
    """Softmax over keys below a length: one for a row of the batch, or for a query."""
    if lengths is None:
        return torch.softmax(scores, -1)
    shape = scores.shape
    each = (
        lengths.repeat_interleave(shape[1])
        if lengths.dim() == 1
        else lengths.reshape(-1)
    )
    rows = scores.reshape(-1, shape[-1])
    beyond = torch.arange(shape[-1])[None] >= each[:, None]
    rows[beyond] = -1e6
    return torch.softmax(rows.reshape(shape), -1)


class DotProduct(nn.Module):
    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.attention_weights = torch.empty(0)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, lengths: Any) -> Tensor:
        scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(q.shape[-1])
        self.attention_weights = masked_softmax(scores, lengths)
        return torch.bmm(self.dropout(self.attention_weights), v)


class Attention(nn.Module):
    """Heads are merged into the batch: [B H, Q, d]."""

    def __init__(self, sizes: Sizes, *, bias: bool = False) -> None:
        super().__init__()
        self.num_heads, self.attention = sizes.heads, DotProduct(sizes.dropout)
        self.W_q, self.W_k, self.W_v, self.W_o = (
            nn.Linear(sizes.width, sizes.width, bias=bias) for _ in range(4)
        )

    def split(self, x: Tensor) -> Tensor:
        x = x.reshape(*x.shape[:2], self.num_heads, -1).permute(0, 2, 1, 3)
        return x.reshape(-1, *x.shape[2:])

    def forward(self, q: Tensor, k: Tensor, v: Tensor, lengths: Any) -> Tensor:
        q, k, v = (
            self.split(linear(x))
            for linear, x in ((self.W_q, q), (self.W_k, k), (self.W_v, v))
        )
        if lengths is not None:
            lengths = torch.repeat_interleave(lengths, self.num_heads, 0)
        x = self.attention(q, k, v, lengths)
        x = x.reshape(-1, self.num_heads, *x.shape[1:]).permute(0, 2, 1, 3)
        return self.W_o(x.reshape(*x.shape[:2], -1))  # type: ignore[no-any-return]

    @property
    def seen(self) -> Tensor:
        weights = self.attention.attention_weights.detach()
        return weights.reshape(-1, self.num_heads, *weights.shape[1:])


class AddNorm(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.dropout = nn.Dropout(sizes.dropout)
        self.ln = nn.LayerNorm(sizes.width)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.ln(self.dropout(y) + x)  # type: ignore[no-any-return]


class Feed(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.dense1 = nn.Linear(sizes.width, sizes.feed)
        self.relu = nn.ReLU()
        self.dense2 = nn.Linear(sizes.feed, sizes.width)

    def forward(self, x: Tensor) -> Tensor:
        return self.dense2(self.relu(self.dense1(x)))  # type: ignore[no-any-return]


class EncoderBlock(nn.Module):
    def __init__(self, sizes: Sizes, *, bias: bool) -> None:
        super().__init__()
        self.attention, self.addnorm1 = Attention(sizes, bias=bias), AddNorm(sizes)
        self.ffn, self.addnorm2 = Feed(sizes), AddNorm(sizes)

    def forward(self, x: Tensor, lengths: Any) -> Tensor:
        y = self.addnorm1(x, self.attention(x, x, x, lengths))
        return self.addnorm2(y, self.ffn(y))  # type: ignore[no-any-return]


class DecoderBlock(nn.Module):
    """Keeps its inputs so far in the state; causal by lengths only while it trains."""

    def __init__(self, sizes: Sizes, at: int) -> None:
        super().__init__()
        self.i = at
        self.attention1, self.addnorm1 = Attention(sizes), AddNorm(sizes)
        self.attention2, self.addnorm2 = Attention(sizes), AddNorm(sizes)
        self.ffn, self.addnorm3 = Feed(sizes), AddNorm(sizes)

    def forward(self, x: Tensor, state: Any) -> Tensor:
        memory, lengths, kept = state
        before = x if kept[self.i] is None else torch.cat([kept[self.i], x], 1)
        kept[self.i] = before
        causal = None
        if self.training:
            causal = torch.arange(1, x.shape[1] + 1).repeat(len(x), 1)
        y = self.addnorm1(x, self.attention1(x, before, before, causal))
        z = self.addnorm2(y, self.attention2(y, memory, memory, lengths))
        return self.addnorm3(z, self.ffn(z))  # type: ignore[no-any-return]


class Positions(nn.Module):
    """The table is no part of the file."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.dropout = nn.Dropout(sizes.dropout)
        self.P = by_power(sizes.length, sizes.width)[None]

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(x + self.P[:, : x.shape[1]])  # type: ignore[no-any-return]


class Stack(nn.Module):
    def __init__(self, vocabulary: int, sizes: Sizes, blocks: list[nn.Module]) -> None:
        super().__init__()
        self.num_hiddens = sizes.width
        self.embedding = nn.Embedding(vocabulary, sizes.width)
        self.pos_encoding, self.blks = Positions(sizes), nn.Sequential()
        for at, block in enumerate(blocks):
            self.blks.add_module(f"block{at}", block)

    def forward(self, x: Tensor, told: Any) -> Tensor:
        x = self.pos_encoding(self.embedding(x) * math.sqrt(self.num_hiddens))
        for block in self.blks:
            x = block(x, told)
        return x


class Decoder(Stack):
    def __init__(self, sizes: Sizes) -> None:
        blocks: list[nn.Module] = [DecoderBlock(sizes, i) for i in range(sizes.decoder)]
        super().__init__(sizes.target, sizes, blocks)
        self.dense = nn.Linear(sizes.width, sizes.target)

    def init_state(self, memory: Tensor, lengths: Tensor | None) -> list[Any]:
        return [memory, lengths, [None] * len(self.blks)]

    def forward(self, x: Tensor, told: Any) -> Tensor:
        return self.dense(super().forward(x, told))  # type: ignore[no-any-return]


class D2l(nn.Module):
    def __init__(self, sizes: Sizes = SMALL, *, bias: bool = False) -> None:
        super().__init__()
        blocks: list[nn.Module] = [
            EncoderBlock(sizes, bias=bias) for _ in range(sizes.encoder)
        ]
        self.encoder = Stack(sizes.source, sizes, blocks)
        self.decoder = Decoder(sizes)

    def forward(self, src: Tensor, tgt: Tensor, lengths: Tensor | None) -> Tensor:
        state = self.decoder.init_state(self.encoder(src, lengths), lengths)
        return self.decoder(tgt, state)  # type: ignore[no-any-return]
