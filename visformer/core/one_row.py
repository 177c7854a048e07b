"""One new decoder row of one sentence on a CPU: what a step computes.

A row consists of 25 or more vector-matrix products. numpy's BLAS reads a matrix about
twice as fast for them as torch's, and its calls cost less: a step takes half the time.
Norms, activations and softmaxes are torch's own functions, on the same memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from visformer.core.packed import Function, PackedDecoder, PackedLayer
from visformer.core.parts import feed_forward, through_sublayers
from visformer.values.arrays import Floats
from visformer.values.encodings import Lookup


class OneRow:
    """Extends the cache of one sentence by one row, if nothing is masked."""

    def __init__(
        self, packed: PackedDecoder, cache: Tensor, memory: Sequence[Tensor]
    ) -> None:
        """``cache`` [2 L, 1, H, limit, d] will be written to; all are on the CPU.

        ``memory`` holds the cross attention's keys and values, [1, H, S, d] each.
        """
        self._model = model = packed.model
        self._columns, self._activation = packed.columns, _on_arrays(packed.activation)
        self._embedding = model.target_embedding.weight.detach().numpy()
        self._embedding_scale = np.float32(model.scale)
        self._positions = model.position_table("target").detach()
        self._layers, self._norm_first = packed.layers, model.config.norm_first
        self._norms = [tuple(map(_on_arrays, part.norms)) for part in packed.layers]
        self._final = _on_arrays(model.decoder.norm)
        self._cache = cache[:, 0].numpy()
        self._memory = [part[0].numpy() for part in memory]
        self._heads = model.config.heads
        self._scale = np.float32(model.config.head_size**-0.5)

    def extend(self, id: int, at: int, lookup: Lookup) -> Floats:
        """Run the row that consumes token ``id`` at this index of the cache.

        Returns what it computed, [W] as in ``Columns``.
        """
        columns = self._columns
        placed = lookup(self._positions, 1, slice(at, at + 1))
        x: Floats = self._embedding[id] * self._embedding_scale
        x += placed.numpy().reshape(-1)
        row = np.empty(columns.width("decoder"), np.float32)
        row[columns.part("decoder", "hidden", 0)] = x
        with np.errstate(all="ignore"):  # NaN of a broken model is shown, no warning
            for index, part in enumerate(self._layers):
                x = self._layer(index, part, x, row, at)
                row[columns.part("decoder", "hidden", index + 1)] = x
        if self._model.config.final_norm:
            row[columns.output("decoder")] = self._final(x)
        return row

    def _layer(
        self, index: int, part: PackedLayer, x: Floats, row: Floats, at: int
    ) -> Floats:
        """Run one layer on [D]; store q, k, v and the cross query in ``row``."""
        first, width = self._columns.part("decoder", "queries", index).start, len(x)

        def attend_back(x: Floats) -> Floats:
            qkv = row[first : first + 3 * width]
            part.qkv.product.into(x, qkv)
            q, k, v = qkv.reshape(3, self._heads, -1)  # [H, d] each
            keys, values = self._cache[2 * index], self._cache[2 * index + 1]
            keys[:, at], values[:, at] = k, v
            z = self._attend(q, keys[:, : at + 1], values[:, : at + 1])
            return part.self_output.product(z)

        def attend_across(x: Floats) -> Floats:
            query = row[first + 3 * width : first + 4 * width]
            part.cross_query.product.into(x, query)
            keys, values = self._memory[2 * index], self._memory[2 * index + 1]
            z = self._attend(query.reshape(self._heads, -1), keys, values)
            return part.cross_output.product(z)

        def feed(x: Floats) -> Floats:
            return feed_forward(
                x,
                w1=part.w1.product,
                w2=part.w2.product,
                gate=None if part.gate is None else part.gate.product,
                activation=self._activation,
            )

        functions = (attend_back, attend_across, feed)
        sublayers = zip(functions, self._norms[index], strict=True)
        return through_sublayers(x, sublayers, norm_first=self._norm_first)

    def _attend(self, q: Floats, k: Floats, v: Floats) -> Floats:
        """Attend from q [H, d] to k and v [H, K, d] -> heads joined [D]."""
        scores = np.matmul(k, q[:, :, None])[:, :, 0]
        scores *= self._scale
        weights = torch.from_numpy(scores).softmax(-1).numpy()
        z: Floats = np.matmul(weights[:, None], v).reshape(-1)
        return z


def _on_arrays(function: Function) -> Callable[[Floats], Floats]:
    """Turn a function of tensors into one of arrays, on the same memory."""
    return lambda x: function(torch.from_numpy(x)).numpy()
