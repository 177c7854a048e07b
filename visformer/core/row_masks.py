"""What a row of a sentence being decoded may attend to, and whether that is final."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from torch import Tensor

from visformer.core.checkpoint import Checkpoint
from visformer.core.mask_rules import RULES
from visformer.values.arrays import Bools


class WholePass(NamedTuple):
    """All decoder rows, recomputed."""

    rows: Tensor  # [T, W] as in ``Columns``
    decoder: Bools  # [T, T], the masks they were computed with
    cross: Bools  # [T, S]; both with a leading layer axis if layers differ

    def allowed(self, row: int) -> tuple[Bools, Bools]:
        """Return what a row may attend to in the target and in the source."""
        return self.decoder[..., row, :], self.cross[..., row, :]


def changes_rows(checkpoint: Checkpoint, consumed: Sequence[int]) -> bool:
    """Whether the next token changes an earlier row.

    It does if a row has no allowed key and therefore attends to all of them, unless
    masked scores are infinite, which makes such a row NaN in any case.
    """
    config, pad = checkpoint.config, checkpoint.tokenizer.pad
    if config.masked_value == -math.inf or pad not in consumed:
        return False
    padding = RULES[config.mask_rule]
    return padding.target_rows or (padding.target_keys and consumed[0] == pad)


def may_read(
    checkpoint: Checkpoint, readable: Bools, consumed: Sequence[int], at: int
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
