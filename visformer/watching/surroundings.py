"""What watching changes around a model, and puts back."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn


@contextmanager
def plain_paths() -> Iterator[None]:
    """Switch off the fast paths of torch.nn, which leave no operations to see.

    Compiled functions run as they were written. Both are put back afterwards.
    """
    fast = torch.backends.mha.get_fastpath_enabled()
    with ExitStack() as stack:
        torch.backends.mha.set_fastpath_enabled(False)
        stack.callback(torch.backends.mha.set_fastpath_enabled, fast)
        if "torch._dynamo" in sys.modules:  # else nothing can be compiled
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        yield


class _Generate:
    """A model's own ``generate``, which also keeps the ids that it returns."""

    def __init__(self, model: nn.Module, kept: list[Tensor]) -> None:
        own: Any = model
        self._model, self._own, self._kept = model, own.generate, kept

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        returned = self._own(*args, **kwargs)
        sequences = getattr(returned, "sequences", returned)
        if isinstance(sequences, Tensor) and sequences.dim() == 2:
            self._kept[:] = [one.detach().cpu() for one in sequences]
        return returned

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self._model, "generate")  # a copy of the model has its own


@contextmanager
def returned_sequences(model: nn.Module) -> Iterator[list[Tensor]]:
    """Keep the ids, int64 [T] each, that the model's ``generate`` returned last."""
    kept: list[Tensor] = []
    if not callable(getattr(model, "generate", None)) or "generate" in vars(model):
        yield kept
        return
    vars(model)["generate"] = _Generate(model, kept)
    try:
        yield kept
    finally:
        vars(model).pop("generate", None)


@contextmanager
def same_chances(model: nn.Module) -> Iterator[None]:
    """Put back random state and buffers: a second run has what the first had."""
    buffers = [(one, one.detach().clone()) for one in model.buffers()]
    # of all GPUs in use: a model may draw where none of its parameters are
    in_use = torch.cuda.is_initialized()
    gpus = range(torch.cuda.device_count()) if in_use else range(0)
    with torch.random.fork_rng(devices=gpus):
        yield
    with torch.no_grad():
        for one, before in buffers:
            if _differs(one, before):
                one.copy_(before)


def _differs(one: Tensor, before: Tensor) -> bool:
    try:
        return not torch.equal(one, before)
    except Exception:  # sparse, nested: nothing compares them
        return not one.is_meta
