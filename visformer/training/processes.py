"""Several training processes (``torchrun``): their numbers and what they share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TypeVar

import torch
from torch import Tensor, distributed, nn

T = TypeVar("T")
_PATIENCE = timedelta(hours=2)  # the others wait while process 0 trains the tokenizer


def rank() -> int:
    """Return the number of this process; only process 0 writes and reports."""
    return int(os.environ.get("RANK", 0))


def world() -> int:
    """Return the number of processes."""
    return int(os.environ.get("WORLD_SIZE", 1))


def local_rank() -> int:
    """Return the number of this process on its machine, which is that of its GPU."""
    return int(os.environ.get("LOCAL_RANK", 0))


@contextmanager
def group(device: torch.device) -> Iterator[None]:
    """Join the processes that ``torchrun`` started; does nothing for a single one."""
    if world() == 1:
        yield
        return
    if device.type == "cuda":
        torch.cuda.set_device(device)
    backend = "nccl" if device.type == "cuda" else "gloo"
    distributed.init_process_group(backend, timeout=_PATIENCE)
    try:
        yield
    finally:
        distributed.destroy_process_group()


def from_first(make: Callable[[], T]) -> T:
    """Make a value in process 0 for all, so their files need not be shared."""
    if world() == 1:
        return make()
    box = [make() if rank() == 0 else None]
    distributed.broadcast_object_list(box)
    value: T = box[0]  # type: ignore[assignment]
    return value


def total(numbers: Tensor) -> Tensor:
    """Return the sum over all processes; it is the same in each."""
    if world() > 1:
        distributed.all_reduce(numbers)
    return numbers


def average_gradients(model: nn.Module, count: int) -> None:
    """Give every process the mean gradient over all tokens, by one flat all-reduce.

    Each process contributes the mean over its own ``count`` tokens.
    """
    if world() == 1:
        return
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    tokens = gradients[0].new_full((1,), float(count))
    flat = torch.cat([*(g.flatten() * count for g in gradients), tokens])
    distributed.all_reduce(flat)
    parts = (flat[:-1] / flat[-1]).split([g.numel() for g in gradients])
    for gradient, part in zip(gradients, parts, strict=True):
        gradient.copy_(part.view_as(gradient))
