"""Copies of a decoder's matrices, packed for the computation of single rows.

Query, key and value are side by side, and each matrix is stored in the order in which
vector x matrix is fastest: up to twice as fast as ``F.linear``'s [out, in].

Scripts edit a checkpoint's model: they zero a head, load other weights, add hooks to a
layer. What was computed or packed before is then outdated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
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
from visformer.values.arrays import Floats
from visformer.values.config import ModelConfig
from visformer.values.row_columns import Columns


@dataclass(frozen=True, slots=True, eq=False)
class Product:
    """x W + b by numpy on one thread.

    For one vector, and for a wide W, its BLAS is twice as fast as torch's.
    """

    bias: Floats | None
    weight: Floats  # [in, out]

    def __call__(self, x: Floats) -> Floats:
        """[..., in] -> [..., out]."""
        product: Floats = np.dot(x, self.weight)
        if self.bias is not None:
            product += self.bias
        return product

    def into(self, x: Floats, out: Floats) -> Floats:
        """[in] -> ``out`` [out]."""
        np.dot(x, self.weight, out=out)
        if self.bias is not None:
            out += self.bias
        return out


class Affine:
    """x W + b for one or several layers that read the same x, side by side."""

    def __init__(self, *linears: nn.Linear) -> None:
        self._linears = linears
        weight = torch.cat([linear.weight for linear in linears])  # [out, in]
        wide = weight.shape[0] >= weight.shape[1]
        # memory is read fastest along the longer side
        self.weight = weight.T.contiguous() if wide else weight.T  # [in, out]
        biases: list[Tensor] = [
            linear.weight.new_zeros(linear.out_features)
            if linear.bias is None
            else linear.bias
            for linear in linears
        ]
        self.bias = torch.cat(biases)  # [out]
        self._mark = self._fingerprint()

    def is_current(self) -> bool:
        """Whether the layers still hold the numbers that were copied.

        Each matrix is read once, in a product: a difference too small to change its
        result would not show in a row either.
        """
        return torch.equal(self._fingerprint(), self._mark)

    def _fingerprint(self) -> Tensor:
        """Return one number per output, as bits, so that NaN equals itself."""
        marks = []
        for linear in self._linears:
            weight, bias = linear.weight, linear.bias
            mark = torch.mv(weight, _probe(weight.shape[1], weight.device))  # [out]
            marks.append(mark if bias is None else torch.cat([mark, bias]))
        return torch.cat(marks).view(torch.int32)

    def __call__(self, x: Tensor) -> Tensor:
        """[N, in] -> [N, out]."""
        return torch.addmm(self.bias, x, self.weight)

    def into(self, x: Tensor, out: Tensor) -> Tensor:
        """[N, in] -> ``out`` [N, out]."""
        return torch.addmm(self.bias, x, self.weight, out=out)

    @cached_property
    def product(self) -> Product:
        """The same for one vector, sharing the memory; only on the CPU."""
        biased = any(linear.bias is not None for linear in self._linears)
        return Product(self.bias.numpy() if biased else None, self.weight.numpy())


@lru_cache(maxsize=16)
def _probe(size: int, device: torch.device) -> Tensor:
    """Return random numbers from 1 to 2, so that every weight affects a product."""
    drawn = torch.rand(size, generator=torch.Generator().manual_seed(0))
    return (1 + drawn).to(device)  # [size]


Function = Callable[[Tensor], Tensor]


def _function(norm: nn.Module) -> Function:
    """Return a norm as a plain function: calling a module costs more than the norm."""
    if type(norm) is not nn.LayerNorm:
        return norm
    shape, weight, bias, eps = norm.normalized_shape, norm.weight, norm.bias, norm.eps

    def function(x: Tensor) -> Tensor:
        return torch.layer_norm(x, shape, weight, bias, eps)

    return function


class PackedLayer(NamedTuple):
    """The packed matrices of one decoder layer."""

    qkv: Affine
    self_output: Affine
    cross_query: Affine
    cross_output: Affine
    w1: Affine
    gate: Affine | None
    w2: Affine
    norms: tuple[Function, Function, Function]  # self, cross, feed-forward
    layer: Layer


class PackedDecoder:
    """A model's decoder, packed with the weights that it has at that time."""

    @torch.no_grad()
    def __init__(self, model: Transformer, columns: Columns) -> None:
        self._stamp = ModelStamp(model)
        self.model, self.columns = model, columns
        self.layers = [self._pack(layer) for layer in model.decoder]
        self.output = Affine(model.output)  # [D, V]
        name = model.config.activation
        # in place: nobody else reads what is activated
        self.activation = torch.relu_ if name == "relu" else ACTIVATIONS[name]
        parts = [part for layer in self.layers for part in layer]
        self._affines = [part for part in parts if isinstance(part, Affine)]
        self._affines.append(self.output)

    @torch.no_grad()
    def is_current(self) -> bool:
        """Whether the model is unchanged since packing, judged by its numbers."""
        return self.is_stamped() and all(part.is_current() for part in self._affines)

    def is_stamped(self) -> bool:
        """Whether the model is unchanged since packing, judged by torch's counters."""
        return self._stamp.holds()

    @staticmethod
    def _pack(layer: Layer) -> PackedLayer:
        self_attention, cross, feed = (
            layer.self_attention,
            layer.cross_attention,
            layer.feed_forward,
        )
        return PackedLayer(
            Affine(self_attention.query, self_attention.key, self_attention.value),
            Affine(self_attention.output),
            Affine(cross.query),
            Affine(cross.output),
            Affine(feed.w1),
            None if feed.gate is None else Affine(feed.gate),
            Affine(feed.w2),
            (
                _function(layer.self_attention_norm),
                _function(layer.cross_attention_norm),
                _function(layer.feed_forward_norm),
            ),
            layer,
        )

    def logits(self, output: Tensor) -> Tensor:
        """Project decoder output [N, D] -> [N, V]."""
        alone = len(output) == 1 or torch.get_num_threads() == 1
        if not alone or output.device.type != "cpu":
            return self.output(output)
        return torch.from_numpy(self.output.product(output.numpy()))


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
