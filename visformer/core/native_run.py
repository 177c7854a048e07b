"""NativeRun: one source through a native model; its decoder rows are kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from visformer.core.incremental import DecoderRows
from visformer.core.lens_rows import read_streams
from visformer.core.loaded import Loaded
from visformer.core.mask_rules import RULES, encoder_mask, real_tokens
from visformer.core.model import work
from visformer.core.models import Reached, SourceTokens
from visformer.core.modified import (
    LayeredMasks,
    host_mask,
    layer_masks,
    modified_checkpoint,
)
from visformer.core.next_tokens import NextTokens
from visformer.core.pauses import telling
from visformer.core.rows import common_start, empty_trace, host, stack_rows
from visformer.core.threads import few_threads
from visformer.errors import InputError
from visformer.values.arrays import Bools, Floats
from visformer.values.intervention import Intervention
from visformer.values.recording import Recording, Row
from visformer.values.step import Step
from visformer.values.trace import Trace


class NativeRun:
    """One source under one change; rows are computed once, unless a change forbids it.

    The model may be edited and hooked before a run, but not within it.
    """

    def __init__(
        self,
        loaded: Loaded,
        source: SourceTokens,
        change: Intervention,
        limit: int | None,
    ) -> None:
        self._stamp = loaded.stamp
        self._checkpoint = made = modified_checkpoint(loaded, change)
        self._change = change
        self.given, self.rules = (made.tokenizer.bos,), made.generation
        most = made.most_tokens(len(source.ids))
        self.limit = min(limit or most, made.config.max_positions)
        self._source = source
        self._start: Trace | None = None
        self._rows: DecoderRows
        self._recording: Recording

    @property
    def start(self) -> Trace:
        """The Trace before any decoder row (T = 0)."""
        if self._start is None:
            self._start = self._read(self._source)
        return self._start

    def _read(self, source: SourceTokens) -> Trace:
        """Encode the source; says at each pause how much of it is."""
        self._check_edits()
        checkpoint, config = self._checkpoint, self._checkpoint.config
        pad, layers = checkpoint.tokenizer.source_pad, config.encoder_layers
        ids = torch.tensor([source.ids], device=checkpoint.device)  # [1, S]
        real = real_tokens(config.mask_rule, ids, pad)  # [1, S]
        original = encoder_mask(config.mask_rule, real)
        original = original.expand(-1, len(source.ids), -1)  # [1, S, S]
        mask = layer_masks(self._change, "encoder", layers, original, original)
        amount = work(checkpoint.model, len(source.ids))

        def encoded() -> tuple[Tensor, Tensor]:
            """Return the rows of the source [S, W], and the output [1, S, D]."""
            with torch.inference_mode(), few_threads(amount):
                record = checkpoint.model.encode(ids, mask)
                rows = stack_rows(record, final_norm=config.final_norm)
                return rows[0], record.output

        with telling():
            rows, self._memory = encoded()
        self._encoder_rows = lambda: host(encoded()[0])
        with torch.inference_mode(), few_threads(amount):
            self._rows = DecoderRows(
                checkpoint, self._memory, real, self.limit, self._change
            )
        start = empty_trace(
            checkpoint,
            source,
            encoder=rows,
            memory=self._rows.memory_rows[0],
            mask=host_mask(mask, 0),
            intervention=self._change,
        )
        told = real[0].cpu().numpy()  # [S]
        self._readable: Bools = told | (not RULES[config.mask_rule].source_keys)
        start = replace(start, own_lens=partial(read_streams, checkpoint))
        self._recording = Recording(start, self.limit)
        return self._recording.trace()

    def to(
        self, consumed: Sequence[int], *, since: int = 0, fed: bool = False
    ) -> tuple[Reached, NextTokens]:
        """Compute the rows that consume these ids, from the first missing one on.

        Raises InputError if the model was edited since the run began.
        """
        source = self.start
        self._check_edits()
        self._use_positions(fed)
        ids, recording = torch.tensor([[*consumed]]), self._recording  # [1, T]
        known, count = common_start(recording.ids, consumed), len(consumed)
        settled = self._rows.settled(ids)
        first = known if settled or known == len(recording) == count else 0
        recording.shorten(first)
        tokens = count - (first if settled and not self._change.whole else 0)
        with torch.inference_mode(), few_threads(work(self._checkpoint.model, tokens)):
            rows = self._memory.new_empty(0, source.columns.width("decoder"))
            masks: LayeredMasks | None = None
            if first < count:
                computed, masks = self._rows.computed(ids, first)
                rows = computed[0]  # [T - first, W]
            asked = rows
            if since < first:
                kept = recording.trace().decoder_rows[since:]
                before = torch.tensor(kept, device=self._checkpoint.device)
                asked = torch.cat([before, rows])
            following = NextTokens(self._rows.logits(asked), rows)
        self._record(consumed, first, following.beside[0].numpy(), masks)
        return Reached(self._trace, settled * count), following

    def release(self) -> None:
        """Let go of the rows of the source; they are computed again when read."""
        start, rows = self.start, self._rows  # not self, which would be a cycle
        encoder = Released(start.encoder_rows, self._encoder_rows)
        memory = Released(start.memory_rows, lambda: host(rows.memory_rows[0]))
        self._start = self._recording.start = replace(
            start,
            encoder_rows=cast("Floats", encoder),
            memory_rows=cast("Floats", memory),
        )

    def beam_rows(self, beams: int) -> DecoderRows:
        """Return rows of so many hypotheses, which share the encoder's output."""
        self._check_edits()
        _encoded = self.start
        with torch.inference_mode():
            return self._rows.for_beams(beams)

    def _check_edits(self) -> None:
        if not self._stamp.holds():
            raise InputError(
                "The model's weights or hooks have changed since this sentence was "
                "started. Call restart, or make a new Decoding."
            )

    def _trace(self, steps: Sequence[Step], rows: int) -> Trace:
        return self._recording.trace(steps).until(rows)

    def _use_positions(self, fed: bool) -> None:
        """Drop the rows if they need other positions from now on."""
        restarts = self._checkpoint.config.position_axis == "restart"
        if restarts and self._rows.fed != fed:
            self._rows.fed = fed
            self._recording.shorten(0)

    def _record(
        self,
        consumed: Sequence[int],
        first: int,
        rows: Floats,
        masks: LayeredMasks | None,
    ) -> None:
        """Record the rows [n, W] from ``first`` on, as in ``Columns``."""
        checkpoint = self._checkpoint
        if masks is not None:
            decoder, cross = host_mask(masks.decoder, 0), host_mask(masks.cross, 0)
        for at, values in enumerate(rows, first):
            self_mask, cross_mask = (
                may_read(checkpoint, self._readable, consumed, at)
                if masks is None
                else (decoder[..., at, :], cross[..., at, :])
            )
            row = Row(
                id=consumed[at],
                token=checkpoint.tokenizer.target.token(consumed[at]),
                values=values,
                self_mask=self_mask,
                cross_mask=cross_mask,
            )
            self._recording.append(row)


