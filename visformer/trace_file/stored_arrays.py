"""Arrays that stay in their file: sliced without reading, read when numpy asks.

An array [..., rows, columns] is cut along its rows into blocks of equally many, the
last one shorter. Block n is called ``NAME/n``. Numbers are float32, little endian; a
mask's rows are packed, eight cells per byte.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visformer.trace_file.file_blocks import BlockFile
from visformer.values.arrays import Bools, Floats, read_only

NUMBER = np.dtype("<f4")
ALL = slice(None)


@dataclass(frozen=True, slots=True)
class BlockedArray:
    """Where an array lies in a file, and how it is cut."""

    file: BlockFile
    name: str
    shape: tuple[int, ...]  # [..., rows, columns]
    height: int  # rows per block
    packed: bool = False  # a mask

    def whole_rows(self) -> int:
        """Return how many rows, from the first on, have their blocks in the file."""
        rows, places = self.shape[-2], self.file.places
        size, first = self._size(self.height), 0
        for at in range(-(-rows // self.height)):
            last = rows - first < self.height
            place = places.get(f"{self.name}/{at}")
            if place is None or place.size != (
                self._size(rows - first) if last else size
            ):
                return first
            first += self.height
        return rows

    def block(self, at: int) -> NDArray[Any]:
        """Return a block, [..., rows, columns]; InputError where it is damaged."""
        *outer, rows, columns = self.shape
        rows = min(self.height, rows - at * self.height)
        payload = self.file.read(f"{self.name}/{at}")
        if not self.packed:
            numbers = np.frombuffer(payload, NUMBER).reshape(*outer, rows, columns)
            return numbers.astype(np.float32, copy=False)
        shape = *outer, rows, _bytes(columns)
        return unpacked(np.frombuffer(payload, np.uint8).reshape(shape), columns)

    def _size(self, rows: int) -> int:
        """Return how many bytes this many rows take."""
        *outer, _rows, columns = self.shape
        row = _bytes(columns) if self.packed else columns * NUMBER.itemsize
        return math.prod(outer) * rows * row


class _Unread:
    """An array in a file: ``numpy.asarray`` and pickling read it, as ``_read`` does.

    Reading raises InputError where a block of it is damaged.
    """

    __slots__ = ("base", "shape")
    base: Any  # the array that this was cut from
    shape: tuple[int, ...]

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        array = read_only(self._read())
        return array if dtype is None else array.astype(dtype)

    def __reduce__(self) -> Any:
        return np.asarray, (np.asarray(self),)

    def _read(self) -> NDArray[Any]:
        raise NotImplementedError


class StoredArray(_Unread):
    """A part of an array in a file; a slice reads nothing, ``numpy.asarray`` does."""

    __slots__ = ("_picked", "_stored")

    def __init__(
        self,
        stored: BlockedArray,
        picked: tuple[int | range, ...] | None = None,
        base: StoredArray | None = None,
    ) -> None:
        """Take ``picked`` of each axis of the whole: a range of indices, or one."""
        self._stored = stored
        self._picked = picked or tuple(map(range, stored.shape))
        self.base = base
        self.shape = tuple(len(at) for at in self._picked if isinstance(at, range))

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __getitem__(self, key: Any) -> Any:
        """Return a part; unread for plain slices and an index of an outer axis."""
        keys = key if isinstance(key, tuple) else (key,)
        if Ellipsis in keys:
            at = keys.index(Ellipsis)
            rest = (slice(None),) * (self.ndim - len(keys) + 1)
            keys = *keys[:at], *rest, *keys[at + 1 :]
        indices = self.ndim - 2
        if not all(_is_plain(one) or isinstance(one, int) for one in keys[:indices]):
            return np.asarray(self)[key]
        if not all(map(_is_plain, keys[indices:])):
            return np.asarray(self)[key]
        todo = iter(keys)
        picked = tuple(
            at if isinstance(at, int) else at[next(todo, slice(None))]
            for at in self._picked
        )
        return StoredArray(self._stored, picked, self.base or self)

    def _read(self) -> NDArray[Any]:
        rows = self._picked[-2]
        if 0 in self.shape or isinstance(rows, int):
            return np.zeros(self.shape, np.bool_ if self._stored.packed else np.float32)
        height = self._stored.height
        parts = []
        for at in range(rows.start // height, -(-rows.stop // height)):
            first = at * height
            inside = [_slice(axis) for axis in self._picked]
            inside[-2] = slice(max(rows.start - first, 0), rows.stop - first)
            parts.append(self._stored.block(at)[tuple(inside)])
        return parts[0] if len(parts) == 1 else np.concatenate(parts, -2)


class StoredRows(_Unread):
    """Rows of many columns, each part of the columns an array of its own in the file.

    ``rows[:length]`` reads nothing; ``rows[:, columns]`` reads these columns.
    """

    __slots__ = ("_parts",)

    def __init__(
        self,
        parts: Sequence[tuple[slice, BlockedArray]],
        shape: tuple[int, int],
        base: StoredRows | None = None,
    ) -> None:
        """``parts``: columns and what they hold, of all columns in their order."""
        self._parts, self.shape, self.base = parts, shape, base

    def __getitem__(self, key: Any) -> Any:
        """Return the first rows, unread; or an array of some rows and columns."""
        if isinstance(key, slice):
            start, length, step = key.indices(len(self))
            if (start, step) == (0, 1):
                shape = length, self.shape[1]
                return StoredRows(self._parts, shape, self.base or self)
        if isinstance(key, tuple) and len(key) == 2 and all(map(_is_plain, key)):
            return read_only(self._read(key[0], key[1]))
        return np.asarray(self)[key]

    def _read(self, rows: slice = ALL, columns: slice = ALL) -> Floats:
        rows = slice(*rows.indices(len(self)))
        first, after, _ = columns.indices(self.shape[1])
        found = [
            np.asarray(StoredArray(array)[rows, start:stop])
            for of, array in self._parts
            if (start := max(first - of.start, 0))
            < (stop := min(after, of.stop) - of.start)
        ]
        if not found:
            return np.zeros((len(range(len(self))[rows]), max(after - first, 0)), "f4")
        return found[0] if len(found) == 1 else np.concatenate(found, 1)


def packed(mask: Bools) -> NDArray[np.uint8]:
    """Pack rows of a mask [..., rows, columns]; the first cell is the highest bit."""
    return np.packbits(mask, axis=-1)


def unpacked(rows: NDArray[np.uint8], columns: int) -> Bools:
    """Return the mask that was packed."""
    if not columns:
        return np.zeros((*rows.shape[:-1], 0), bool)
    return np.unpackbits(rows, axis=-1, count=columns).view(np.bool_)


def _bytes(cells: int) -> int:
    return -(-cells // 8)


def _is_plain(key: object) -> bool:
    return isinstance(key, slice) and key.step in (None, 1)


def _slice(at: int | range) -> int | slice:
    return at if isinstance(at, int) else slice(at.start, at.stop)
