"""Small models that keep their own weights: for tests of loops, sides and tokens."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tests.system.watching.comparing import CLOSE, apart
from visformer.values.facts import Kind
from visformer.watching.watcher import Watched

V, WIDTH = 30, 8


def causal(length: int) -> Tensor:
    """Return which keys a query may read, bool [T, T]."""
    return torch.ones(length, length).tril().bool()


class Attention(nn.Module):
    """Two heads of 4; ``kept`` has the weights of every call, [B, 2, Q, K] each."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.kept: list[Tensor] = []

    def forward(self, x: Tensor, y: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = _heads(self.q(x)), _heads(self.k(y)), _heads(self.v(y))
        scores = q @ k.mT / 2  # [B, 2, Q, K]
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        weights = scores.softmax(-1)
        self.kept.append(weights.detach())
        return (weights @ v).transpose(1, 2).flatten(2)  # [B, Q, 8]


def _heads(x: Tensor) -> Tensor:
    return x.view(len(x), -1, 2, 4).transpose(1, 2)  # [B, 2, N, 4]


class Translator(nn.Module):
    """An encoder and a decoder of a layer each; positions are rows of a buffer."""

    positions: Tensor

    def __init__(self, *, shared: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.out = nn.Embedding(V, WIDTH), nn.Linear(WIDTH, V)
        self.embed_target = self.embed if shared else nn.Embedding(V, WIDTH)
        self.mine, self.own, self.cross = Attention(), Attention(), Attention()
        self.register_buffer("positions", torch.randn(1, 20, WIDTH))

    def encode(self, source: Tensor) -> Tensor:
        x = self.embed(source) + self.positions[:, : source.shape[1]]
        return x + self.mine(x, x)  # type: ignore[no-any-return]

    def decode(self, memory: Tensor, target: Tensor) -> Tensor:
        x = self.embed_target(target) + self.positions[:, : target.shape[1]]
        return self.read(memory, x)

    def read(self, memory: Tensor, x: Tensor) -> Tensor:
        x = x + self.own(x, x, causal(x.shape[1]))
        return self.out(x + self.cross(x, memory))  # type: ignore[no-any-return]

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return self.decode(self.encode(source), target)


class Encoder(nn.Module):
    """One layer that reads both ways, or one that reads no later token."""

    def __init__(self, *, one_way: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.out = nn.Embedding(V, WIDTH), nn.Linear(WIDTH, V)
        self.own, self.one_way = Attention(), one_way

    def read(self, x: Tensor) -> Tensor:
        mask = causal(x.shape[1]) if self.one_way else None
        return self.out(x + self.own(x, x, mask))  # type: ignore[no-any-return]

    def forward(self, ids: Tensor) -> Tensor:
        return self.read(self.embed(ids))


Kept = dict[str, list[Tensor]]


def uneven(model: Any) -> Any:
    """Return a model whose weights are so large that its attention is uneven."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(6)
    return model


def kept_by(model: nn.Module) -> Kept:
    """Return what the attentions of a model kept; they forget it."""
    modules = {n: m for n, m in model.named_modules() if isinstance(m, Attention)}
    kept = {name: [*module.kept] for name, module in modules.items()}
    for module in modules.values():
        module.kept.clear()
    return kept


def some_ids(rows: int, length: int, seed: int = 1) -> Tensor:
    """Return ids [rows, length]: no two of a row are the same."""
    generator = torch.Generator().manual_seed(seed)
    several = [torch.randperm(V - 3, generator=generator) + 3 for _ in range(rows)]
    return torch.stack(several)[:, :length]


def assert_kept(watched: Watched, kept: Kept) -> None:
    """Assert that every module's attention is what it kept itself, call by call."""
    seen: dict[str, list[Any]] = {}
    for one in watched.attentions:
        seen.setdefault(one.module, []).append(one.weights)
    assert seen.keys() == kept.keys()
    for name, own in kept.items():
        assert [x.shape for x in seen[name]] == [tuple(x.shape) for x in own]
        pairs = zip(seen[name], own, strict=True)
        assert max(apart(a, b) for a, b in pairs) == 0.0


def assert_traced(watched: Watched, kind: Kind, own: Tensor, layer: int = 0) -> None:
    """Assert that the Traces hold a layer's own weights, [B, H, Q, K]."""
    held = [trace.attention(kind, layer) for trace in watched.traces]
    assert len(held) == len(own)
    assert max(apart(a, b) for a, b in zip(held, own, strict=True)) <= CLOSE


def assert_nothing_missed(watched: Watched) -> None:
    """Assert that all attention is on a tab, under names, with nothing to complain."""
    assert watched.certificate.passed
    assert watched.certificate.missed == ()
    assert watched.certificate.findings == ()
