"""A model of one side whose weights are made of its scores by a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from visformer.watching.watcher import Watched, watch

V, WIDTH, HEADS = 20, 16, 2
IDS = torch.tensor([[3, 1, 4, 1, 5, 9], [2, 6, 5, 3, 5, 8]])
INF = float("inf")
Weigh = Callable[[Tensor], Tensor]  # of scores [B, H, T, T]


def future(scores: Tensor) -> Tensor:
    """Return which keys come after their query, bool [T, T]."""
    return torch.ones(scores.shape[-2:], device=scores.device).triu(1).bool()


def causal(scores: Tensor) -> Tensor:
    return scores.masked_fill(future(scores), -INF).softmax(-1)


class Weighing(nn.Module):
    """Layers of two heads; ``kept`` has the weights of each, as they were used."""

    def __init__(self, weigh: Weigh = causal, *, layers: int = 1, size: float = 1):
        super().__init__()
        torch.manual_seed(0)
        self.weigh, self.embed = weigh, nn.Embedding(V, WIDTH)
        self.layers = nn.ModuleList(nn.Linear(WIDTH, 3 * WIDTH) for _ in range(layers))
        self.out = nn.Linear(WIDTH, V)
        self.kept: list[Tensor] = []
        with torch.no_grad():  # of queries and keys: scores are of its square
            for layer in self.layers:
                assert isinstance(layer, nn.Linear)
                layer.weight[: 2 * WIDTH] *= size

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)  # [B, T, D]
        self.kept = []
        for layer in self.layers:
            parts = layer(x).unflatten(2, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
            q, k, v = parts  # [B, H, T, d]
            weights = self.weigh(q @ k.mT / (WIDTH // HEADS) ** 0.5)
            self.kept.append(weights.detach().clone())
            x = x + (weights.to(v.dtype) @ v).transpose(1, 2).flatten(2)
        y: Tensor = self.out(x)
        return y


class Seen(NamedTuple):
    model: Weighing
    watched: Watched


def seen(model: Weighing, ids: Tensor = IDS) -> Seen:
    """Watch a model, and see that each attention has the weights that were used."""
    with torch.no_grad():
        watched = watch(model.eval())(ids)
    for one, kept in zip(watched.attentions, model.kept, strict=True):
        assert torch.equal(torch.from_numpy(one.weights.copy()), kept.float())
    return Seen(model, watched)
