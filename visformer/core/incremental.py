"""Decoding with a cache: each new row costs one row, and leaves everything it computed.

The layers' matrices are packed once: query, key and value side by side and stored
[in, out], which a single row multiplies twice as fast as ``F.linear``'s [out, in].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from visformer.core.masks import RULES, causal_mask
from visformer.core.model import Layer, Transformer
from visformer.core.parts import (
    ACTIVATIONS,
    Attention,
    split_heads,
)
from visformer.core.positions import PASS, STEP, Places
from visformer.trace import Layout

CHUNK = 1024  # rows that one pass extends by, so that no long [H, Q, K] exists


class Affine(NamedTuple):
    """x W + b with W stored [in, out]."""

    bias: Tensor
    weight: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """[N, in] -> [N, out]."""
        return torch.addmm(self.bias, x, self.weight)

    def into(self, x: Tensor, out: Tensor) -> Tensor:
        """[N, in] -> ``out`` [N, out]."""
        return torch.addmm(self.bias, x, self.weight, out=out)


def _affine(*linears: nn.Linear) -> Affine:
    weight = torch.cat([linear.weight for linear in linears]).T.contiguous()
    biases: list[Tensor] = [
        linear.weight.new_zeros(linear.out_features)
        if linear.bias is None
        else linear.bias
        for linear in linears
    ]
    return Affine(torch.cat(biases), weight)


Function = Callable[[Tensor], Tensor]


class Sublayer(NamedTuple):
    """The norm around a sublayer; where it stands is asked once, when packing."""

    enter: Function | None  # the norm before it
    leave: Function | None  # the norm after the residual


def _sublayer(norm: nn.Module, norm_first: bool) -> Sublayer:
    function: Function = norm
    if type(norm) is nn.LayerNorm:  # a module's call costs more than the norm of a row
        shape, weight, bias, eps = (
            norm.normalized_shape,
            norm.weight,
            norm.bias,
            norm.eps,
        )

        def function(x: Tensor) -> Tensor:
            return torch.layer_norm(x, shape, weight, bias, eps)

    return Sublayer(function, None) if norm_first else Sublayer(None, function)


class PackedLayer(NamedTuple):
    """One decoder layer's matrices, packed."""

    qkv: Affine
    self_output: Affine
    cross_query: Affine
    cross_output: Affine
    expand: Affine
    gate: Affine | None
    contract: Affine
    around: tuple[Sublayer, Sublayer, Sublayer]
    layer: Layer


class PackedDecoder:
    """A model's decoder, packed for rows; reads the model's weights once."""

    @torch.no_grad()
    def __init__(self, model: Transformer, layout: Layout) -> None:
        self.model, self.layout = model, layout
        self.layers = [self._pack(layer) for layer in model.decoder]
        self.output = _affine(model.output)  # [D, V]
        self.activation = ACTIVATIONS[model.config.activation]

    @staticmethod
    def _pack(layer: Layer) -> PackedLayer:
        own, cross = layer.self_attention, layer.cross_attention
        return PackedLayer(
            _affine(own.query, own.key, own.value),
            _affine(own.output),
            _affine(cross.query),
            _affine(cross.output),
            _affine(layer.feed_forward.expand),
            _affine(layer.feed_forward.gate) if layer.feed_forward.gated else None,
            _affine(layer.feed_forward.contract),
            (
                _sublayer(layer.self_attention_norm, layer.norm_first),
                _sublayer(layer.cross_attention_norm, layer.norm_first),
                _sublayer(layer.feed_forward_norm, layer.norm_first),
            ),
            layer,
        )

    def warm_up(self) -> None:
        """Run two rows, so that the first real step is as fast as any."""
        memory = self.output.weight.new_zeros(1, 2, self.output.weight.shape[0])
        readable = torch.ones(1, 2, dtype=torch.bool, device=memory.device)
        state = DecoderState(self, memory, readable, 2)
        for _ in range(2):
            state.extend(torch.zeros(1, 1, dtype=torch.int64, device=memory.device))

    def logits(self, output: Tensor) -> Tensor:
        """Project decoder output [N, D] -> [N, V]."""
        return self.output(output)


