"""Copies of a decoder's matrices, packed for the computation of single rows.

Query, key and value are side by side, and each matrix is stored in the order in which
vector x matrix is fastest: up to twice as fast as ``F.linear``'s [out, in].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from visformer.core.edits import ModelStamp
from visformer.core.model import Layer, Transformer
from visformer.core.parts import ACTIVATIONS
from visformer.values.arrays import Floats
from visformer.values.row_columns import Columns


@dataclass(frozen=True, slots=True, eq=False)
class Product:
    """x W + b for one vector, by numpy: its BLAS reads W twice as fast as torch's."""

    bias: Floats
    weight: Floats  # [in, out]

    def __call__(self, x: Floats) -> Floats:
        """[in] -> [out]."""
        product: Floats = np.dot(x, self.weight)
        product += self.bias
        return product

    def into(self, x: Floats, out: Floats) -> Floats:
        """[in] -> ``out`` [out]."""
        np.dot(x, self.weight, out=out)
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
        self.bias = torch.cat(biases)
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
            mark = torch.mv(weight, _probe(weight.shape[1], weight.device))
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
        return Product(self.bias.numpy(), self.weight.numpy())


@lru_cache(maxsize=16)
def _probe(size: int, device: torch.device) -> Tensor:
    """Return random numbers from 1 to 2, so that every weight affects a product."""
    drawn = torch.rand(size, generator=torch.Generator().manual_seed(0))
    return (1 + drawn).to(device)


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
        self.activation = ACTIVATIONS[model.config.activation]
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
        if len(output) > 1 or output.device.type != "cpu":
            return self.output(output)
        return torch.from_numpy(self.output.product(output[0].numpy()))[None]
