"""A healthy model, and what students do wrong: one fault in its forward pass each."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.system.tutorials.scratch import Attention, Scratch


class Healthy(Scratch):
    """Pads are masked as keys, on both sides."""

    def masks(self, src: Tensor, tgt: Tensor) -> tuple[Tensor | None, Tensor | None]:
        causal = torch.ones(tgt.size(1), tgt.size(1)).tril().bool()
        return (src != 0)[:, None, None], (tgt != 0)[:, None, None] & causal


class NotCausal(Healthy):
    def masks(self, src: Tensor, tgt: Tensor) -> tuple[Tensor | None, Tensor | None]:
        return (src != 0)[:, None, None], (tgt != 0)[:, None, None]


class Multiplying(Attention):
    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return torch.softmax(scores if mask is None else scores * mask, -1)


class NotScaled(Attention):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.transpose(-2, -1)


def built(fault: str) -> nn.Module:
    """Return the model with one fault, by the id of its finding."""
    torch.manual_seed(5)
    attention = {"mask-multiplied": Multiplying, "not-scaled": NotScaled}
    model = NotCausal if fault == "not-causal" else Healthy
    made = model(attention=attention.get(fault, Attention))
    return made.train(fault == "dropout-on")
