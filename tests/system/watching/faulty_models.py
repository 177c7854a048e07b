"""A healthy model, and what students do wrong: one fault in its forward pass each."""

from __future__ import annotations

import math

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


class PadsRead(Healthy):
    def masks(self, src: Tensor, tgt: Tensor) -> tuple[Tensor | None, Tensor | None]:
        return None, super().masks(src, tgt)[1]


class AlongTheBatch(Healthy):
    """The row of the table is that of the sentence in the batch."""

    def embedded(self, table: nn.Embedding, ids: Tensor) -> Tensor:
        x = table(ids) * math.sqrt(self.d_model)
        table_rows: Tensor = self.pos_encoding.pe[0, : len(ids), None]
        return torch.add(x, table_rows)


class Multiplying(Attention):
    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return torch.softmax(scores if mask is None else scores * mask, -1)


class OverQueries(Attention):
    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        return torch.softmax(scores, -2)


class NotScaled(Attention):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.transpose(-2, -1)


class MaskedAfter(Attention):
    """The mask comes after the softmax, so rows do not sum to one."""

    def weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        weights = torch.softmax(scores, -1)
        return weights if mask is None else weights * mask


def built(fault: str) -> nn.Module:
    """Return the model with one fault, by the id of its finding."""
    torch.manual_seed(5)
    attention = {
        "mask-multiplied": Multiplying,
        "softmax-axis": OverQueries,
        "not-scaled": NotScaled,
        "rows-not-one": MaskedAfter,
    }
    model = {
        "not-causal": NotCausal,
        "padding-read": PadsRead,
        "positions-along-batch": AlongTheBatch,
    }
    made = model.get(fault, Healthy)(attention=attention.get(fault, Attention))
    return made.train(fault == "dropout-on")
