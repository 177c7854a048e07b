"""The models of the five tutorials, again, as plain functions of tensors.

Written from the specification, for comparison only: nothing of ``visformer.core`` is
used but the names of the parameters. Every function takes the weights as a dict, and
keeps each attention's weights [B, H, Q, K] in ``maps`` as (kind, layer) -> weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

Weights = Mapping[str, Tensor]


@dataclass
class Reference:
    """One model's pass over a batch."""

    weights: Weights
    heads: int
    fill: float = -1e9
    eps: float = 1e-5
    unbiased: bool = False
    pre_norm: bool = False
    activation: Callable[[Tensor], Tensor] = torch.relu
    maps: dict[tuple[str, int], Tensor] = field(default_factory=dict)

    def linear(self, name: str, x: Tensor) -> Tensor:
        """Return x W^T, plus b where there is one."""
        made = torch.einsum("...i,oi->...o", x, self.weights[f"{name}.weight"])
        bias = self.weights.get(f"{name}.bias")
        return made if bias is None else made + bias

    def norm(self, name: str, x: Tensor) -> Tensor:
        """Normalise the last axis."""
        centred = x - x.mean(-1, keepdim=True)
        count = x.shape[-1] - (1 if self.unbiased else 0)
        variance = centred.square().sum(-1, keepdim=True) / count
        scaled = centred / torch.sqrt(variance + self.eps)
        return scaled * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def attention(
        self,
        name: str,
        x: Tensor,
        memory: Tensor,
        allowed: Tensor,
        kept: tuple[str, int],
    ) -> Tensor:
        """Attend head by head; ``allowed`` is bool [B, Q, K]."""
        q, k, v = (
            self.linear(f"{name}.{part}", rows)
            for part, rows in (("query", x), ("key", memory), ("value", memory))
        )
        size = q.shape[-1] // self.heads
        outputs, weights = [], []
        for head in range(self.heads):
            part = slice(head * size, (head + 1) * size)
            scores = torch.bmm(q[..., part], k[..., part].transpose(1, 2))
            scores = scores / math.sqrt(size)
            replaced = torch.where(allowed, scores, torch.tensor(self.fill))
            weights.append(torch.softmax(replaced, -1))
            outputs.append(torch.bmm(weights[-1], v[..., part]))
        self.maps[kept] = torch.stack(weights, 1)
        return self.linear(f"{name}.output", torch.cat(outputs, -1))

    def feed_forward(self, name: str, x: Tensor) -> Tensor:
        """W1, activation, gate where there is one, W2."""
        inner = self.activation(self.linear(f"{name}.w1", x))
        if f"{name}.gate.weight" in self.weights:
            inner = inner * self.linear(f"{name}.gate", x)
        return self.linear(f"{name}.w2", inner)

    def enter(self, name: str, x: Tensor) -> Tensor:
        """Return what a sublayer reads."""
        return self.norm(f"{name}_norm", x) if self.pre_norm else x

    def leave(self, name: str, x: Tensor, added: Tensor) -> Tensor:
        """Return the sum, normed where the norm comes after it."""
        return x + added if self.pre_norm else self.norm(f"{name}_norm", x + added)

    def attend(
        self, kept: tuple[str, int], x: Tensor, memory: Tensor | None, allowed: Tensor
    ) -> Tensor:
        """Run one attention sublayer; over itself where there is no memory."""
        kind, layer = kept
        stack = "encoder" if kind == "encoder" else "decoder"
        part = "cross" if kind == "cross" else "self"
        name = f"{stack}.layers.{layer}.{part}_attention"
        read = self.enter(name, x)
        over = read if memory is None else memory
        return self.leave(name, x, self.attention(name, read, over, allowed, kept))

    def feed(self, name: str, x: Tensor) -> Tensor:
        """Run one feed-forward sublayer."""
        return self.leave(name, x, self.feed_forward(name, self.enter(name, x)))

    def encoder(self, x: Tensor, allowed: Tensor) -> Tensor:
        """Run the encoder over embedded tokens [B, S, D]."""
        for layer in range(self.count("encoder")):
            x = self.attend(("encoder", layer), x, None, allowed)
            x = self.feed(f"encoder.layers.{layer}.feed_forward", x)
        return self.norm("encoder.norm", x) if self.ends("encoder") else x

    def decoder(
        self, x: Tensor, memory: Tensor | None, allowed: Tensor, across: Tensor
    ) -> Tensor:
        """Run the decoder over embedded tokens [B, T, D]; alone without a memory."""
        for layer in range(self.count("decoder")):
            x = self.attend(("decoder", layer), x, None, allowed)
            if memory is not None:
                x = self.attend(("cross", layer), x, memory, across)
            x = self.feed(f"decoder.layers.{layer}.feed_forward", x)
        return self.norm("decoder.norm", x) if self.ends("decoder") else x

    def count(self, stack: str) -> int:
        """Return the number of layers in a stack."""
        start = f"{stack}.layers."
        names = [name for name in self.weights if name.startswith(start)]
        return len({name.removeprefix(start).split(".")[0] for name in names})

    def ends(self, stack: str) -> bool:
        """Whether a stack has a final norm."""
        return f"{stack}.norm.weight" in self.weights

    def embedded(self, side: str, ids: Tensor, *, scaled: bool) -> Tensor:
        """Look ids up, times the root of the width where ``scaled``."""
        rows = self.weights[f"{side}_embedding.weight"][ids]
        return rows * math.sqrt(rows.shape[-1]) if scaled else rows


