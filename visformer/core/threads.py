"""How many threads a call uses: one if several would only wait for each other.

torch and numpy each have a pool with one thread per core. A step consists of hundreds
of small products by one or the other: their threads wake, spin and block each other,
which makes a step 3 times slower, and 70 times slower beside other work.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

Block = TypeVar("Block")
Worked = TypeVar("Worked")
SMALL = 1 << 33  # multiplications that one thread does in about 250 ms
_BLAS = (  # names of the functions that get and set the threads of numpy's library
    ("scipy_openblas_get_num_threads64_", "scipy_openblas_set_num_threads64_"),
    ("scipy_openblas_get_num_threads", "scipy_openblas_set_num_threads"),
    ("openblas_get_num_threads64_", "openblas_set_num_threads64_"),
    ("openblas_get_num_threads", "openblas_set_num_threads"),
    ("MKL_Get_Max_Threads", "MKL_Set_Num_Threads"),
)


@contextlib.contextmanager
def few_threads(multiplications: float = 0) -> Iterator[None]:
    """Run numpy's products on one thread, and torch's too if there are few.

    The caller's settings are restored afterwards and never exceeded.
    """
    before = torch.get_num_threads()
    alone = before > 1 and multiplications < SMALL
    _NUMPY.begin()
    if alone:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        if alone:
            torch.set_num_threads(before)
        _NUMPY.end()


class _Long:
    """How many threads share the blocks of long work; None: as many as torch has."""

    threads: int | None = None


def share_long_work(threads: int) -> None:
    """Let so many threads share the blocks of long work, whatever torch has."""
    _Long.threads = threads


def in_threads(
    function: Callable[[Block], Worked], blocks: Iterable[Block]
) -> Iterator[Worked]:
    """Yield ``function(block)`` in order, of several at once, each on one thread.

    torch's own threads would spin while they wait for a core that something else uses.
    ``blocks`` are taken one by one, by the calling thread. For inference.
    """
    threads = _Long.threads or torch.get_num_threads()
    if threads == 1:
        yield from map(function, blocks)
        return

    @torch.inference_mode(torch.is_inference_mode_enabled())
    @torch.no_grad()
    def made(block: Block) -> Worked:
        return function(block)

    begun: deque[Future[Worked]] = deque()
    with few_threads(), ThreadPoolExecutor(threads) as pool:
        try:
            for block in blocks:
                begun.append(pool.submit(made, block))
                if len(begun) > threads:
                    yield begun.popleft().result()
            while begun:
                yield begun.popleft().result()
        finally:
            for one in begun:
                one.cancel()


def may_share(x: torch.Tensor) -> bool:
    """Whether threads may share work on a tensor: nothing follows what is done to it.

    Gradients and dispatch modes, which record operations, belong to one thread.
    """
    followed = torch.is_grad_enabled() or torch._C._len_torch_dispatch_stack() > 0
    return x.device.type == "cpu" and not followed


def unhooked(module: torch.nn.Module) -> bool:
    """Whether two threads may run a module at once: no hook would notice it."""
    return not any(m._forward_hooks or m._forward_pre_hooks for m in module.modules())


class _NumpyThreads:
    """Limits numpy's products to one thread while any Python thread needs that.

    The setting belongs to the process, so the first to begin records it and the last to
    end restores it.
    """

    def __init__(self) -> None:
        self._lock, self._depth, self._before = threading.Lock(), 0, 0
        self._functions: tuple[Callable[[], int], Callable[[int], Any]] | None = None
        self._sought = False

    def begin(self) -> None:
        with self._lock:
            if not self._sought:
                self._functions, self._sought = _functions(), True
            self._depth += 1
            if self._depth == 1 and self._functions:
                get, put = self._functions
                self._before = get()
                put(1)

    def end(self) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0 and self._functions:
                self._functions[1](self._before)


_NUMPY = _NumpyThreads()


def _functions() -> tuple[Callable[[], int], Callable[[int], Any]] | None:
    """Return the getter and setter of numpy's library; None for an unknown one."""
    for path in _libraries():
        with contextlib.suppress(OSError):
            library = ctypes.CDLL(path)
            for asks, tells in _BLAS:
                if hasattr(library, asks) and hasattr(library, tells):
                    return getattr(library, asks), getattr(library, tells)
    return None


def _libraries() -> list[str]:
    """Return the libraries to search: numpy's own, then those beside it."""
    # a lookup includes the libraries that a library depends on, except on Windows
    names = ("numpy._core._multiarray_umath", "numpy.core._multiarray_umath")
    own = [sys.modules[name].__file__ for name in names if name in sys.modules]
    folder = Path(np.__file__).parents[1] / "numpy.libs"
    beside = map(str, folder.glob("*openblas*.dll"))
    return [*filter(None, own), *beside]
