"""Which query may attend to which key: bool, ``True`` = may attend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from visformer.values.config import MaskRule


class Masks(NamedTuple):
    """The masks of a pass, to broadcast to [B, S, S], [B, T, T] and [B, T, S]."""

    encoder: Tensor
    decoder: Tensor
    cross: Tensor


class PaddingRule(NamedTuple):
    """What a mask rule hides besides the future of the target."""

    source_keys: bool = False  # padded source tokens, from every query
    source_rows: bool = False  # everything, from the rows of padded source tokens
    target_keys: bool = False
    target_rows: bool = False  # in the decoder's self-attention
    cross_rows: bool = False  # in the cross attention, padded target tokens
    by_length: bool = False  # source padding is known by lengths, not by ids


RULES: dict[MaskRule, PaddingRule] = {
    "keys": PaddingRule(source_keys=True, target_keys=True),
    "source_keys": PaddingRule(source_keys=True),
    "lengths": PaddingRule(source_keys=True, by_length=True),
    "causal": PaddingRule(),
    "rows_and_keys": PaddingRule(True, True, True, True, True),
    "target_rows": PaddingRule(source_keys=True, target_rows=True),
}


def padded(rows: Sequence[Sequence[int]], pad: int) -> Tensor:
    """Return the rows as one int64 tensor [B, longest], padded on the right.

    A negative pad means that the model has none; the padding is then id 0.
    """
    longest, fill = max(map(len, rows)), max(pad, 0)
    return torch.tensor([[*row, *[fill] * (longest - len(row))] for row in rows])


def causal_mask(length: int, device: torch.device | None = None) -> Tensor:
    """Allow row t the columns 0 to t: bool [length, length]."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()


def real_tokens(
    rule: MaskRule, ids: Tensor, pad: int, lengths: Tensor | None = None
) -> Tensor:
    """Return which source tokens are not padding, bool [B, S]; all if unknown."""
    if not RULES[rule].by_length:
        return ids != pad
    if lengths is None:
        return torch.ones_like(ids, dtype=torch.bool)
    return torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]  # [B, S]


def make_masks(
    rule: MaskRule, source: Tensor, target: Tensor, *, causal: bool = True
) -> Masks:
    """Return a rule's masks; bool [B, S] and [B, T] are False at padding.

    Without ``causal`` the decoder's mask hides only padding.
    """
    padding = RULES[rule]
    past = causal_mask(target.shape[1], target.device)[None]  # [1, T, T]
    decoder = past if causal else torch.ones_like(past)  # [1, T, T]
    return Masks(
        encoder_mask(rule, source),
        _hide(decoder, target, keys=padding.target_keys, rows=padding.target_rows),
        _hide(
            _hide(_everything(source), source, keys=padding.source_keys),
            target,
            rows=padding.cross_rows,
        ),
    )


def encoder_mask(rule: MaskRule, source: Tensor) -> Tensor:
    """Return a rule's encoder mask; bool [B, S] is False at padding."""
    padding = RULES[rule]
    keys, rows = padding.source_keys, padding.source_rows
    return _hide(_everything(source), source, keys=keys, rows=rows)


def _everything(real: Tensor) -> Tensor:
    return torch.ones_like(real)[:, None]  # [B, 1, S]


def _hide(
    mask: Tensor, real: Tensor, *, keys: bool = False, rows: bool = False
) -> Tensor:
    """Hide tokens that are not ``real`` [B, N] as keys, as rows, or not at all."""
    if keys:
        mask = mask & real[:, None]  # [B, ., N]
    return mask & real[:, :, None] if rows else mask  # [B, N, .]
