"""CachedSteps: the next logits of a module of transformers, with its own cache."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

NAMES = "past_key_values", "cache"  # of the cache: until transformers 5.23, and since


class CachedSteps:
    """Computes what follows a target; what it has read of it is not read again."""

    def __init__(self, module: nn.Module, *, alone: bool) -> None:
        """Begin with a module as it is now; ``alone``: it has no encoder."""
        self._module: Any = module
        self._name = cache_name(module)
        self._alone = alone
        self._source: tuple[int, ...] = ()
        self._read: tuple[int, ...] = ()  # of the target
        self._encoded: Any = None
        self._cache: Any = None

    @torch.no_grad()
    def __call__(self, source: Sequence[int], target: Sequence[int]) -> Tensor:
        """Return the logits [V] after a target of at least one token."""
        target = tuple(target)
        if not self._alone and (self._source != tuple(source) or self._cache is None):
            self._cache, self._source = None, tuple(source)
            self._encoded = self._module.get_encoder()(
                input_ids=self._tensor(source), return_dict=True
            )
        grown = (
            len(self._read) < len(target) and target[: len(self._read)] == self._read
        )
        if self._cache is None or not grown:
            self._cache, self._read = None, ()
        fresh = target[len(self._read) :]
        name = "input_ids" if self._alone else "decoder_input_ids"
        inputs: dict[str, Any] = {name: self._tensor(fresh), self._name: self._cache}
        if not self._alone:
            inputs["encoder_outputs"] = self._encoded
        output = self._module(**inputs, use_cache=True, return_dict=True)
        self._cache, self._read = getattr(output, self._name), target
        logits: Tensor = output.logits[0, -1].float().cpu()
        return logits

    def _tensor(self, ids: Sequence[int]) -> Tensor:
        device = next(self._module.parameters()).device
        return torch.tensor([[*ids]], dtype=torch.long, device=device)


def cache_name(module: nn.Module) -> str:
    """Name a module's cache of keys and values; "" if it is stepped without one."""
    taken = inspect.signature(module.forward).parameters
    return next((name for name in NAMES if name in taken), "")
