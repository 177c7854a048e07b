"""The parts of a layer: attention, feed-forward, norms, dropout."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from visformer.values.config import Activation, Biases, ModelConfig, Norm

ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "silu": F.silu,
    "tanh": torch.tanh,
}
QUERY_BLOCK = 1024  # queries attended at a time, so that no long [H, Q, K] exists


class Projections(NamedTuple):
    """What one attention computed before its scores, heads still side by side."""

    queries: Tensor  # [B, Q, D]
    keys: Tensor  # [B, K, D]
    values: Tensor  # [B, K, D]


class Dropout(nn.Module):
    """Dropout whose CPU masks take one random byte an element, not one float.

    Drawing floats is a third of a small model's training time on a CPU; a byte states
    the rate to 1/256, and the survivors are scaled by the rate that really holds.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        """Zero a share of ``x`` while training; return ``x`` itself otherwise."""
        if not self.training or self.rate == 0:
            return x
        if x.device.type != "cpu":
            return nn.functional.dropout(x, self.rate)
        threshold = round(self.rate * 256)
        words = torch.empty(-(-x.numel() // 8), dtype=torch.int64).random_(
            -(2**63), None
        )
        kept = words.view(torch.uint8)[: x.numel()].view(x.shape) >= threshold
        return x * kept.to(x.dtype).mul_(256 / (256 - threshold))


def split_heads(x: Tensor, heads: int) -> Tensor:
    """[B, T, D] -> [B, H, T, D / H]."""
    apart: Tensor = x.unflatten(-1, (heads, -1))
    return apart.transpose(1, 2)


def attention_weights(q: Tensor, k: Tensor, mask: Tensor | None, fill: float) -> Tensor:
    """softmax(q k^T / sqrt(d_k)) over the keys (section 3.2.1): -> [B, H, Q, K].

    ``q`` [B, H, Q, d], ``k`` [B, H, K, d], ``mask`` bool, broadcast to [B, H, Q, K]
    (None allows everything). A masked score is replaced by ``fill``; a finite one makes
    a row that may attend to nothing attend equally to everything.
    """
    scores = (q @ k.mT).div_(math.sqrt(q.shape[-1]))
    if mask is not None:
        scores = scores.masked_fill_(~mask, fill)
    return scores.softmax(-1)


def weights_by_blocks(
    q: Tensor, k: Tensor, mask: Tensor, fill: float
) -> Iterator[Tensor]:
    """Yield the weights of some queries at a time, [B, H, n, K].

    ``q`` [B, H, Q, d], ``k`` [B, H, K, d], ``mask`` bool, broadcast to [B, Q, K].
    """
    mask = mask.expand(mask.shape[0], q.shape[2], k.shape[2])[:, None]
    pairs = zip(q.split(QUERY_BLOCK, 2), mask.split(QUERY_BLOCK, 2), strict=True)
    for rows, allowed in pairs:
        yield attention_weights(rows, k, allowed, fill)


class Attention(nn.Module):
    """Multi-head attention (section 3.2.2) that hands out what it computed."""

    def __init__(
        self,
        d_model: int,
        heads: int,
        fill: float,
        dropout: float,
        *,
        biases: Biases = "all",
    ) -> None:
        super().__init__()
        self.heads, self.fill = heads, fill
        asking, giving = biases == "all", biases != "none"
        self.query = nn.Linear(d_model, d_model, bias=asking)
        self.key = nn.Linear(d_model, d_model, bias=asking)
        self.value = nn.Linear(d_model, d_model, bias=giving)
        self.output = nn.Linear(d_model, d_model, bias=giving)
        self.dropout = Dropout(dropout)

    def forward(
        self, x: Tensor, memory: Tensor, mask: Tensor
    ) -> tuple[Tensor, Projections]:
        """Attend from ``x`` [B, Q, D] to ``memory`` [B, K, D] -> [B, Q, D].

        ``mask`` is bool, broadcast to [B, Q, K].
        """
        made = Projections(self.query(x), self.key(memory), self.value(memory))
        q, k, v = (split_heads(part, self.heads) for part in made)
        blocks = [
            self.dropout(weights) @ v
            for weights in weights_by_blocks(q, k, mask, self.fill)
        ]
        joined = torch.cat(blocks, 2) if len(blocks) > 1 else blocks[0]
        return self.output(joined.transpose(1, 2).flatten(2)), made


class FeedForward(nn.Module):
    """act(x W1 + b1) W2 + b2 at every position (section 3.3), gated or not.

    A gate multiplies what is activated by a second projection of x (Shazeer 2020).
    """

    def __init__(self, config: ModelConfig, dropout: float) -> None:
        super().__init__()
        width, inner = config.d_model, config.feed_forward
        self.w1 = nn.Linear(width, inner, bias=config.w1_bias)
        if config.gated:
            self.gate = nn.Linear(width, inner, bias=config.gate_bias)
        self.w2 = nn.Linear(inner, width, bias=config.w2_bias)
        self.gated, self.activation = config.gated, ACTIVATIONS[config.activation]
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] -> [..., D]."""
        inner = self.activation(self.w1(x))
        if self.gated:
            inner = inner * self.gate(x)
        result: Tensor = self.w2(self.dropout(inner))
        return result


class UnbiasedNorm(nn.Module):
    """LayerNorm whose variance divides by D - 1, with eps inside the root."""

    def __init__(self, shape: tuple[int, ...], eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(shape))
        self.bias = nn.Parameter(torch.zeros(shape))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] -> [..., D]."""
        variance = x.var(-1, unbiased=True, keepdim=True)
        normed = (x - x.mean(-1, keepdim=True)) / (variance + self.eps).sqrt()
        return self.weight * normed + self.bias


NORMS: dict[Norm, Callable[[tuple[int, ...], float], nn.Module]] = {
    "layer": nn.LayerNorm,
    "unbiased": UnbiasedNorm,
}


def make_norm(config: ModelConfig, length: int) -> nn.Module:
    """Return a fresh norm of the kind that the config names.

    It runs over the width of each token, or, with a ``length`` T, over [T, D] at once.
    """
    shape = (length, config.d_model) if length else (config.d_model,)
    return NORMS[config.norm](shape, config.norm_eps)
