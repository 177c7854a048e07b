"""The replacement for the cache if the decoder's own modules have to run."""

from __future__ import annotations

import torch
from torch import Tensor

from visformer.core.checkpoint import Checkpoint
from visformer.core.incremental import DecoderState
from visformer.core.mask_rules import make_masks
from visformer.core.packed import PackedDecoder
from visformer.core.rows import memory_rows
from visformer.values.encodings import PASS_LOOKUP, STEP_LOOKUP, Lookup


class WholeRows:
    """Keeps no row: every step is a pass over all of them.

    A hook or a custom module may change any row, so only a pass over the same ids gives
    the same result as ``run``.
    """

    length = 0

    @torch.no_grad()
    def __init__(self, checkpoint: Checkpoint, memory: Tensor, real: Tensor) -> None:
        """``memory`` [B, S, D] is the encoder output, ``real`` bool [B, S]."""
        config, self.whole_pass = checkpoint.config, False
        self._axis = config.position_axis
        ids = torch.full((len(memory), 1), checkpoint.tokenizer.bos)
        ids = ids.to(memory.device)
        masks = make_masks(
            config.mask_rule, real, torch.ones_like(ids, dtype=torch.bool)
        )
        record = checkpoint.model.decode(
            ids, memory, masks.decoder, masks.cross, self.lookup
        )
        self.memory_rows = memory_rows(record)  # [B, S, 2 L D]

    @property
    def lookup(self) -> Lookup:
        """How the rows look up their positions."""
        return (PASS_LOOKUP if self.whole_pass else STEP_LOOKUP)[self._axis]

    def shorten(self, length: int) -> None:
        """Do nothing: no row is kept."""

    def select(self, rows: Tensor) -> None:
        """Do nothing: no row is kept."""


def rows_after(
    checkpoint: Checkpoint,
    packed: PackedDecoder | None,
    memory: Tensor,
    real: Tensor,
    limit: int,
) -> DecoderState | WholeRows:
    """Return the store of the decoder's rows; ``packed`` is ``checkpoint.packed``."""
    if packed is None:
        return WholeRows(checkpoint, memory, real)
    return DecoderState(packed, memory, real, limit)
