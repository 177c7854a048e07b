"""Modules written to be difficult; each keeps the weights it used as ``seen``."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

WIDTH, HEADS, SIZE = 16, 4, 4


class Attending(nn.Module):
    """Projections for queries, keys and values, and what was seen, a list."""

    def __init__(self, keys: int = WIDTH) -> None:
        super().__init__()
        self.q, self.o = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.k, self.v = nn.Linear(WIDTH, keys), nn.Linear(WIDTH, keys)
        self.kept: list[Tensor] = []

    def keep(self, weights: Tensor) -> Tensor:
        self.kept.append(weights.detach())
        return weights

    def heads(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], -1, SIZE).transpose(1, 2)

    def projected(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.heads(self.q(x)), self.heads(self.k(x)), self.heads(self.v(x))

    def joined(self, x: Tensor) -> Tensor:
        return self.o(x.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]


class OddLetters(Attending):
    """Heads come before the batch, in letters that nobody uses."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (f(x).unflatten(-1, (HEADS, SIZE)) for f in (self.q, self.k, self.v))
        scores = torch.einsum("zxny,zwny->nzxw", q, k) / math.sqrt(SIZE)
        weights = self.keep(scores.softmax(-1).transpose(0, 1)).transpose(0, 1)
        return self.o(torch.einsum("nzxw,zwny->zxny", weights, v).flatten(2))  # type: ignore[no-any-return]


class HeadLoop(Attending):
    """One head after the other, written into one buffer."""

    def forward(self, x: Tensor) -> Tensor:
        out, seen = torch.zeros_like(x), []
        q, k, v = self.q(x), self.k(x), self.v(x)
        for h in range(HEADS):
            part = slice(h * SIZE, (h + 1) * SIZE)
            scores = q[..., part] @ k[..., part].transpose(1, 2) / SIZE**0.5
            seen.append(scores.softmax(-1))
            out[..., part] = seen[-1] @ v[..., part]
        self.keep(torch.stack(seen, 1))
        return self.o(out)  # type: ignore[no-any-return]


class OneHead(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(WIDTH, SIZE, bias=False) for _ in range(3))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        scores = self.q(x) @ self.k(x).transpose(-2, -1) * SIZE**-0.5
        future = torch.ones(x.shape[1], x.shape[1]).triu(1).bool()
        weights = scores.masked_fill(future, float("-inf")).softmax(-1)
        return weights @ self.v(x), weights


class HeadModules(Attending):
    """A module for each head, side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList(OneHead() for _ in range(HEADS))

    def forward(self, x: Tensor) -> Tensor:
        several = [part(x) for part in self.parts]
        self.keep(torch.stack([weights for _x, weights in several], 1))
        return self.o(torch.cat([x for x, _weights in several], -1))  # type: ignore[no-any-return]


class ChunkedQueries(Attending):
    """Three queries at a time."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.projected(x)
        seen, out = [], []
        for start in range(0, q.shape[2], 3):
            scores = q[:, :, start : start + 3] @ k.mT / SIZE**0.5
            seen.append(scores.softmax(-1))
            out.append(seen[-1] @ v)
        self.keep(torch.cat(seen, 2))
        return self.joined(torch.cat(out, 2))


class LinearAttention(Attending):
    """Keys and values are multiplied first: there is no matrix of weights."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.projected(x)
        q, k = nn.functional.elu(q) + 1, nn.functional.elu(k) + 1
        total = (q * k.sum(2, keepdim=True)).sum(-1, keepdim=True)
        return self.joined(q @ (k.mT @ v) / total)


class Experts(Attending):
    """A softmax over three experts, whose results are added up by it."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(WIDTH, 3)
        self.several = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        choice = self.gate(x).softmax(-1)
        results = torch.stack([expert(x) for expert in self.several], -2)
        return torch.einsum("bte,bted->btd", choice, results)


class Alibi(Attending):
    """A penalty by distance, another for each head; causal."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.projected(x)
        at = torch.arange(x.shape[1])
        slopes = 2.0 ** -torch.arange(1, HEADS + 1)
        bias = (at[None] - at[:, None])[None] * slopes[:, None, None]
        scores = torch.baddbmm(
            bias.repeat(len(x), 1, 1),
            q.reshape(-1, *q.shape[2:]),
            k.reshape(-1, *k.shape[2:]).mT,
            alpha=SIZE**-0.5,
        ).view(len(x), HEADS, *bias.shape[1:])
        scores = scores + torch.full(bias.shape[1:], float("-inf")).triu(1)
        return self.joined(self.keep(scores.softmax(-1)) @ v)


class Rotary(Attending):
    """Queries and keys are turned; scaled before they are."""

    def turned(self, x: Tensor) -> Tensor:
        angle = torch.arange(x.shape[2])[:, None] / torch.tensor([1.0, 10.0])
        cos, sin = angle.cos().repeat(1, 2), angle.sin().repeat(1, 2)
        first, second = x.chunk(2, -1)
        return x * cos + torch.cat([-second, first], -1) * sin

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.projected(x)
        weights = (self.turned(q * SIZE**-0.5) @ self.turned(k).mT).softmax(-1)
        return self.joined(self.keep(weights) @ v)


class Windowed(Attending):
    """Only two tokens to either side."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.projected(x)
        at = torch.arange(x.shape[1])
        far = (at[None] - at[:, None]).abs() > 2
        scores = (q @ k.mT / SIZE**0.5).masked_fill(far, torch.finfo(q.dtype).min)
        return self.joined(self.keep(scores.softmax(-1)) @ v)


