"""The other two of the tutorials' models: valid lengths, and one class a part."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from tests.watching.tutorial_models import sines


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


class D2lAttention(nn.Module):
    """Heads are merged into the batch: [B H, Q, d]."""

    def __init__(self, width: int, heads: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.heads, self.attention = heads, DotProduct(dropout)
        self.W_q, self.W_k, self.W_v, self.W_o = (
            nn.Linear(width, width, bias=False) for _ in range(4)
        )

    def split(self, x: Tensor) -> Tensor:
        x = x.reshape(*x.shape[:2], self.heads, -1).permute(0, 2, 1, 3)
        return x.reshape(-1, *x.shape[2:])

    def forward(self, q: Tensor, k: Tensor, v: Tensor, lengths: Any) -> Tensor:
        q, k, v = (
            self.split(self.W_q(q)),
            self.split(self.W_k(k)),
            self.split(self.W_v(v)),
        )
        if lengths is not None:
            lengths = torch.repeat_interleave(lengths, self.heads, 0)
        x = self.attention(q, k, v, lengths)
        x = x.reshape(-1, self.heads, *x.shape[1:]).permute(0, 2, 1, 3)
        return self.W_o(x.reshape(*x.shape[:2], -1))  # type: ignore[no-any-return]

    @property
    def seen(self) -> Tensor:
        weights = self.attention.attention_weights.detach()
        return weights.reshape(-1, self.heads, *weights.shape[1:])


class AddNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.ln, self.dropout = nn.LayerNorm(width), nn.Dropout(0.1)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.ln(self.dropout(y) + x)  # type: ignore[no-any-return]


class D2lFeed(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.dense1, self.dense2 = (
            nn.Linear(width, 2 * width),
            nn.Linear(2 * width, width),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.dense2(self.dense1(x).relu())  # type: ignore[no-any-return]


class D2lEncoderBlock(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention, self.ffn = D2lAttention(width, heads), D2lFeed(width)
        self.addnorm1, self.addnorm2 = AddNorm(width), AddNorm(width)

    def forward(self, x: Tensor, lengths: Any) -> Tensor:
        y = self.addnorm1(x, self.attention(x, x, x, lengths))
        return self.addnorm2(y, self.ffn(y))  # type: ignore[no-any-return]


class D2lDecoderBlock(nn.Module):
    """Keeps its inputs so far in the state; causal by lengths while it trains."""

    def __init__(self, width: int, heads: int, at: int) -> None:
        super().__init__()
        self.i, self.ffn = at, D2lFeed(width)
        self.attention1, self.attention2 = (
            D2lAttention(width, heads) for _ in range(2)
        )
        self.addnorm1, self.addnorm2, self.addnorm3 = (AddNorm(width) for _ in range(3))

    def forward(self, x: Tensor, state: Any) -> Tensor:
        memory, lengths, kept = state
        before = x if kept[self.i] is None else torch.cat([kept[self.i], x], 1)
        kept[self.i] = before
        causal = None
        if self.training or before is x:  # with the text's own fault left out
            causal = torch.arange(1, x.shape[1] + 1).repeat(len(x), 1)
        y = self.addnorm1(x, self.attention1(x, before, before, causal))
        z = self.addnorm2(y, self.attention2(y, memory, memory, lengths))
        return self.addnorm3(z, self.ffn(z))  # type: ignore[no-any-return]


class D2lPositions(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.P, self.dropout = sines(200, width)[None], nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(x + self.P[:, : x.shape[1]])  # type: ignore[no-any-return]


class D2lStack(nn.Module):
    def __init__(self, vocabulary: int, width: int, blocks: list[nn.Module]) -> None:
        super().__init__()
        self.width, self.embedding = width, nn.Embedding(vocabulary, width)
        self.pos_encoding = D2lPositions(width)
        self.blks = nn.Sequential()
        for at, block in enumerate(blocks):
            self.blks.add_module(f"block{at}", block)

    def forward(self, x: Tensor, told: Any) -> Tensor:
        y = self.pos_encoding(self.embedding(x) * math.sqrt(self.width))
        for block in self.blks:
            y = block(y, told)
        return y  # type: ignore[no-any-return]


class D2l(nn.Module):
    def __init__(
        self, vocabulary: int = 24, width: int = 16, heads: int = 4, layers: int = 2
    ) -> None:
        super().__init__()
        encoders: list[nn.Module] = [
            D2lEncoderBlock(width, heads) for _ in range(layers)
        ]
        decoders: list[nn.Module] = [
            D2lDecoderBlock(width, heads, at) for at in range(layers)
        ]
        self.encoder = D2lStack(vocabulary, width, encoders)
        self.decoder = D2lStack(vocabulary, width, decoders)
        self.dense, self.layers = nn.Linear(width, vocabulary), layers

    def forward(self, src: Tensor, tgt: Tensor, valid_lens: Tensor) -> Tensor:
        state = [self.encoder(src, valid_lens), valid_lens, [None] * self.layers]
        return self.dense(self.decoder(tgt, state))  # type: ignore[no-any-return]


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


class ModularAttention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.n_head, self.attention = heads, ScaleDotProduct()
        self.w_q, self.w_k, self.w_v, self.fc = (
            nn.Linear(width, width) for _ in range(4)
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


class ModularLayer(nn.Module):
    """Skips the second attention where there is nothing to read."""

    def __init__(self, width: int, heads: int, *, cross: bool) -> None:
        super().__init__()
        self.mha1 = ModularAttention(width, heads)
        self.mha2 = ModularAttention(width, heads) if cross else None
        self.ln1, self.ln2, self.ln3 = (OwnNorm(width) for _ in range(3))
        self.fc1, self.fc2 = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.drop = nn.Dropout(0.1)

    def forward(
        self, x: Tensor, mask: Any, enc: Any = None, cross: Any = None
    ) -> Tensor:
        x = self.ln1(x + self.drop(self.mha1(x, x, x, mask)))
        if self.mha2 is not None and enc is not None:
            x = self.ln2(x + self.drop(self.mha2(x, enc, enc, cross)))
        fed = self.fc2(self.drop(self.fc1(x).relu()))
        return self.ln3(x + self.drop(fed))  # type: ignore[no-any-return]


class Modular(nn.Module):
    """Masks padded keys and padded rows, from ids; pad is token 1."""

    def __init__(
        self, vocabulary: int = 24, width: int = 16, heads: int = 4, layers: int = 2
    ) -> None:
        super().__init__()
        self.pad = 1
        self.encoder_emb, self.decoder_emb = (
            nn.Embedding(vocabulary, width, padding_idx=1) for _ in range(2)
        )
        self.encoding = sines(200, width)
        self.encoder, self.decoder = (
            nn.ModuleList(ModularLayer(width, heads, cross=c) for _ in range(layers))
            for c in (False, True)
        )
        self.linear = nn.Linear(width, vocabulary)

    def pad_mask(self, q: Tensor, k: Tensor) -> Tensor:
        rows = q.ne(self.pad).unsqueeze(1).unsqueeze(3).repeat(1, 1, 1, k.size(1))
        keys = k.ne(self.pad).unsqueeze(1).unsqueeze(2).repeat(1, 1, q.size(1), 1)
        return keys & rows

    def forward(self, src: Tensor, trg: Tensor) -> Tensor:
        causal = torch.tril(torch.ones(trg.size(1), trg.size(1))).bool()
        mask = self.pad_mask(trg, trg) * causal
        x = self.encoder_emb(src) + self.encoding[: src.size(1)]
        for layer in self.encoder:
            x = layer(x, self.pad_mask(src, src))
        y = self.decoder_emb(trg) + self.encoding[: trg.size(1)]
        for layer in self.decoder:
            y = layer(y, mask, x, self.pad_mask(trg, src))
        return self.linear(y)  # type: ignore[no-any-return]
