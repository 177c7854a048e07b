"""000: masks come from outside, the softmax is inside, embeddings are not scaled."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from tests.system.tutorials.sizes import SMALL, Sizes, by_exponential


class Positions(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.register_buffer("pe", by_exponential(sizes.length, sizes.width)[None])
        self.pe: Tensor

    def forward(self, x: Tensor) -> Tensor:
        return x + self.pe[:, : x.size(1)]


class Attention(nn.Module):
    """Heads split by view and permute; masked scores replaced by -1e9; dropout."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.h, self.d_k = sizes.heads, sizes.width // sizes.heads
        self.W_q, self.W_k, self.W_v, self.W_o = (
            nn.Linear(sizes.width, sizes.width) for _ in range(4)
        )
        self.dropout = nn.Dropout(sizes.dropout)
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


class Feed(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.linear1 = nn.Linear(sizes.width, sizes.feed)
        self.dropout = nn.Dropout(sizes.dropout)
        self.linear2 = nn.Linear(sizes.feed, sizes.width)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.linear1(x).relu()))  # type: ignore[no-any-return]


class EncoderLayer(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.self_att, self.ffn = Attention(sizes), Feed(sizes)
        self.norm1, self.norm2 = (nn.LayerNorm(sizes.width) for _ in range(2))
        self.dropout1, self.dropout2 = (nn.Dropout(sizes.dropout) for _ in range(2))

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        x = self.norm1(x + self.dropout1(self.self_att(x, x, x, mask)))
        return self.norm2(x + self.dropout2(self.ffn(x)))  # type: ignore[no-any-return]


class DecoderLayer(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.self_att, self.cross_att = (Attention(sizes) for _ in range(2))
        self.ffn = Feed(sizes)
        self.norm1, self.norm2, self.norm3 = (
            nn.LayerNorm(sizes.width) for _ in range(3)
        )
        self.dropout1, self.dropout2, self.dropout3 = (
            nn.Dropout(sizes.dropout) for _ in range(3)
        )

    def forward(
        self, x: Tensor, memory: Tensor, src_mask: Tensor | None, mask: Tensor | None
    ) -> Tensor:
        x = self.norm1(x + self.dropout1(self.self_att(x, x, x, mask)))
        read = self.cross_att(x, memory, memory, src_mask)
        x = self.norm2(x + self.dropout2(read))
        return self.norm3(x + self.dropout3(self.ffn(x)))  # type: ignore[no-any-return]


class Stack(nn.Module):
    def __init__(self, layers: list[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor, *given: Tensor | None) -> Tensor:
        for layer in self.layers:
            x = layer(x, *given)
        return x


class Handout(nn.Module):
    def __init__(self, sizes: Sizes = SMALL) -> None:
        super().__init__()
        self.encoder_embed = nn.Embedding(sizes.source, sizes.width)
        self.decoder_embed = nn.Embedding(sizes.target, sizes.width)
        self.positional_encoding = Positions(sizes)
        self.encoder = Stack([EncoderLayer(sizes) for _ in range(sizes.encoder)])
        self.decoder = Stack([DecoderLayer(sizes) for _ in range(sizes.decoder)])
        self.fc_output = nn.Linear(sizes.width, sizes.target)
        self.softmax = nn.Softmax(dim=-1)
        self.dropout = nn.Dropout(sizes.dropout)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
    ) -> Tensor:
        x = self.dropout(self.positional_encoding(self.encoder_embed(src)))
        memory = self.encoder(x, src_mask)
        y = self.dropout(self.positional_encoding(self.decoder_embed(tgt)))
        y = self.decoder(y, memory, src_mask, tgt_mask)
        return self.softmax(self.fc_output(y))  # type: ignore[no-any-return]


def masks(src: Tensor, tgt: Tensor, pad: int = 0) -> tuple[Tensor, Tensor]:
    """Return what the script makes outside: [B, 1, 1, S] and [B, 1, T, T]."""
    causal = torch.ones(tgt.size(1), tgt.size(1)).tril().bool()
    return (src != pad)[:, None, None], (tgt != pad)[:, None, None] & causal