def by_exponential(length: int, width: int) -> Tensor:
    """Return sines and cosines whose frequencies come from exp."""
    table = torch.zeros(length, width)
    position = torch.arange(0, length).unsqueeze(1).float()
    rate = torch.exp(torch.arange(0, width, 2).float() * -(math.log(10000.0) / width))
    table[:, 0::2] = torch.sin(position * rate)
    table[:, 1::2] = torch.cos(position * rate)
    return table


def by_power(length: int, width: int) -> Tensor:
    """Return sines and cosines whose angles are a quotient by a power of 10000."""
    table = torch.zeros(length, width)
    position = torch.arange(length, dtype=torch.float32).reshape(-1, 1)
    angle = position / 10000 ** (torch.arange(0, width, 2, dtype=torch.float32) / width)
    table[:, 0::2], table[:, 1::2] = torch.sin(angle), torch.cos(angle)
    return table


def lower(length: int) -> Tensor:
    """Return the causal mask, bool [1, T, T]."""
    rows = torch.arange(length)
    return (rows[None, :] <= rows[:, None])[None]


@dataclass
class Result:
    """What a pass gave: logits or log-probabilities, the memory, every weight."""

    memory: Tensor  # [B, S, D]
    logits: Tensor  # [B, T, V]
    maps: dict[tuple[str, int], Tensor]


def handout(model: Reference, source: Tensor, target: Tensor, pad: int) -> Result:
    """000: unscaled embeddings, exp table, keys masked, a softmax at the end."""
    length, width = max(source.shape[1], target.shape[1]), _width(model)
    table = by_exponential(length, width)
    keys = (source != pad)[:, None, :]
    own = lower(target.shape[1]) & (target != pad)[:, None, :]
    x = model.embedded("source", source, scaled=False) + table[: source.shape[1]]
    memory = model.encoder(x, keys)
    y = model.embedded("target", target, scaled=False) + table[: target.shape[1]]
    made = model.linear("output", model.decoder(y, memory, own, keys))
    return Result(memory, torch.softmax(made, -1).log(), model.maps)


def d2l(
    model: Reference, source: Tensor, target: Tensor, lengths: Tensor | None
) -> Result:
    """001 in training mode: scaled, power table, source masked by lengths."""
    table = by_power(1000, _width(model))
    keys = torch.ones(len(source), 1, source.shape[1], dtype=torch.bool)
    if lengths is not None:
        keys = (torch.arange(source.shape[1])[None] < lengths[:, None])[:, None]
    x = model.embedded("source", source, scaled=True) + table[: source.shape[1]]
    memory = model.encoder(x, keys)
    y = model.embedded("target", target, scaled=True) + table[: target.shape[1]]
    made = model.decoder(y, memory, lower(target.shape[1]), keys)
    return Result(memory, model.linear("output", made), model.maps)


def d2l_steps(model: Reference, source: Tensor, target: Tensor) -> Tensor:
    """001 in prediction: one token a step, always at position 0 -> logits [1, T, V].

    A step's rows are not made again, so each block's inputs are kept.
    """
    first = by_power(1000, _width(model))[:1]
    x = model.embedded("source", source, scaled=True)
    x = x + by_power(1000, _width(model))[: source.shape[1]]
    every = torch.ones(1, 1, source.shape[1], dtype=torch.bool)
    memory = model.encoder(x, every)
    cache: list[Tensor] = [x[:, :0]] * model.count("decoder")
    logits = []
    for t in range(target.shape[1]):
        y = model.embedded("target", target[:, t : t + 1], scaled=True) + first
        for layer in range(len(cache)):
            at = f"decoder.layers.{layer}"
            cache[layer] = torch.cat([cache[layer], y], 1)
            seen = torch.ones(1, 1, t + 1, dtype=torch.bool)
            own = (f"{at}.self_attention", y, cache[layer], seen, ("decoder", layer))
            y = model.norm(f"{at}.self_attention_norm", y + model.attention(*own))
            over = (f"{at}.cross_attention", y, memory, every, ("cross", layer))
            y = model.norm(f"{at}.cross_attention_norm", y + model.attention(*over))
            added = model.feed_forward(f"{at}.feed_forward", y)
            y = model.norm(f"{at}.feed_forward_norm", y + added)
        logits.append(model.linear("output", y))
    return torch.cat(logits, 1)


