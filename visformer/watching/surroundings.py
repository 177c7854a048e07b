"""What watching changes around a model, and puts back."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from visformer.watching.module_calls import ModuleCalls


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


@dataclass(slots=True)
class Generated:
    """What a model's ``generate`` returned last; nothing if it was not called."""

    sequences: list[Tensor] = field(default_factory=list)  # int64 [T] each
    sentences: int = 1  # that it was given
    calls: range = range(0)  # the numbers of the calls that it made


class _Generate:
    """A model's own ``generate``, which also keeps the ids that it returns."""

    def __init__(self, model: nn.Module, calls: ModuleCalls, kept: Generated) -> None:
        own: Any = model
        self._model, self._own = model, own.generate
        self._calls, self._kept = calls, kept

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        first = self._calls.count + 1
        returned = self._own(*args, **kwargs)
        sequences = getattr(returned, "sequences", returned)
        if isinstance(sequences, Tensor) and sequences.dim() == 2:
            leaves = tree_leaves((args, kwargs))
            given = [x for x in leaves if isinstance(x, Tensor) and x.dim() > 1]
            self._kept.sequences = [one.detach().cpu() for one in sequences]
            self._kept.sentences = len(given[0]) if given else 1
            self._kept.calls = range(first, self._calls.count + 1)
        return returned

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self._model, "generate")  # a copy of the model has its own


@contextmanager
def generated_sequences(model: nn.Module, calls: ModuleCalls) -> Iterator[Generated]:
    """Keep what the model's ``generate`` returned last."""
    kept = Generated()
    if not callable(getattr(model, "generate", None)) or "generate" in vars(model):
        yield kept
        return
    vars(model)["generate"] = _Generate(model, calls, kept)
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
