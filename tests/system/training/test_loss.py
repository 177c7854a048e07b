"""The fused loss against torch's own; the schedule; the running mean."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from visformer.training import loop
from visformer.training.loop import (
    TrainingOptions,
    learning_rate,
    smoothed_cross_entropy,
)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("with_bias", [False, True])
def test_fused_loss_equals_torchs(
    smoothing: float, with_bias: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "ROWS", 4)  # three blocks of ten rows
    torch.manual_seed(0)
    made = []
    for fused in (True, False):
        torch.manual_seed(0)
        hidden = torch.randn(10, 6, requires_grad=True)
        weight = torch.randn(9, 6, requires_grad=True)
        bias = torch.randn(9, requires_grad=True)
        labels = torch.randint(9, (10,))
        added = bias if with_bias else None
        if fused:
            value = smoothed_cross_entropy(
                hidden, weight, labels, smoothing=smoothing, bias=added
            )
        else:
            logits = F.linear(hidden, weight, added)
            value = F.cross_entropy(
                logits, labels, label_smoothing=smoothing, reduction="sum"
            )
        (value * 0.7).backward()
        grads = (hidden.grad, weight.grad, *((bias.grad,) if with_bias else ()))
        made.append((value.detach(), *grads))
    for ours, theirs in zip(*made, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


def test_schedule_by_hand() -> None:
    options = TrainingOptions(learning_rate=1.0, warmup=10)
    found = [learning_rate(step, 110, options) for step in (0, 4, 9, 10, 60, 108, 500)]
    assert found == pytest.approx([0.1, 0.5, 1.0, 1.0, 0.5, 0.02, 0.02])
    assert learning_rate(0, 5, TrainingOptions(learning_rate=1.0, warmup=0)) == 1.0