def labml(
    model: Reference, source: Tensor, target: Tensor, *, learned: bool = False
) -> Result:
    """002 with the notebook's masks: row b of the batch gets row b of the table."""
    width, batch = _width(model), len(source)
    x = model.embedded("source", source, scaled=True)
    y = model.embedded("target", target, scaled=True)
    if learned:
        x = x + model.weights["source_positions"][: source.shape[1]]
        y = y + model.weights["target_positions"][: target.shape[1]]
    else:
        table = by_exponential(5000, width)[:batch].unsqueeze(1)
        x, y = x + table, y + table
    every = torch.ones(batch, 1, source.shape[1], dtype=torch.bool)
    memory = model.encoder(x, every)
    made = model.decoder(y, memory, lower(target.shape[1]), every)
    return Result(memory, model.linear("output", made), model.maps)


def labml_alone(model: Reference, target: Tensor) -> Tensor:
    """002's decoder, whose layers were given no source -> logits [B, T, V]."""
    table = by_exponential(5000, _width(model))[: len(target)].unsqueeze(1)
    y = model.embedded("target", target, scaled=True) + table
    made = model.decoder(y, None, lower(target.shape[1]), torch.empty(0))
    return model.linear("output", made)


def modular_alone(model: Reference, target: Tensor, pad: int) -> Tensor:
    """003's decoder, called with no encoder output -> logits [B, T, V]."""
    table, real = by_power(512, _width(model)), target != pad
    own = lower(target.shape[1]) & real[:, None, :] & real[:, :, None]
    y = model.embedded("target", target, scaled=False) + table[: target.shape[1]]
    return model.linear("output", model.decoder(y, None, own, torch.empty(0)))


def modular(
    model: Reference, source: Tensor, target: Tensor, pads: tuple[int, int]
) -> Result:
    """003: own norm, power table, padding masked as keys and as rows."""
    table = by_power(512, _width(model))
    real, made_of = source != pads[0], target != pads[1]
    both = real[:, None, :] & real[:, :, None]
    own = lower(target.shape[1]) & made_of[:, None, :] & made_of[:, :, None]
    across = real[:, None, :] & made_of[:, :, None]
    x = model.embedded("source", source, scaled=False) + table[: source.shape[1]]
    memory = model.encoder(x, both)
    y = model.embedded("target", target, scaled=False) + table[: target.shape[1]]
    made = model.decoder(y, memory, own, across)
    return Result(memory, model.linear("output", made), model.maps)


def scratch(model: Reference, source: Tensor, target: Tensor) -> Result:
    """004: scaled, exp table, source keys and target rows masked; pad is 0."""
    table = by_exponential(100, _width(model))
    keys = (source != 0)[:, None, :]
    own = lower(target.shape[1]) & (target != 0)[:, :, None]
    x = model.embedded("source", source, scaled=True) + table[: source.shape[1]]
    memory = model.encoder(x, keys)
    y = model.embedded("target", target, scaled=True) + table[: target.shape[1]]
    made = model.decoder(y, memory, own, keys)
    return Result(memory, model.linear("output", made), model.maps)


def marian(model: Reference, source: Tensor, target: Tensor, pad: int) -> Result:
    """Marian: sines before cosines, source keys masked, target pads never."""
    width = _width(model)
    angles = torch.arange(512, dtype=torch.float64)[:, None] / torch.pow(
        torch.tensor(10000.0, dtype=torch.float64),
        2 * torch.arange(width // 2, dtype=torch.float64) / width,
    )
    table = torch.cat([angles.sin(), angles.cos()], 1).float()
    keys = (source != pad)[:, None, :]
    x = model.embedded("target", source, scaled=True) + table[: source.shape[1]]
    memory = model.encoder(x, keys)
    y = model.embedded("target", target, scaled=True) + table[: target.shape[1]]
    made = model.decoder(y, memory, lower(target.shape[1]), keys)
    logits = made @ model.weights["target_embedding.weight"].T
    return Result(memory, logits + model.weights["output.bias"], model.maps)


def _width(model: Reference) -> int:
    return model.weights["source_embedding.weight"].shape[1]
