"""Arrays and numbers of NumPy in a stranger's pickle, made from their stand-ins."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from visformer.formats.inert_pickle import Inert

_ROOMS = ("numpy.core.multiarray", "numpy._core.multiarray")
_MAKERS = tuple(f"{room}._reconstruct" for room in _ROOMS)
_SCALARS = tuple(f"{room}.scalar" for room in _ROOMS)
_BUFFERS = tuple(f"numpy.{room}.numeric._frombuffer" for room in ("core", "_core"))
_CODE = re.compile(
    r"f[248]|[iu][1248]|b1|U\d{1,4}"
)  # numbers and texts of a known size
_RANK = 8


def array_of(value: Inert) -> np.ndarray | list[Any] | None:
    """Return the array that a stand-in is; objects as a flat list.

    None where it is none, or one of other than numbers and texts. Raises ValueError
    where it has more or fewer numbers than it claims.
    """
    if value.qualified in _SCALARS and len(value.arguments) == 2:
        kind, data = value.arguments
        return _array((), kind, data, "C")
    if value.qualified in _BUFFERS and len(value.arguments) == 4:
        data, kind, shape, order = value.arguments
        return _array(shape, kind, data, order)
    if value.qualified in _MAKERS and isinstance(value.state, tuple):
        if len(value.state) != 5:
            raise ValueError("no array")
        _version, shape, kind, by_columns, data = value.state
        if isinstance(data, list):
            return data
        return _array(shape, kind, data, "F" if by_columns else "C")
    return None


def _array(shape: Any, kind: Any, data: Any, order: Any) -> np.ndarray | None:
    dtype = _dtype(kind)
    if dtype is None:
        return None
    plain = isinstance(shape, tuple | list) and isinstance(data, bytes | bytearray)
    if not plain or len(shape) > _RANK or order not in ("C", "F"):
        raise ValueError("no array")
    if any(type(size) is not int or size < 0 for size in shape):
        raise ValueError("a shape of other than numbers")
    if math.prod(shape) * dtype.itemsize != len(data):
        raise ValueError("an array of another size")
    flat = np.frombuffer(data, dtype).reshape(tuple(shape), order=order)
    return flat.astype(dtype.newbyteorder("="))


def _dtype(kind: Any) -> np.dtype | None:
    code = kind.arguments[0] if isinstance(kind, Inert) and kind.arguments else None
    if not isinstance(code, str) or not _CODE.fullmatch(code):
        return None
    state = kind.state
    order = state[1] if isinstance(state, tuple) and len(state) > 1 else "|"
    return np.dtype(f">{code}" if order == ">" else code)
