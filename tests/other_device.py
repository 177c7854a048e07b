"""A device without values: it finds what is placed wrongly, or read too often.

It is torch's "meta" device, which stands for a GPU on any computer. A call that mixes
it with the CPU is an error, as on a GPU. Whatever makes the CPU wait for the device is
counted: a copy to the CPU, ``item``, an ``if``. What is read is 0.
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import visformer

DEVICE = torch.device("meta")
PACKAGE = Path(visformer.__file__).parent
aten = torch.ops.aten
# a GPU takes indices from the CPU, too
INDEXED = (aten.index.Tensor, aten.index_put_.default, aten._index_put_impl_.default)


class OtherDevice(TorchDispatchMode):
    """Sees torch's calls while it is entered; ``reads`` says where each read was."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.reads: list[str] = []

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        given = kwargs or {}
        with self:
            made = func.decompose(*args, **given)  # all that inference mode has not yet
        if made is not NotImplemented:
            return made
        tensors = [x for x in tree_leaves((args, given)) if isinstance(x, Tensor)]
        there = [x for x in tensors if x.device == DEVICE]
        if func is aten._to_copy.default and there and given.get("device"):
            if given["device"] != DEVICE:
                return func(self._read(args[0]), **given)
        elif func is aten.copy_.default and args[0].device != args[1].device:
            here = args[0].device != DEVICE
            return func(args[0], self._read(args[1])) if here else args[0]
        elif func is aten._local_scalar_dense.default and there:
            return self._read(args[0]).item()
        elif func is aten.equal.default and there:
            return self._read(args[0]).shape == args[1].shape
        elif func is aten.nonzero.default and there:
            return self._read(args[0]).nonzero().to(DEVICE)
        elif there and func not in INDEXED:
            other = [x for x in tensors if x.device != DEVICE and x.dim()]
            if other:
                raise RuntimeError(f"{func} is given tensors of two devices")
        return func(*args, **given)

    def _read(self, one: Tensor) -> Tensor:
        own = [
            f"{Path(at.filename).name}:{at.lineno} {at.line}"
            for at in traceback.extract_stack()
            if PACKAGE in Path(at.filename).parents
        ]
        self.reads += own[-1:]
        return torch.zeros(one.shape, dtype=one.dtype)