class DecoderState:
    """The rows decoded so far of B sentences: their keys, values and ids."""

    @torch.no_grad()
    def __init__(
        self, packed: PackedDecoder, memory: Tensor, readable: Tensor, limit: int
    ) -> None:
        """``memory`` [B, S, D] is the encoder output, ``readable`` bool [B, S].

        ``whole_pass`` places the rows as a whole pass does, where steps differ from it.
        """
        self.packed = packed
        config = packed.model.config
        self.hides, self.whole_pass = RULES[config.mask_rule], False
        self.length, self.limit = 0, limit
        batch, heads = memory.shape[0], config.heads
        self.memory_rows = torch.cat(  # [B, S, 2 L D]: k, v of each layer
            [
                project(memory)
                for part in packed.layers
                for project in _memory_projections(part.layer.cross_attention)
            ],
            dim=-1,
        )
        parts = self.memory_rows.split(config.d_model, -1)
        self.memory = [split_heads(part, heads).contiguous() for part in parts]
        hidden = self.hides.source_keys and not bool(readable.all())
        self.readable = readable[:, None, None] if hidden else None
        shape = (2 * len(packed.layers), batch, heads, limit, config.head_size)
        self.cache = memory.new_empty(shape)
        self.visible: Tensor | None = None  # bool [B, length], None: all
        self._nothing = memory.new_zeros(1, 1, 1)

    @property
    def places(self) -> Places:
        """Which positions the rows get."""
        axis = self.packed.model.config.position_axis
        return (PASS if self.whole_pass else STEP)[axis]

    @torch.inference_mode()
    def extend(self, ids: Tensor, visible: Tensor | None = None) -> Tensor:
        """Run rows for ids [B, n] -> what they computed, [B, n, W] as in ``Layout``.

        ``visible`` bool [B, n] is False where a token is a pad: what that hides, the
        config's mask rule says.
        """
        rows = [
            self._extend(part, None if visible is None else visible[:, i : i + CHUNK])
            for i, part in zip(
                range(0, ids.shape[1], CHUNK), ids.split(CHUNK, 1), strict=True
            )
        ]
        return rows[0] if len(rows) == 1 else torch.cat(rows, 1)

    def shorten(self, length: int) -> None:
        """Forget the rows from ``length`` on."""
        self.length = min(self.length, length)
        if self.visible is not None:
            self.visible = self.visible[:, : self.length]

    def select(self, rows: Tensor) -> None:
        """Keep (and repeat) these sentences: int [B']; for beam search."""
        self.cache[:, :, :, : self.length] = self.cache[:, rows, :, : self.length]
        if self.visible is not None:
            self.visible = self.visible[rows]

    def _extend(self, ids: Tensor, visible: Tensor | None) -> Tensor:
        batch, count = ids.shape
        start, stop = self.length, self.length + count
        model, layout = self.packed.model, self.packed.layout
        rows = self.cache.new_empty(batch * count, layout.width("decoder"))
        x = rows[:, layout.hidden("decoder", 0)]
        x.copy_(model.embed("target", ids, start, places=self.places).flatten(0, 1))
        masks = self._mask(count, visible, batch), self._cross_mask(visible)
        self.length = stop
        for index, part in enumerate(self.packed.layers):
            x = self._layer(index, part, x, rows, masks)
            rows[:, layout.hidden("decoder", index + 1)] = x
        if model.config.final_norm:
            rows[:, layout.output("decoder")] = model.decoder.norm(x)
        return rows.view(batch, count, -1)

    def _mask(self, count: int, visible: Tensor | None, batch: int) -> Tensor | None:
        """Self-attention mask of the new rows, [B, 1, n, length]; None: all allowed."""
        device = self.cache.device
        if self.hides.target_keys and (visible is not None or self.visible is not None):
            old, new = self.visible, visible
            if old is None:
                old = torch.ones(batch, self.length, dtype=torch.bool, device=device)
            if new is None:
                new = torch.ones(batch, count, dtype=torch.bool, device=device)
            self.visible = torch.cat([old, new], 1)
        rows = visible if self.hides.target_rows else None
        if count == 1 and self.visible is None and rows is None:
            return None
        mask = causal_mask(self.length + count, device)[None, None, self.length :]
        if self.visible is not None:
            mask = mask & self.visible[:, None, None]
        return mask if rows is None else mask & rows[:, None, :, None]

    def _cross_mask(self, visible: Tensor | None) -> Tensor | None:
        """Cross attention mask of the new rows, to broadcast; None: all allowed."""
        if visible is None or not self.hides.cross_rows:
            return self.readable
        rows = visible[:, None, :, None]
        if self.readable is not None:
            return rows & self.readable
        return rows.expand(-1, -1, -1, self.memory[0].shape[2])

    def _layer(
        self,
        index: int,
        part: PackedLayer,
        x: Tensor,
        rows: Tensor,
        masks: tuple[Tensor | None, Tensor | None],
    ) -> Tensor:
        """Run one layer on new rows [B n, D]; leave q, k, v, cross q in ``rows``."""
        first = self.packed.layout.part("decoder", index, 0).start
        width = x.shape[1]
        own, cross, feed = part.around

        normed = own.enter(x) if own.enter else x
        made = part.qkv.into(normed, rows[:, first : first + 3 * width])
        k, v = self._remember(index, made)
        x = x + part.self_output(self._attend(made[:, :width], k, v, masks[0]))
        x = own.leave(x) if own.leave else x

        normed = cross.enter(x) if cross.enter else x
        query = rows[:, first + 3 * width : first + 4 * width]
        part.cross_query.into(normed, query)
        k, v = self.memory[2 * index], self.memory[2 * index + 1]
        x = x + part.cross_output(self._attend(query, k, v, masks[1]))
        x = cross.leave(x) if cross.leave else x

        normed = feed.enter(x) if feed.enter else x
        inner = self.packed.activation(part.expand(normed))
        if part.gate is not None:
            inner = inner * part.gate(normed)
        x = x + part.contract(inner)
        return feed.leave(x) if feed.leave else x

    def _remember(self, index: int, made: Tensor) -> tuple[Tensor, Tensor]:
        """Store the new keys and values -> all of them, [B, H, length, d] each."""
        _, batch, heads, _, size = self.cache.shape
        parts = made.view(batch, -1, 3, heads, size).permute(2, 0, 3, 1, 4)[1:]
        stored = self.cache[2 * index : 2 * index + 2]
        stored[:, :, :, self.length - parts.shape[3] : self.length] = parts
        seen = stored[:, :, :, : self.length]
        return seen[0], seen[1]

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        """Q [B n, D], k and v [B, H, K, d] -> heads joined [B n, D].

        ``attention_weights`` in fewer calls: heads of all sentences side by side.
        """
        batch, heads, keys, size = k.shape
        split = (
            q.view(batch, -1, heads, size)
            .transpose(1, 2)
            .reshape(-1, len(q) // batch, size)
        )
        scores = torch.baddbmm(
            self._nothing, split, k.flatten(0, 1).mT, beta=0, alpha=size**-0.5
        )
        if mask is not None:
            fill = self.packed.model.config.mask_fill
            scores.view(batch, heads, -1, keys).masked_fill_(~mask, fill)
        z = torch.bmm(scores.softmax(-1), v.flatten(0, 1))
        return z.view(batch, heads, -1, size).transpose(1, 2).reshape(-1, heads * size)


def _memory_projections(attention: Attention) -> tuple[nn.Linear, nn.Linear]:
    return attention.key, attention.value


def most_probable(logits: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return probabilities, best ids (best first) and entropy in bits, [N, .]."""
    log_p = F.log_softmax(logits, -1)
    p = log_p.exp()
    entropy = -(p * log_p).nan_to_num().sum(-1) / math.log(2)
    return p, p.topk(min(count, p.shape[-1]), -1).indices, entropy
