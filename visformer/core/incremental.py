"""Decoding with a cache: only new rows are computed, and all they compute is kept."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from visformer.core.loaded import Loaded
from visformer.core.mask_rules import RULES, causal_mask, make_masks
from visformer.core.model import StackRecord
from visformer.core.modified import LayeredMasks, modified_masks
from visformer.core.packed import Function, PackedDecoder, PackedLayer
from visformer.core.parts import (
    attend,
    feed_forward,
    rows_shared,
    split_heads,
    through_sublayers,
)
from visformer.core.pauses import pause
from visformer.core.rows import memory_rows, stack_rows
from visformer.values.arrays import Floats
from visformer.values.encodings import PASS_LOOKUP, STEP_LOOKUP, Lookup
from visformer.values.intervention import NO_CHANGES, Intervention
from visformer.values.row_columns import Columns

CHUNK = 1024  # rows computed at once, so that [H, Q, K] stays small
ROOM = 16  # rows of a cache of several hypotheses at first


class DecoderState:
    """The keys and values of the rows decoded so far, of N hypotheses.

    There are as many of each of B sentences, whose memory they share.
    """

    @torch.no_grad()
    def __init__(
        self,
        packed: PackedDecoder,
        memory: Sequence[Tensor],
        readable: Tensor,
        limit: int,
        *,
        beams: int = 1,
    ) -> None:
        """``memory`` is as of ``remembered``, ``readable`` bool [B, S].

        ``whole_pass`` gives rows the positions of a whole pass, if steps differ.
        """
        self.packed, self.memory = packed, [*memory]
        config, device = packed.model.config, readable.device
        self.padding, self.whole_pass = RULES[config.mask_rule], False
        self.length, self.limit = 0, limit
        hidden = self.padding.source_keys and not bool(readable.all())
        self.readable = readable[:, None] if hidden else None  # [B, 1, S]
        batch = beams * len(readable)
        captured = batch == 1 and device.type == "cuda"
        self.cache = self._empty(batch, limit if captured else min(limit, ROOM))
        self._spare = self.cache[:0]  # memory that is used in turn with the cache's
        self.visible: Tensor | None = None  # bool [N, length], None: all
        alone = batch == 1 and device.type == "cpu"
        self._one_row = OneRow(packed, self.memory) if alone else None
        self._captured = CapturedRow(packed, self.cache) if captured else None

    def _empty(self, batch: int, room: int) -> Tensor:
        """Return a cache of no contents, [N, 2 L, H, room, d].

        Hypotheses are copied by their rows, so each row of several lies in one piece.
        """
        config, layers = self.packed.model.config, 2 * len(self.packed.layers)
        shape = batch, layers, config.heads, room, config.head_size
        if batch == 1:
            return self.memory[0].new_empty(shape)
        strided = self.memory[0].new_empty(batch, room, layers, *shape[2::2])
        return strided.permute(0, 2, 3, 1, 4)

    @property
    def lookup(self) -> Lookup:
        """How the rows look up their positions."""
        axis = self.packed.model.config.position_axis
        return (PASS_LOOKUP if self.whole_pass else STEP_LOOKUP)[axis]

    @torch.inference_mode()
    def extend(self, ids: Tensor, visible: Tensor | None = None) -> Tensor:
        """Run rows for ids [N, n] -> what they computed, [N, n, W] as in ``Columns``.

        ``visible`` bool [N, n] is False for pads; the config's mask rule decides what
        that hides.
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
        if self._captured and length < self.length:
            self.cache[..., length : self.length, :] = 0  # it reads them, NaN or not
        self.length = min(self.length, length)
        if self.visible is not None:
            self.visible = self.visible[:, : self.length]

    def keep(self, rows: Tensor, sentences: Tensor | None) -> None:
        """Keep (and repeat) these hypotheses int [N'], of these sentences."""
        if sentences is not None:
            moved = _moved(sentences)
            for part in self.memory:
                part[moved] = part[sentences[moved]]
            self.memory = [part[: len(sentences)] for part in self.memory]
            self.readable = None if self.readable is None else self.readable[sentences]
        moved = _moved(rows)
        seen = self.cache[..., : self.length, :]
        if 3 * len(moved) > len(rows):  # new memory would cost more than its contents
            if len(self._spare) < len(rows):
                self._spare = self._empty(len(rows), self.cache.shape[3])
            made = self._spare[: len(rows)]
            torch.index_select(seen, 0, rows, out=made[..., : self.length, :])
            self._spare, self.cache = self.cache, made
        elif len(moved):
            seen[moved] = seen[rows[moved]]
        self.cache = self.cache[: len(rows)]
        if self.visible is not None:
            self.visible = self.visible[rows]

    def _extend(self, ids: Tensor, visible: Tensor | None) -> Tensor:
        batch, count = ids.shape
        start, stop = self.length, self.length + count
        masks = self._mask(count, visible, batch), self._cross_mask(visible)
        self._make_room(stop)
        self.length = stop
        plain = count == 1 and masks[0] is None and masks[1] is None
        if self._one_row and plain:
            row = self._one_row.extend(int(ids), start, self.lookup, self.cache)
            return torch.from_numpy(row)[None, None]
        x = self.packed.model.embed("target", ids, start, lookup=self.lookup)
        x = x.flatten(0, 1)  # [B n, D]
        if self._captured and plain:
            return self._captured.extend(x, start, self._layers)[None]
        width = self.packed.columns.width("decoder")
        rows = self.cache.new_empty(batch * count, width)  # [B n, W]
        self._layers(x, rows, masks)
        return rows.view(batch, count, -1)

    def _layers(
        self,
        x: Tensor,
        rows: Tensor,
        masks: tuple[Tensor | None, Tensor | None],
        at: Tensor | None = None,
    ) -> None:
        """Run all layers on [B n, D] and write what they compute to ``rows`` [B n, W].

        With ``at`` int [1] there is one row, whose place in the cache the CPU does not
        know; it reads the whole cache, of which ``masks`` hides what comes later.
        """
        model, columns = self.packed.model, self.packed.columns
        rows[:, columns.part("decoder", "hidden", 0)] = x
        for index, part in enumerate(self.packed.layers):
            x = self._layer(index, part, x, rows, masks, at)
            rows[:, columns.part("decoder", "hidden", index + 1)] = x
        if model.config.final_norm:
            rows[:, columns.output("decoder")] = model.decoder.norm(x)

    def _make_room(self, length: int) -> None:
        """Let the cache hold this many rows."""
        room = self.cache.shape[3]
        if length > room:
            larger = self._empty(
                len(self.cache), min(self.limit, max(2 * room, length))
            )
            larger[..., : self.length, :] = self.cache[..., : self.length, :]
            self.cache, self._spare = larger, larger[:0]

    def _mask(self, count: int, visible: Tensor | None, batch: int) -> Tensor | None:
        """Self-attention mask of the new rows, [B, n, length]; None: all allowed."""
        device = self.cache.device
        if self.padding.target_keys and (
            visible is not None or self.visible is not None
        ):
            old, new = self.visible, visible
            if old is None:
                old = torch.ones(batch, self.length, dtype=torch.bool, device=device)
            if new is None:
                new = torch.ones(batch, count, dtype=torch.bool, device=device)
            self.visible = torch.cat([old, new], 1)  # [B, length + n]
        rows = visible if self.padding.target_rows else None
        if count == 1 and self.visible is None and rows is None:
            return None
        mask = causal_mask(self.length + count, device)[None, self.length :]
        if self.visible is not None:
            mask = mask & self.visible[:, None]  # [B, n, length + n]
        return mask if rows is None else mask & rows[:, :, None]

    def _cross_mask(self, visible: Tensor | None) -> Tensor | None:
        """Cross attention mask of the new rows, to broadcast to [B, N / B n, S]."""
        if visible is None or not self.padding.cross_rows:
            return self.readable
        rows = visible.reshape(len(self.memory[0]), -1, 1)  # [B, N / B n, 1]
        return rows if self.readable is None else rows & self.readable

    def _layer(
        self,
        index: int,
        part: PackedLayer,
        x: Tensor,
        rows: Tensor,
        masks: tuple[Tensor | None, Tensor | None],
        at: Tensor | None,
    ) -> Tensor:
        """Run one layer on new rows [B n, D]; store q, k, v and cross q in ``rows``."""
        first = self.packed.columns.part("decoder", "queries", index).start
        width, hidden = x.shape[1], self.packed.model.config.masked_value

        def attend_back(x: Tensor) -> Tensor:
            qkv = part.qkv.into(x, rows[:, first : first + 3 * width])  # [B n, 3 D]
            k, v = self._remember(index, qkv, at)  # [B, H, length, d] each
            later = hidden if at is None else -math.inf  # which are no tokens yet
            z = self._attend(qkv[:, :width], k, v, masks[0], later)
            return part.self_output(z)

        def attend_across(x: Tensor) -> Tensor:
            query = rows[:, first + 3 * width : first + 4 * width]  # [B n, D]
            part.cross_query.into(x, query)
            k, v = self.memory[2 * index], self.memory[2 * index + 1]  # [B, H, S, d]
            return part.cross_output(self._attend(query, k, v, masks[1], hidden))

        def feed(x: Tensor) -> Tensor:
            activation = self.packed.activation
            return feed_forward(
                x, w1=part.w1, w2=part.w2, gate=part.gate, activation=activation
            )

        functions = (attend_back, attend_across, feed)
        norm_first = self.packed.model.config.norm_first
        sublayers = zip(functions, part.norms, strict=True)
        return through_sublayers(x, sublayers, norm_first=norm_first)

    def _remember(
        self, index: int, qkv: Tensor, at: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Store the new keys and values -> all of them, [B, H, length, d] each."""
        batch, _, heads, _, size = self.cache.shape
        parts = qkv.view(batch, -1, 3, heads, size).permute(0, 2, 3, 1, 4)[:, 1:]
        seen = self.cache[:, 2 * index : 2 * index + 2]  # [B, 2, H, room, d]
        if at is not None:
            seen.index_copy_(3, at, parts)
            return seen[:, 0], seen[:, 1]
        seen = seen[:, :, :, : self.length]
        seen[:, :, :, self.length - parts.shape[3] :] = parts  # [B, 2, H, length, d]
        return seen[:, 0], seen[:, 1]

    def _attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Tensor | None,
        masked_value: float,
    ) -> Tensor:
        """Attend from q [B n, D] to k and v [B, H, K, d] -> heads joined [B n, D]."""
        batch, heads = k.shape[:2]
        if len(q) == batch and q.device.type == "cpu":
            single: Floats = q.view(batch, heads, -1).numpy()
            z = attend_singly(single, k.numpy(), v.numpy(), mask, masked_value)
            return torch.from_numpy(z).flatten(1)
        q = split_heads(q.unflatten(0, (batch, -1)), heads)  # [B, H, n, d]
        return attend(q, k, v, mask, masked_value).flatten(0, 1)


@torch.no_grad()
def remembered(packed: PackedDecoder, memory: Tensor) -> list[Tensor]:
    """Return what is read of ``memory`` [B, S, D], the encoder's output.

    Of each layer these are the keys, then the values: [B, H, S, d] each.
    """
    parts: list[Tensor] = []
    for part in packed.layers:
        cross = part.layer.cross_attention
        for linear in (cross.key, cross.value):
            pause()
            apart = split_heads(rows_shared(linear, memory), cross.heads)
            parts.append(apart.contiguous())
    return parts


def warm_up(packed: PackedDecoder | None) -> None:
    """Run two rows, so that the first real step is as fast as the others."""
    if packed is None or packed.model.config.decoder_norm_length:
        return  # there are no single steps, or no packed ones
    memory = packed.output.weight.new_zeros(1, 2, packed.output.weight.shape[0])
    readable = torch.ones(1, 2, dtype=torch.bool, device=memory.device)
    state = DecoderState(packed, remembered(packed, memory), readable, 2)
    for _ in range(2):
        state.extend(torch.zeros(1, 1, dtype=torch.int64, device=memory.device))


class CapturedRow:
    """Extends the cache of one sentence on a GPU by one row, if nothing is masked.

    A row is some 200 kernels, which take the CPU longer to launch than the GPU to run.
    So they are captured as a CUDA graph, which one call launches. A graph works on the
    same memory each time: the row reads the whole cache, 0 where nothing is yet.
    """

    def __init__(self, packed: PackedDecoder, cache: Tensor) -> None:
        """``cache`` [1, 2 L, H, limit, d] is set to 0."""
        cache.zero_()
        width = packed.columns.width("decoder")
        self._x = cache.new_empty(1, packed.model.config.d_model)
        self._row = cache.new_empty(1, width)  # [1, W]
        self._at = cache.new_zeros(1, dtype=torch.int64)
        self._places = torch.arange(cache.shape[3], device=cache.device)
        self._loaded = False  # whether the kernels are on the GPU
        self._graph: torch.cuda.CUDAGraph | None = None

    def extend(self, x: Tensor, at: int, layers: Callable[..., None]) -> Tensor:
        """Run ``layers`` on the embedded token [1, D] at this index of the cache.

        Returns what they computed, [1, W] as in ``Columns``, until the next call.
        """
        self._x.copy_(x)
        self._at.fill_(at)
        if self._graph is None:
            self._begin(layers)
        if self._graph:
            self._graph.replay()
        return self._row

    def _begin(self, layers: Callable[..., None]) -> None:
        """Run the first row as any other; capture what runs for the second."""
        device = self._x.device
        now, stream = torch.cuda.current_stream(device), _capturing(device)
        # what another thread launches there would be captured as well
        with _CAPTURE, torch.cuda.stream(stream):
            stream.wait_stream(now)
            if self._loaded:
                graph = torch.cuda.CUDAGraph()
                graph.capture_begin(capture_error_mode="thread_local")
                try:
                    self._run(layers)
                finally:
                    graph.capture_end()
                self._graph = graph
            else:
                self._run(layers)
                self._loaded = True
            now.wait_stream(stream)

    def _run(self, layers: Callable[..., None]) -> None:
        seen = (self._places <= self._at)[None, None]  # [1, 1, room]
        layers(self._x, self._row, (seen, None), self._at)


_CAPTURE = threading.Lock()


@lru_cache
def _capturing(device: torch.device) -> torch.cuda.Stream:
    """Return one stream for all graphs: cuBLAS keeps memory for each stream."""
    return torch.cuda.Stream(device)


class OneRow:
    """Extends the cache of one sentence on a CPU by one row, if nothing is masked.

    A row consists of 25 or more vector-matrix products. numpy's BLAS reads a matrix
    about twice as fast for them as torch's, and its calls cost less: a step takes half
    the time. Norms, activations and softmaxes are torch's own functions, on the same
    memory.
    """

    def __init__(self, packed: PackedDecoder, memory: Sequence[Tensor]) -> None:
        """``memory`` holds the cross attention's keys and values, [1, H, S, d] each."""
        self._model = model = packed.model
        self._columns, self._activation = packed.columns, _on_arrays(packed.activation)
        self._embedding = model.target_embedding.weight.detach().numpy()
        self._embedding_scale = np.float32(model.scale)
        self._positions = model.position_table("target").detach()
        self._layers, self._norm_first = packed.layers, model.config.norm_first
        self._norms = [tuple(map(_on_arrays, part.norms)) for part in packed.layers]
        self._final = _on_arrays(model.decoder.norm)
        self._memory = [part[0].numpy() for part in memory]
        self._heads = model.config.heads

    def extend(self, id: int, at: int, lookup: Lookup, cache: Tensor) -> Floats:
        """Run the row that consumes token ``id`` at this index of the cache.

        Its keys and values are written to ``cache`` [1, 2 L, H, room, d]. Returns what
        was computed, [W] as in ``Columns``.
        """
        columns, kept = self._columns, cache[0].numpy()
        placed = lookup(self._positions, 1, slice(at, at + 1))
        x: Floats = self._embedding[id] * self._embedding_scale  # [D]
        x += placed.numpy().reshape(-1)
        row = np.empty(columns.width("decoder"), np.float32)  # [W]
        row[columns.part("decoder", "hidden", 0)] = x
        with np.errstate(all="ignore"):  # NaN of a broken model is shown, no warning
            for index, part in enumerate(self._layers):
                x = self._layer(index, part, x, row, kept[:, :, : at + 1])
                row[columns.part("decoder", "hidden", index + 1)] = x
        if self._model.config.final_norm:
            row[columns.output("decoder")] = self._final(x)
        return row

    def _layer(
        self, index: int, part: PackedLayer, x: Floats, row: Floats, cache: Floats
    ) -> Floats:
        """Run one layer on [D]; store q, k, v and the cross query in ``row``.

        The last row of ``cache`` [2 L, H, length, d] is the new one.
        """
        first, width = self._columns.part("decoder", "queries", index).start, len(x)

        def attend_back(x: Floats) -> Floats:
            qkv = row[first : first + 3 * width]  # [3 D]
            part.qkv.product.into(x, qkv)
            q, k, v = qkv.reshape(3, self._heads, -1)  # [H, d] each
            keys, values = cache[2 * index : 2 * index + 2]  # [H, length, d] each
            keys[:, -1], values[:, -1] = k, v
            z = attend_singly(q, keys, values)  # [H, d]
            return part.self_output.product(z.reshape(-1))

        def attend_across(x: Floats) -> Floats:
            query = row[first + 3 * width : first + 4 * width]  # [D]
            part.cross_query.product.into(x, query)
            keys, values = self._memory[2 * index], self._memory[2 * index + 1]
            z = attend_singly(query.reshape(self._heads, -1), keys, values)  # [H, d]
            return part.cross_output.product(z.reshape(-1))

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


def attend_singly(
    q: Floats,
    k: Floats,
    v: Floats,
    mask: Tensor | None = None,
    masked_value: float = 0.0,
) -> Floats:
    """Attend from one query q [..., d] each to k and v [..., K, d] -> [..., d].

    ``mask`` is bool, broadcast to [..., K]. torch multiplies so small matrices slowly.
    """
    made = np.matmul(k, q[..., None])[..., 0]  # [..., K]
    made *= np.float32(q.shape[-1] ** -0.5)
    scores = torch.from_numpy(made)
    if mask is not None:
        scores.masked_fill_(~mask, masked_value)
    z: Floats = np.matmul(scores.softmax(-1).numpy()[..., None, :], v)[..., 0, :]
    return z


def _moved(rows: Tensor) -> Tensor:
    """Return where these rows come from other places."""
    return (rows != torch.arange(len(rows), device=rows.device)).nonzero()[:, 0]


def _on_arrays(function: Function) -> Callable[[Floats], Floats]:
    """Turn a function of tensors into one of arrays, on the same memory."""
    return lambda x: function(torch.from_numpy(x)).numpy()


class DecoderRows:
    """The decoder rows of N hypotheses: of a cache where that is exact, else of passes.

    There are as many of each of B sentences, whose memory is kept once.
    A hook, a custom module or a change may let any row read any token; so may a pad
    (``settled``). Then only a pass over the same ids gives what ``run`` gives.
    """

    @torch.no_grad()
    def __init__(
        self,
        checkpoint: Loaded,
        memory: Tensor,
        real: Tensor,
        limit: int,
        change: Intervention = NO_CHANGES,
        *,
        beams: int = 1,
        parts: Sequence[Tensor] | None = None,
    ) -> None:
        """``memory`` [B, S, D] is the encoder output, ``real`` bool [B, S].

        ``parts`` is what ``remembered`` returns of it, where that is known.
        """
        self._checkpoint, self._memory, self._real = checkpoint, memory, real
        self._change, self._packed, self._limit = change, checkpoint.packed, limit
        self._output = Columns(checkpoint.facts).output("decoder")
        self.fed = False  # whether rows have the positions of one whole pass
        self._cache: DecoderState | None = None
        if self._packed is not None:
            packed = self._packed
            parts = remembered(packed, memory) if parts is None else parts
            self._cache = DecoderState(packed, parts, real, limit, beams=beams)
        else:
            start = torch.full((len(memory), 1), checkpoint.tokenizer.bos)
            record, _masks = self._pass(start.to(memory.device))
            self._memory_rows = memory_rows(record)  # [B, S, 2 L D]

    def for_beams(self, beams: int) -> DecoderRows:
        """Return rows of so many hypotheses, none of which is computed yet.

        There is one sentence, whose memory both have.
        """
        parts = None if self._cache is None else self._cache.memory
        return DecoderRows(
            self._checkpoint,
            self._memory,
            self._real,
            self._limit,
            self._change,
            beams=beams,
            parts=parts,
        )

    @property
    def memory_rows(self) -> Tensor:
        """The keys and values of the memory, [B, S, 2 L D]."""
        if self._cache is None:
            return self._memory_rows
        parts = [part.transpose(1, 2) for part in self._cache.memory]  # [B, S, H, d]
        return torch.cat(parts, 2).flatten(2)

    def settled(self, ids: Tensor) -> bool:
        """Whether no later token changes the rows of ids [N, T].

        A row without an allowed key attends to all keys, unless masked scores are
        infinite, which makes it NaN for good.
        """
        config, tokenizer = self._checkpoint.config, self._checkpoint.tokenizer
        if self._change.reaches_back or self._packed is None:
            return False
        padding, pads = RULES[config.mask_rule], ids == tokenizer.pad
        if config.masked_value == -math.inf or not bool(pads.any()):
            return True
        return not (
            padding.target_rows or (padding.target_keys and bool(pads[:, 0].any()))
        )

    def computed(self, ids: Tensor, first: int) -> tuple[Tensor, LayeredMasks | None]:
        """Compute the rows of ids [N, T] from ``first`` on, [N, n, W].

        Also returns the masks of a pass, if there was one.
        """
        cache, config = self._cache, self._checkpoint.config
        if cache is None or self._change.whole or not self.settled(ids):
            ids = ids.to(self._memory.device)
            record, masks = self._pass(ids)
            return stack_rows(record, final_norm=config.final_norm)[:, first:], masks
        cache.shorten(first)
        cache.whole_pass, length = self.fed, cache.length
        # passes may have made rows that it lacks
        device = self._memory.device
        fresh = ids[:, length:].to(device, non_blocking=True)  # [N, T - length]
        seen = ids != self._checkpoint.tokenizer.pad  # [N, T]
        visible = None
        if not bool(seen.all()):
            visible = seen[:, length:].to(device, non_blocking=True)
        return cache.extend(fresh, visible)[:, first - length :], None

    def _pass(self, ids: Tensor) -> tuple[StackRecord, LayeredMasks]:
        """Compute all rows of ids [N, T] together; returns the masks, too."""
        checkpoint, config = self._checkpoint, self._checkpoint.config
        shown, count = ids != checkpoint.tokenizer.pad, ids.shape[1]
        beams = len(ids) // len(self._memory)
        memory, real = (
            x.repeat_interleave(beams, 0) if beams > 1 else x
            for x in (self._memory, self._real)
        )
        original = make_masks(config.mask_rule, real, shown)
        opened = make_masks(config.mask_rule, real, shown, causal=False).decoder
        original = original._replace(cross=original.cross.expand(-1, count, -1))
        masks = modified_masks(self._change, config, original, opened)
        lookup = (PASS_LOOKUP if self.fed else STEP_LOOKUP)[config.position_axis]
        record = checkpoint.model.decode(
            ids, memory, masks.decoder, masks.cross, lookup
        )
        return record, masks

    def logits(self, rows: Tensor) -> Tensor:
        """Project rows [N, W] to logits [N, V]."""
        return self._checkpoint.logits_from(self._packed, rows[:, self._output])

    def next(self, consumed: Tensor) -> Tensor:
        """Return the logits [N, V] of what follows these ids [N, t]."""
        rows, _masks = self.computed(consumed, consumed.shape[1] - 1)
        return self.logits(rows[:, -1])

    def keep(self, rows: Tensor, sentences: Tensor | None) -> None:
        """Keep (and repeat) these hypotheses int [N'], of these sentences; None: all.

        Those of a sentence follow one another.
        """
        if sentences is not None:
            self._memory, self._real = self._memory[sentences], self._real[sentences]
        if self._cache is not None:
            self._cache.keep(rows, sentences)
