"""The newest rows of many hypotheses at once, as a search needs them at each step."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from visformer.core.checkpoint import Checkpoint
from visformer.core.mask_rules import RULES, make_masks
from visformer.core.whole_rows import WholeRows, rows_after


class NewestRows:
    """Decodes the last token of every hypothesis, with a cache if that is exact.

    It is not exact if a pad was chosen whose row has no allowed key and therefore
    attends to everything, future tokens included: each token then changes that row,
    which others may read, so every step is a whole pass. A masked score of -inf makes
    such a row NaN permanently.
    """

    def __init__(
        self, checkpoint: Checkpoint, memory: Tensor, real: Tensor, limit: int
    ) -> None:
        """``memory`` [B, S, D] is the encoder output, ``real`` bool [B, S]."""
        config, tokenizer = checkpoint.config, checkpoint.tokenizer
        padding = RULES[config.mask_rule]
        # padded from the start
        padded = padding.target_keys and tokenizer.bos == tokenizer.pad
        self._leaks = config.masked_value > -math.inf and (
            padding.target_rows or padded
        )
        self._checkpoint, self._memory, self._real = checkpoint, memory, real
        self._packed = packed = checkpoint.packed
        self._state = rows_after(checkpoint, packed, memory, real, limit)
        self._whole = False

    @torch.inference_mode()
    def logits(self, ids: Tensor) -> Tensor:
        """Return the logits [B, V] of what follows the last of ids [B, T]."""
        return self._checkpoint.logits_from(self._packed, self.output(ids))

    @torch.inference_mode()
    def output(self, ids: Tensor) -> Tensor:
        """Return the decoder output [B, D] of the last of ids [B, T]."""
        checkpoint = self._checkpoint
        visible = ids != checkpoint.tokenizer.pad  # nothing reads a chosen pad
        self._whole |= self._leaks and not bool(visible.all())
        if self._whole or isinstance(self._state, WholeRows):
            masks = make_masks(checkpoint.config.mask_rule, self._real, visible)
            record = checkpoint.model.decode(
                ids, self._memory, masks.decoder, masks.cross, self._state.lookup
            )
            return record.output[:, -1]
        last = visible[:, -1:]
        rows = self._state.extend(ids[:, -1:], None if bool(last.all()) else last)
        return rows[:, 0, self._state.packed.columns.output("decoder")]

    def select(self, rows: Tensor) -> None:
        """Keep (and repeat) these hypotheses, each of the same sentence: int [B]."""
        self._state.select(rows)
