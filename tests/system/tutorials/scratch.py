"""004: makes its masks itself, from pad id 0; padded target tokens are masked as rows.

The parts that a test may plant a fault in are methods of their own.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from tests.system.tutorials.handout import Positions
from tests.system.tutorials.sizes import SMALL, Sizes


class Attention(nn.Module):
    """The mask replaces scores by -1e9; the weights are returned, without dropout."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.num_heads, self.d_k = sizes.heads, sizes.width // sizes.heads
        self.W_q, self.W_k, self.W_v, self.W_o = (
            nn.Linear(sizes.width, sizes.width) for _ in range(4)
        )
        self.seen = torch.empty(0)

    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        return torch.softmax(scores, -1)

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.d_k)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Any:
        q, k, v = (
            linear(x).view(len(x), -1, self.num_heads, self.d_k).transpose(1, 2)
            for linear, x in ((self.W_q, q), (self.W_k, k), (self.W_v, v))
        )
        weights = self.weights(self.scores(q, k), mask)
        self.seen = weights.detach()
        joined = (weights @ v).transpose(1, 2).contiguous().view(len(q), q.size(2), -1)
        return self.W_o(joined), weights


class Feed(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.fc1 = nn.Linear(sizes.width, sizes.feed)
        self.fc2 = nn.Linear(sizes.feed, sizes.width)
        self.dropout, self.relu = nn.Dropout(sizes.dropout), nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.dropout(self.relu(self.fc1(x))))  # type: ignore[no-any-return]


class EncoderLayer(nn.Module):
    def __init__(self, sizes: Sizes, attention: type[Attention]) -> None:
        super().__init__()
        self.self_attn, self.feed_forward = attention(sizes), Feed(sizes)
        self.norm1, self.norm2 = (nn.LayerNorm(sizes.width) for _ in range(2))
        self.dropout1, self.dropout2 = (nn.Dropout(sizes.dropout) for _ in range(2))

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        read, _weights = self.self_attn(x, x, x, mask)
        x = self.norm1(x + self.dropout1(read))
        return self.norm2(x + self.dropout2(self.feed_forward(x)))  # type: ignore[no-any-return]


class DecoderLayer(nn.Module):
    def __init__(self, sizes: Sizes, attention: type[Attention]) -> None:
        super().__init__()
        self.self_attn, self.cross_attn = (attention(sizes) for _ in range(2))
        self.feed_forward = Feed(sizes)
        self.norm1, self.norm2, self.norm3 = (
            nn.LayerNorm(sizes.width) for _ in range(3)
        )
        self.dropout1, self.dropout2, self.dropout3 = (
            nn.Dropout(sizes.dropout) for _ in range(3)
        )

    def forward(
        self, x: Tensor, memory: Tensor, src_mask: Tensor | None, mask: Tensor | None
    ) -> Tensor:
        read, _weights = self.self_attn(x, x, x, mask)
        x = self.norm1(x + self.dropout1(read))
        read, _weights = self.cross_attn(x, memory, memory, src_mask)
        x = self.norm2(x + self.dropout2(read))
        return self.norm3(x + self.dropout3(self.feed_forward(x)))  # type: ignore[no-any-return]


class Scratch(nn.Module):
    def __init__(
        self,
        sizes: Sizes = SMALL,
        attention: type[Attention] = Attention,
    ) -> None:
        super().__init__()
        self.d_model = sizes.width
        self.encoder_embedding = nn.Embedding(sizes.source, sizes.width)
        self.decoder_embedding = nn.Embedding(sizes.target, sizes.width)
        self.pos_encoding = Positions(sizes)
        self.encoder_layers = nn.ModuleList(
            EncoderLayer(sizes, attention) for _ in range(sizes.encoder)
        )
        self.decoder_layers = nn.ModuleList(
            DecoderLayer(sizes, attention) for _ in range(sizes.decoder)
        )
        self.fc_out = nn.Linear(sizes.width, sizes.target)
        self.dropout = nn.Dropout(sizes.dropout)

    def masks(self, src: Tensor, tgt: Tensor) -> tuple[Tensor | None, Tensor | None]:
        causal = (1 - torch.triu(torch.ones(1, tgt.size(1), tgt.size(1)), 1)).bool()
        rows = (tgt != 0)[:, None, :, None]  # the text's fault: rows, not keys (004-2)
        return (src != 0)[:, None, None], rows & causal

    def embedded(self, table: nn.Embedding, ids: Tensor) -> Tensor:
        x = self.pos_encoding(table(ids) * math.sqrt(self.d_model))
        return self.dropout(x)  # type: ignore[no-any-return]

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        src_mask, tgt_mask = self.masks(src, tgt)
        x = self.embedded(self.encoder_embedding, src)
        for layer in self.encoder_layers:
            x = layer(x, src_mask)
        y = self.embedded(self.decoder_embedding, tgt)
        for layer in self.decoder_layers:
            y = layer(y, x, src_mask, tgt_mask)
        return self.fc_out(y)  # type: ignore[no-any-return]
