"""002: the norm comes first, everything inside is sequence first, -inf for masked.

Its faults: the waves of positions run along the batch (002-3), and which dimension of a
mask is which is guessed from its sizes (002-4).
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from tests.system.tutorials.sizes import SMALL, Sizes, by_exponential


class Heads(nn.Module):
    def __init__(self, sizes: Sizes, *, bias: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(sizes.width, sizes.width, bias=bias)
        self.heads, self.d_k = sizes.heads, sizes.width // sizes.heads

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x).view(*x.shape[:-1], self.heads, self.d_k)  # type: ignore[no-any-return]


class Attention(nn.Module):
    """Scores [Q, K, B, H], the softmax over axis 1."""

    def __init__(self, sizes: Sizes, *, bias: bool) -> None:
        super().__init__()
        self.heads = sizes.heads
        self.query, self.key = (Heads(sizes, bias=bias) for _ in range(2))
        self.value = Heads(sizes, bias=True)
        self.softmax = nn.Softmax(dim=1)
        self.output = nn.Linear(sizes.width, sizes.width)
        self.dropout = nn.Dropout(sizes.dropout)
        self.scale = 1 / math.sqrt(sizes.width // sizes.heads)
        self.seen = torch.empty(0)

    @staticmethod
    def prepared(mask: Tensor, queries: int, batch: int) -> Tensor:
        """Return a mask as [Q, K, B, 1], if it is what its sizes look like."""
        if mask.size(0) == batch:
            mask = mask.permute(1, 2, 0)
        elif mask.size(1) == 1:
            mask = mask.expand(-1, queries, -1)
        return mask[..., None]

    def forward(self, query: Tensor, key: Tensor, mask: Tensor) -> Tensor:
        mask = self.prepared(mask, *query.shape[:2])
        q, k, v = self.query(query), self.key(key), self.value(key)
        scores = torch.einsum("ibhd,jbhd->ijbh", q, k)
        scores *= self.scale
        scores = scores.masked_fill(mask == 0, float("-inf"))
        attn = self.dropout(self.softmax(scores))
        self.seen = attn.detach().permute(2, 3, 0, 1)
        x = torch.einsum("ijbh,jbhd->ibhd", attn, v)
        return self.output(x.reshape(*x.shape[:2], -1))  # type: ignore[no-any-return]


class Feed(nn.Module):
    """``biases``: of the first and the second matrix, and of the gate."""

    def __init__(
        self,
        sizes: Sizes,
        activation: nn.Module,
        *,
        gated: bool,
        biases: tuple[bool, bool, bool],
    ) -> None:
        super().__init__()
        first, second, gate = biases
        self.layer1 = nn.Linear(sizes.width, sizes.feed, bias=first)
        self.layer2 = nn.Linear(sizes.feed, sizes.width, bias=second)
        self.dropout = nn.Dropout(sizes.dropout)
        self.activation, self.is_gated = activation, gated
        if gated:
            self.linear_v = nn.Linear(sizes.width, sizes.feed, bias=gate)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.activation(self.layer1(x))
        if self.is_gated:
            inner = inner * self.linear_v(x)
        return self.layer2(self.dropout(inner))  # type: ignore[no-any-return]


class Layer(nn.Module):
    """One dropout serves all; a decoder's layer that is given no source reads none."""

    def __init__(
        self, sizes: Sizes, feed: Feed, *, bias: bool, cross: bool = False
    ) -> None:
        super().__init__()
        self.self_attn = Attention(sizes, bias=bias)
        if cross:
            self.src_attn = Attention(sizes, bias=bias)
            self.norm_src_attn = nn.LayerNorm([sizes.width])
        self.feed_forward = feed
        self.dropout = nn.Dropout(sizes.dropout)
        self.norm_self_attn, self.norm_ff = (
            nn.LayerNorm([sizes.width]) for _ in range(2)
        )

    def forward(
        self, x: Tensor, mask: Tensor, src: Tensor | None = None, src_mask: Any = None
    ) -> Tensor:
        z = self.norm_self_attn(x)
        x = x + self.dropout(self.self_attn(z, z, mask))
        if src is not None:
            z = self.norm_src_attn(x)
            x = x + self.dropout(self.src_attn(z, src, src_mask))
        return x + self.dropout(self.feed_forward(self.norm_ff(x)))  # type: ignore[no-any-return]


