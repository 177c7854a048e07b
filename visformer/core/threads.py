"""How many threads a call uses: one where several would only wait for each other.

torch and numpy each bring a pool as large as the computer. A step is hundreds of small
products, now of one, now of the other: their threads wake, spin and stand in each
other's way, which makes a step three times as slow, and seventy times beside other
work.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from visformer.core.model import Transformer

SMALL = 1 << 33  # multiplications of a call that one thread does in some 250 ms
_BLAS = (  # how the libraries that numpy is built with are asked and told
    ("scipy_openblas_get_num_threads64_", "scipy_openblas_set_num_threads64_"),
    ("scipy_openblas_get_num_threads", "scipy_openblas_set_num_threads"),
    ("openblas_get_num_threads64_", "openblas_set_num_threads64_"),
    ("openblas_get_num_threads", "openblas_set_num_threads"),
    ("MKL_Get_Max_Threads", "MKL_Set_Num_Threads"),
)


@contextlib.contextmanager
def few_threads(multiplications: float = 0) -> Iterator[None]:
    """Run numpy's products on one thread, and torch's too where they are few.

    The caller's settings hold again afterwards; more threads than those are never used.
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


def work(model: Transformer, tokens: int, sentences: int = 1) -> float:
    """Return about how many multiplications it takes to run so many tokens at once.

    ``tokens`` is of each sentence. Every weight is used once for each of them, and
    attention compares each with each.
    """
    config = model.config
    layers = config.encoder_layers + config.decoder_layers
    weights = layers * config.d_model * (4 * config.d_model + 2 * config.feed_forward)
    scores = 2 * layers * config.d_model * tokens
    return float(sentences * tokens * (weights + scores))


class _NumpyThreads:
    """The threads of numpy's products: one for all Python threads, while any needs it.

    The setting is the process's, so that the first to begin notes it, and the last to
    end puts it back.
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
    """Return what asks and tells numpy's library; None for one that is not known."""
    for path in _libraries():
        with contextlib.suppress(OSError):
            library = ctypes.CDLL(path)
            for asks, tells in _BLAS:
                if hasattr(library, asks) and hasattr(library, tells):
                    return getattr(library, asks), getattr(library, tells)
    return None


def _libraries() -> list[str]:
    """Return the libraries to look in: numpy's own, then those beside it."""
    # a library's names are looked for in those that it needs, too; not on Windows
    names = ("numpy._core._multiarray_umath", "numpy.core._multiarray_umath")
    own = [sys.modules[name].__file__ for name in names if name in sys.modules]
    folder = Path(np.__file__).parents[1] / "numpy.libs"
    beside = map(str, folder.glob("*openblas*.dll"))
    return [*filter(None, own), *beside]