class TalkingHeads(Attending):
    """Heads are mixed before the softmax, and after it."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = nn.Linear(HEADS, HEADS), nn.Linear(HEADS, HEADS)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.projected(x)
        scores = self.before((q @ k.mT / SIZE**0.5).permute(0, 2, 3, 1))
        weights = self.after(scores.softmax(-2)).permute(0, 3, 1, 2)
        return self.joined(self.keep(weights) @ v)


class MemoryTokens(Attending):
    """Three learned keys and values beside those of the tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.learned = nn.Parameter(torch.randn(3, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        longer = torch.cat([self.learned.expand(len(x), -1, -1), x], 1)
        q, k, v = (
            self.heads(self.q(x)),
            self.heads(self.k(longer)),
            self.heads(self.v(longer)),
        )
        return self.joined(self.keep((q @ k.mT / SIZE**0.5).softmax(-1)) @ v)


class SharedLayers(Attending):
    """One module, three times over."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = Rotary()

    def forward(self, x: Tensor) -> Tensor:
        for _layer in range(3):
            x = x + self.layer(x)
        self.kept = self.layer.kept
        return x


class TwoSources(Attending):
    """One softmax over the keys of the target and of the source together."""

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        q = self.heads(self.q(target))
        both = torch.cat([target, source], 1)
        k, v = self.heads(self.k(both)), self.heads(self.v(both))
        return self.joined(self.keep((q @ k.mT / SIZE**0.5).softmax(-1)) @ v)


class HeadsBeforeBatch(Attending):
    """Heads are cut off the features and put before the batch: [H B, T, d]."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (torch.cat(f(x).split(SIZE, 2), 0) for f in (self.q, self.k, self.v))
        weights = torch.bmm(q, k.transpose(1, 2)).div(SIZE**0.5).softmax(-1)
        self.keep(weights.view(HEADS, len(x), *weights.shape[1:]).transpose(0, 1))
        return self.o(torch.cat(torch.bmm(weights, v).split(len(x), 0), 2))  # type: ignore[no-any-return]


class SoftCap(Attending):
    """Scores are bent into -2..2."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.projected(3 * x)
        scores = torch.tanh(q @ k.mT / SIZE**0.5 / 2) * 2
        return self.joined(self.keep(scores.softmax(-1)) @ v)


class ByHand(Attending):
    """The softmax written out; keys on the left of the product."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.projected(x)
        scores = (k @ q.mT).mT / SIZE**0.5
        parts = torch.exp(scores - scores.max(-1, keepdim=True).values)
        weights = parts / parts.sum(-1, keepdim=True)
        return self.joined(self.keep(weights) @ v)


class SharedKeys(Attending):
    """All heads read one set of keys and values."""

    def __init__(self) -> None:
        super().__init__(keys=SIZE)

    def forward(self, x: Tensor) -> Tensor:
        q = self.heads(self.q(x))
        k, v = self.k(x), self.v(x)
        weights = torch.einsum("bhqd,bkd->bhqk", q, k).mul(SIZE**-0.5).softmax(-1)
        return self.joined(torch.einsum("bhqk,bkd->bhqd", self.keep(weights), v))


class GroupedKeys(Attending):
    """Two heads read one set of keys and values, by axes of their own."""

    def __init__(self) -> None:
        super().__init__(keys=2 * SIZE)

    def forward(self, x: Tensor) -> Tensor:
        q = self.heads(self.q(x)).unflatten(1, (2, 2))
        k, v = self.heads(self.k(x)), self.heads(self.v(x))
        scores = torch.einsum("bgrqd,bgkd->bgrqk", q, k) / SIZE**0.5
        weights = scores.softmax(-1)
        self.keep(weights.flatten(1, 2))
        return self.joined(torch.einsum("bgrqk,bgkd->bgrqd", weights, v).flatten(1, 2))


class Sinks(Attending):
    """A learned score beside those of the keys, left out after the softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.sink = nn.Parameter(torch.zeros(HEADS))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.projected(x)
        scores = q @ k.mT / SIZE**0.5
        sinks = self.sink.view(1, -1, 1, 1).expand(len(x), -1, x.shape[1], 1)
        weights = torch.cat([scores, sinks], -1).softmax(-1)[..., :-1]
        return self.joined(self.keep(weights) @ v)


class Recurrent(Attending):
    """No attention at all."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(WIDTH, WIDTH, batch_first=True)

    def forward(self, x: Tensor) -> Any:
        return self.rnn(x)[0]
