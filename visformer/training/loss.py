"""The training loss, fused with the output projection."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

ROWS = 512  # positions whose logits exist at once: [512, V] stays in the cache


class _ProjectedCrossEntropy(torch.autograd.Function):
    """Logits, loss and gradients by blocks of rows, without ever storing [N, V]."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        smoothing: float,
    ) -> Tensor:
        low = torch.get_autocast_dtype(hidden.device.type)
        compute = low if torch.is_autocast_enabled(hidden.device.type) else hidden.dtype
        h, w = hidden.to(compute), weight.to(compute)
        loss = hidden.new_zeros((), dtype=torch.float32)
        grad_h, grad_w = torch.empty_like(h), torch.zeros_like(weight)
        grad_b = None if bias is None else torch.zeros_like(bias)
        for start in range(0, len(h), ROWS):
            rows, target = h[start : start + ROWS], labels[start : start + ROWS, None]
            logits = (rows @ w.T).float()
            if bias is not None:
                logits += bias
            normaliser = logits.logsumexp(-1, keepdim=True)
            right = logits.gather(1, target)
            mean = logits.mean(-1, keepdim=True)
            loss += (normaliser - (1 - smoothing) * right - smoothing * mean).sum()
            grad = logits.sub_(normaliser).exp_().sub_(smoothing / w.shape[0])
            grad.scatter_add_(1, target, torch.full_like(right, smoothing - 1))
            if grad_b is not None:
                grad_b += grad.sum(0)
            grad = grad.to(compute)
            grad_h[start : start + ROWS] = grad @ w
            grad_w += grad.T @ rows
        ctx.save_for_backward(grad_h, grad_w, grad_b)
        return loss

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        grad_h, grad_w, grad_b = ctx.saved_tensors
        scale = upstream[0]
        scaled_b = None if grad_b is None else grad_b * scale
        return grad_h * scale, grad_w * scale, scaled_b, None, None


def smoothed_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    labels: Tensor,
    *,
    smoothing: float,
    bias: Tensor | None = None,
) -> Tensor:
    """Sum of label-smoothed cross-entropies (Szegedy et al. 2016) of N positions.

    ``hidden`` [N, D] times ``weight`` [V, D] transposed, plus ``bias`` [V], gives the
    logits; ``labels`` [N] are the correct ids; a share ``smoothing`` of the target is
    spread over all V ids. Equals ``F.cross_entropy(F.linear(hidden, weight, bias),
    labels, reduction="sum")`` with that ``label_smoothing``.
    """
    arguments = (hidden, weight, bias, labels, smoothing)
    loss: Tensor = _ProjectedCrossEntropy.apply(*arguments)  # type: ignore[no-untyped-call]
    return loss
