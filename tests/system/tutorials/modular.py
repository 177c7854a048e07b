"""003: one class for each part, its own norm, padding masked as keys and as rows."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from tests.system.tutorials.sizes import SMALL, Sizes, by_power


class Positions(nn.Module):
    """Given ids, it returns the table alone, which is no part of the file."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.encoding = by_power(sizes.length, sizes.width)

    def forward(self, x: Tensor) -> Tensor:
        return self.encoding[: x.size(1)]


class Embedded(nn.Module):
    """Row 1 is that of the pad, whatever the pads are (003-8)."""

    def __init__(self, vocabulary: int, sizes: Sizes) -> None:
        super().__init__()
        self.tok_emb = nn.Embedding(vocabulary, sizes.width, padding_idx=1)
        self.pos_emb = Positions(sizes)
        self.drop_out = nn.Dropout(sizes.dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.drop_out(self.tok_emb(x) + self.pos_emb(x))  # type: ignore[no-any-return]


class OwnNorm(nn.Module):
    """Variance over N - 1, a tiny number inside the root."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(width))
        self.beta = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        middle, spread = x.mean(-1, keepdim=True), x.var(-1, keepdim=True)
        return self.gamma * (x - middle) / (spread + 1e-12).sqrt() + self.beta


class ScaleDotProduct(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.softmax = nn.Softmax(dim=-1)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Any) -> Any:
        score = q @ k.transpose(2, 3) / math.sqrt(k.shape[-1])
        if mask is not None:
            score = score.masked_fill(mask == 0, -1e9)
        score = self.softmax(score)
        return score @ v, score


class Attention(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.n_head, self.attention = sizes.heads, ScaleDotProduct()
        self.w_q, self.w_k, self.w_v, self.fc = (
            nn.Linear(sizes.width, sizes.width) for _ in range(4)
        )
        self.seen = torch.empty(0)

    def split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self.n_head, -1).transpose(1, 2)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Any) -> Tensor:
        q, k, v = (self.split(x) for x in (self.w_q(q), self.w_k(k), self.w_v(v)))
        x, score = self.attention(q, k, v, mask)
        self.seen = score.detach()
        x = x.transpose(1, 2).contiguous()
        return self.fc(x.view(*x.shape[:2], -1))  # type: ignore[no-any-return]


class Feed(nn.Module):
    """Its dropout is 0.1, whatever the others' is (003-12)."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.fc1 = nn.Linear(sizes.width, sizes.feed)
        self.fc2 = nn.Linear(sizes.feed, sizes.width)
        self.relu, self.dropout = nn.ReLU(), nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.dropout(self.relu(self.fc1(x))))  # type: ignore[no-any-return]


class EncoderLayer(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.mha, self.ffn = Attention(sizes), Feed(sizes)
        self.ln1, self.ln2 = (OwnNorm(sizes.width) for _ in range(2))
        self.dropout1, self.dropout2 = (nn.Dropout(sizes.dropout) for _ in range(2))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.ln1(x + self.dropout1(self.mha(x, x, x, mask)))
        return self.ln2(x + self.dropout2(self.ffn(x)))  # type: ignore[no-any-return]


class DecoderLayer(nn.Module):
    """Skips the second attention where there is nothing to read (003-14)."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.mha1, self.ln1 = Attention(sizes), OwnNorm(sizes.width)
        self.mha2, self.ln2 = Attention(sizes), OwnNorm(sizes.width)
        self.ffn, self.ln3 = Feed(sizes), OwnNorm(sizes.width)
        self.dropout1, self.dropout2, self.dropout3 = (
            nn.Dropout(sizes.dropout) for _ in range(3)
        )

    def forward(self, x: Tensor, enc: Tensor | None, mask: Tensor, cross: Any) -> Any:
        x = self.ln1(x + self.dropout1(self.mha1(x, x, x, mask)))
        if enc is not None:
            x = self.ln2(x + self.dropout2(self.mha2(x, enc, enc, cross)))
        return self.ln3(x + self.dropout3(self.ffn(x)))


class Encoder(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.emb = Embedded(sizes.source, sizes)
        self.layers = nn.ModuleList(EncoderLayer(sizes) for _ in range(sizes.encoder))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.emb(x)
        for layer in self.layers:
            x = layer(x, mask)
        return x


class Decoder(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.emb = Embedded(sizes.target, sizes)
        self.layers = nn.ModuleList(DecoderLayer(sizes) for _ in range(sizes.decoder))
        self.linear = nn.Linear(sizes.width, sizes.target)

    def forward(self, x: Tensor, enc: Tensor | None, mask: Tensor, cross: Any) -> Any:
        x = self.emb(x)
        for layer in self.layers:
            x = layer(x, enc, mask, cross)
        return self.linear(x)


class Modular(nn.Module):
    def __init__(
        self,
        sizes: Sizes = SMALL,
        pads: tuple[int, int] = (1, 1),
    ) -> None:
        super().__init__()
        self.src_pad_idx, self.trg_pad_idx = pads
        self.encoder, self.decoder = Encoder(sizes), Decoder(sizes)

    @staticmethod
    def pad_mask(q: Tensor, k: Tensor, q_pad: int, k_pad: int) -> Tensor:
        """Hide padded keys and padded rows: [B, 1, Q, K]."""
        return k.ne(k_pad)[:, None, None] & q.ne(q_pad)[:, None, :, None]

    def target_mask(self, trg: Tensor) -> Tensor:
        causal = torch.ones(trg.size(1), trg.size(1)).tril().bool()
        return self.pad_mask(trg, trg, self.trg_pad_idx, self.trg_pad_idx) * causal

    def forward(self, src: Tensor, trg: Tensor) -> Tensor:
        own = self.pad_mask(src, src, self.src_pad_idx, self.src_pad_idx)
        cross = self.pad_mask(trg, src, self.trg_pad_idx, self.src_pad_idx)
        memory = self.encoder(src, own)
        return self.decoder(trg, memory, self.target_mask(trg), cross)  # type: ignore[no-any-return]