class Released:
    """An array that is computed again when numpy or a pickle reads it, and then kept.

    An engine's rows of a long source are a third of its memory, and nobody reads them
    once they were sent.
    """

    ndim = 2

    def __init__(self, array: Floats, again: Callable[[], Floats]) -> None:
        self.shape: tuple[int, ...] = array.shape
        self._again = again
        self._made: Floats | None = None

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Floats:
        if self._made is None:
            self._made = self._again()
        return self._made if dtype is None else self._made.astype(dtype)

    def __getitem__(self, key: Any) -> Any:
        return np.asarray(self)[key]

    def __reduce__(self) -> Any:
        return np.asarray, (np.asarray(self),)


def may_read(
    checkpoint: Loaded, readable: Bools, consumed: Sequence[int], at: int
) -> tuple[Bools, Bools]:
    """Return what row ``at`` may attend to: bool [at + 1] of the target, and [S].

    ``readable`` bool [S] are the source tokens that a row of a real token may read.
    """
    padding = RULES[checkpoint.config.mask_rule]
    pad, seen = checkpoint.tokenizer.pad, np.ones(at + 1, bool)
    if padding.target_keys:
        seen = np.array(consumed[: at + 1]) != pad
    cross, nothing = readable, np.zeros_like
    if consumed[at] == pad:
        seen = nothing(seen) if padding.target_rows else seen
        cross = nothing(cross) if padding.cross_rows else cross
    return seen, cross