class Stack(nn.Module):
    def __init__(self, sizes: Sizes, layers: list[Layer]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.norm = nn.LayerNorm([sizes.width])

    def forward(self, x: Tensor, *given: Any) -> Tensor:
        for layer in self.layers:
            x = layer(x, *given)
        return self.norm(x)  # type: ignore[no-any-return]


class Embedded(nn.Module):
    """Scaled, plus row b of the table for all of row b of the batch."""

    def __init__(self, vocabulary: int, sizes: Sizes) -> None:
        super().__init__()
        self.linear = nn.Embedding(vocabulary, sizes.width)
        self.d_model = sizes.width
        table = by_exponential(sizes.length, sizes.width)[None]
        self.register_buffer("positional_encodings", table, persistent=False)
        self.positional_encodings: Tensor

    def forward(self, x: Tensor) -> Tensor:
        pe = self.positional_encodings[:, : x.size(1)]  # of ids [T, B]
        return self.linear(x) * math.sqrt(self.d_model) + pe  # type: ignore[no-any-return]


class EmbeddedLearned(nn.Module):
    """Scaled, plus learned positions, which are those of the tokens."""

    def __init__(self, vocabulary: int, sizes: Sizes) -> None:
        super().__init__()
        self.linear = nn.Embedding(vocabulary, sizes.width)
        self.d_model = sizes.width
        drawn = torch.randn(sizes.length, 1, sizes.width)
        self.positional_encodings = nn.Parameter(drawn)

    def forward(self, x: Tensor) -> Tensor:
        pe = self.positional_encodings[: x.size(0)]
        return self.linear(x) * math.sqrt(self.d_model) + pe  # type: ignore[no-any-return]


class Generator(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.projection = nn.Linear(sizes.width, sizes.target)

    def forward(self, x: Tensor) -> Tensor:
        return self.projection(x)  # type: ignore[no-any-return]


class Labml(nn.Module):
    """``bias``: of queries and keys. Ids come batch first; logits are [T, B, V]."""

    def __init__(
        self,
        sizes: Sizes = SMALL,
        activation: nn.Module | None = None,
        *,
        bias: bool = True,
        gated: bool = False,
        biases: tuple[bool, bool, bool] = (True, True, True),
        learned: bool = False,
    ) -> None:
        super().__init__()
        activation = activation or nn.ReLU()

        def layers(count: int, *, cross: bool) -> list[Layer]:
            made = []
            for _ in range(count):
                feed = Feed(sizes, activation, gated=gated, biases=biases)
                made.append(Layer(sizes, feed, bias=bias, cross=cross))
            return made

        self.encoder = Stack(sizes, layers(sizes.encoder, cross=False))
        self.decoder = Stack(sizes, layers(sizes.decoder, cross=True))
        embed = EmbeddedLearned if learned else Embedded
        self.src_embed = embed(sizes.source, sizes)
        self.tgt_embed = embed(sizes.target, sizes)
        self.generator = Generator(sizes)

    def forward(
        self, src: Tensor, tgt: Tensor, src_mask: Tensor, tgt_mask: Tensor
    ) -> Tensor:
        """``src_mask`` [B, 1, S], ``tgt_mask`` [B, T, T]."""
        src_mask = src_mask.transpose(0, 2)  # [S, 1, B]
        tgt_mask = tgt_mask.permute(1, 2, 0)  # [T, T, B]
        memory = self.encoder(self.src_embed(src.t()), src_mask)
        return self.decode(memory, src_mask, tgt.t(), tgt_mask)

    def decode(
        self, memory: Tensor | None, src_mask: Any, tgt: Tensor, tgt_mask: Tensor
    ) -> Tensor:
        """Return the logits of ids [T, B]."""
        made = self.decoder(self.tgt_embed(tgt), tgt_mask, memory, src_mask)
        return self.generator(made)  # type: ignore[no-any-return]


def masks(src: Tensor, tgt: Tensor) -> tuple[Tensor, Tensor]:
    """Return the notebook's: nothing of the source is hidden, the future is."""
    causal = torch.ones(tgt.size(1), tgt.size(1)).tril() == 1
    return torch.ones(len(src), 1, src.size(1)), causal.repeat(len(tgt), 1, 1)
