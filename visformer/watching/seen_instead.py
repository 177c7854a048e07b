"""What is no attention, but mixes positions or weighs choices as attention does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.nn import Module
from torch.utils._pytree import tree_leaves

from visformer.watching.axes import INPUT
from visformer.watching.ledger import Ledger, storage_of

FOURIER = {"_fft_r2c", "_fft_c2c", "_fft_c2r"}
RECURRENT = ("lstm", "gru", "rnn")


@dataclass(frozen=True, slots=True)
class SeenInstead:
    """Something that is no attention, but looks as if it took part in one."""

    # "no product", "other scores", "no softmax", "mixing", "kernel", "axes", "outside",
    # "pieces", "together", "nested", "unknown"
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


def is_from_outside(name: str, tensor: Tensor, ledger: Ledger, rows: int) -> bool:
    """Whether features of a batch were never seen to be computed, and torch did not.

    What numpy has computed, say: ``torch.from_numpy`` takes its memory, which torch
    cannot resize, and ``torch.tensor`` a copy.
    """
    of_batch = tensor.dim() > 2 and rows in tensor.shape[:2]
    if not of_batch or not tensor.is_floating_point():
        return False
    if ledger.views(tensor) or ledger.is_weight(tensor):
        return False
    if tensor.unique().numel() < 3:  # a mask
        return False
    storage = storage_of(tensor)
    return name == "lift_fresh" or (storage is not None and not storage.resizable())


def is_attribute(tensor: Tensor, modules: Iterable[Module]) -> bool:
    """Whether a module has had a tensor all along, though it is no buffer."""
    storage = storage_of(tensor)
    kept = (x for one in modules for x in tree_leaves(vars(one)))
    return any(isinstance(x, Tensor) and storage_of(x) is storage for x in kept)
