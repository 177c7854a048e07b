"""Which query may attend to which key: bool, ``True`` = may attend."""

from __future__ import annotations

import torch
from torch import Tensor


def padding_mask(ids: Tensor, pad: int) -> Tensor:
    """Hide padded keys: ids [B, K] -> bool [B, 1, K], the same for every query."""
    return (ids != pad)[:, None, :]


def causal_mask(length: int, device: torch.device | None = None) -> Tensor:
    """Let row t see columns 0..t: bool [length, length]."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()
