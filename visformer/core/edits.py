"""Whether a model is unchanged, and whether its decoder may run packed.

Scripts edit a checkpoint's model: they zero a head, load other weights, add hooks to a
layer. What was computed or packed before is then outdated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module

from visformer.core.model import Layer, Stack, Transformer
from visformer.core.parts import (
    ACTIVATIONS,
    Attention,
    Dropout,
    FeedForward,
    UnbiasedNorm,
)
from visformer.values.config import ModelConfig


class ModelStamp:
    """A model's tensors, modules and hooks at one moment.

    They are compared by identity, and tensors by the writes that torch counts: about
    30 us, so every step can check. A write that torch does not count (through ``.data``
    or a numpy view) goes unnoticed.
    """

    def __init__(self, model: Transformer) -> None:
        modules = list(model.modules())
        owners = (m.__dict__[name] for m in modules for name in _OWNERS)
        self._owners: list[dict[str, Any]] = [owner for owner in owners if owner]
        self._entries = list(
            _values(self._owners)
        )  # kept alive, so that no id is reused
        tensors = (entry for entry in self._entries if isinstance(entry, Tensor))
        self._tensors = [tensor for tensor in tensors if not tensor.is_inference()]
        watched = list(_decoder_modules(model))
        self._states = [module.__dict__ for module in watched]
        settings = _settings(model.config)
        self._set = [
            (module.__dict__, key)
            for module in watched
            for key in settings.get(type(module), ())
        ]
        self._hooks = [state[name] for state in self._states for name in _HOOKS]
        self._hooks += _GLOBAL_HOOKS
        self._seen = self._look()

    def holds(self) -> bool:
        """Whether nothing was written, replaced, set, added or removed since."""
        return self._look() == self._seen

    def _look(self) -> tuple[list[Any], ...]:
        return (
            [tensor._version for tensor in self._tensors],
            [*map(id, _values(self._owners))],
            [*chain.from_iterable(self._hooks)],  # a hook's key is never reused
            [*map(len, self._states)],  # a method that overrides the class's
            [state.get(key) for state, key in self._set],
        )


_OWNERS = ("_parameters", "_buffers", "_modules")
_HOOKS = ("_forward_hooks", "_forward_pre_hooks")
_GLOBAL_HOOKS = [
    torch_module._global_forward_hooks,
    torch_module._global_forward_pre_hooks,
]


def _values(owners: list[dict[str, Any]]) -> Iterator[Any]:
    return chain.from_iterable(map(dict.values, owners))


def packable(model: Transformer) -> bool:
    """Whether packed rows compute exactly what the decoder's own modules would.

    They do not if a hook, a parametrization or another module has to run, or if a
    module's settings differ from the config.
    """
    if any(_GLOBAL_HOOKS):
        return False
    if not _PASSES.isdisjoint(vars(model)) or model.scale != _scale(model.config):
        return False
    if model.output.weight.dtype is not torch.float32:
        return False
    settings = _settings(model.config)
    return all(_is_plain(module, settings) for module in _decoder_modules(model))


_PASSES = {"decode", "embed", "forward", "position_table"}  # replaced on one model


def _decoder_modules(model: Transformer) -> Iterator[nn.Module]:
    yield from model.decoder.modules()
    yield model.target_embedding
    yield model.output
    yield model.dropout


def _scale(config: ModelConfig) -> float:
    return math.sqrt(config.d_model) if config.embedding_scale else 1.0


def _settings(config: ModelConfig) -> dict[type[nn.Module], dict[str, Any]]:
    """Return the modules that can be packed, with the settings of each."""
    eps = {"eps": config.norm_eps}
    return {
        Stack: {},
        nn.ModuleList: {},
        nn.Linear: {},
        nn.Embedding: {"max_norm": None},
        nn.Identity: {},
        Dropout: {},
        nn.LayerNorm: eps,
        nn.RMSNorm: eps,
        UnbiasedNorm: eps,
        Layer: {"norm_first": config.norm_first},
        FeedForward: {"activation": ACTIVATIONS[config.activation]},
        Attention: {
            "heads": config.heads,
            "masked_value": config.masked_value,
            "divisor": None,
        },
    }


def _is_plain(
    module: nn.Module, settings: Mapping[type[nn.Module], Mapping[str, Any]]
) -> bool:
    own = settings.get(type(module))
    if own is None or module._forward_hooks or module._forward_pre_hooks:
        return False
    state = module.__dict__
    return "forward" not in state and all(state[key] == own[key] for key in own)
