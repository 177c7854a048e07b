"""What is no attention, but mixes positions or weighs choices as attention does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from visformer.watching.axes import INPUT
from visformer.watching.ledger import Ledger

FOURIER = {"_fft_r2c", "_fft_c2c", "_fft_c2r"}
RECURRENT = ("lstm", "gru", "rnn")


@dataclass(frozen=True, slots=True)
class SeenInstead:
    """Something that is no attention, but looks as if it took part in one."""

    # "no product", "other scores", "no softmax", "mixing", "kernel", "axes", "unknown"
    reason: str
    module: str
    size: int  # choices of a softmax
    name: str = ""  # of the operation


def mixes_positions(
    name: str, args: Sequence[Any], ins: Sequence[Tensor], ledger: Ledger
) -> bool:
    """Whether an operation lets positions of an input flow into each other."""
    if name == "convolution" and len(ins) > 1:
        return any(n > 1 for n in ins[1].shape[2:])
    if name == "cumsum" or name in FOURIER:
        along = args[1] if isinstance(args[1], list) else [args[1]]
        dimensions = ledger.known(ins[0]).dimensions
        axes = [axis for at in along for axis in dimensions[at]]
        floats = ins[0].is_floating_point() or ins[0].is_complex()
        of_inputs = any(axis.origin == INPUT for axis in axes)
        return floats and ins[0].dim() > 1 and of_inputs
    return any(word in name for word in RECURRENT)
