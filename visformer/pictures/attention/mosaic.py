"""The overview: all heads of a kind in one image, a row per layer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from visformer.language import _, clauses
from visformer.pictures.attention.maps import layer_and_head
from visformer.pictures.attention.weights import (
    SLICE,
    TOGETHER,
    WHOLE_HEAD,
    head_weights,
    keeps_rows,
    layers_weights,
    row_weights,
    size,
)
from visformer.pictures.picture import LOW, Bytes, codes, shade
from visformer.pictures.selection import SCALES, Scale, Selection
from visformer.pictures.words.absent import weights_words
from visformer.values.arrays import Floats
from visformer.values.facts import Kind
from visformer.values.trace import Trace
from visformer.words import KIND_NAMES

Element = TypeVar("Element", bound=np.generic)
# kind, scale, reserved rows and columns, and how many of each a pixel covers
_Name = tuple[Kind, Scale, tuple[int, int], tuple[int, int]]
UNLIMITED = (1 << 30, 1 << 30)
LARGE = 1 << 20  # weights of all heads: the limit for making the overview at once
CACHED = 1 << 16  # weights: the limit for reducing several heads at once


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Mosaic:
    """Thumbnails side by side: ``image`` is [layers x height, heads x width]."""

    title: str
    image: Bytes  # codes; rows still to be decoded look like weight 0
    layers: int
    heads: int
    height: int  # of a thumbnail, in pixels of the image
    width: int
    shape: tuple[int, int]  # of a thumbnail, in rows and columns of the map
    filled: tuple[int, int]  # rows and columns of a thumbnail that are decoded
    chosen: tuple[int, int]  # layer and head
    note: str  # how the numbers were changed before painting

    @property
    def grid(self) -> tuple[object, ...]:
        """Everything that the thumbnails' positions depend on."""
        return self.layers, self.heads, self.height, self.width, self.shape

    def hit(self, x: float, y: float) -> tuple[int, int] | None:
        """Return the layer and head at a point of the image; None outside."""
        layer, head = int(y // max(1, self.height)), int(x // max(1, self.width))
        inside = 0 <= layer < self.layers and 0 <= head < self.heads
        return (layer, head) if inside else None

    def frame(self, layer: int, head: int) -> tuple[int, int, int, int]:
        """Return a thumbnail's rectangle in the image: x, y, width, height."""
        return head * self.width, layer * self.height, self.width, self.height

    def walk(self, start: tuple[int, int], layers: int, heads: int) -> tuple[int, int]:
        """Return the layer and head at an offset from ``start``, inside the grid."""
        layer, head = start[0] + layers, start[1] + heads
        return _inside(layer, self.layers), _inside(head, self.heads)


def mosaic(
    trace: Trace,
    selection: Selection,
    kind: Kind,
    *,
    extent: tuple[int, int],
    thumbnail: tuple[int, int] = UNLIMITED,
) -> Mosaic:
    """Return all heads of a kind.

    ``extent`` are the rows and columns that space is reserved for. Maps larger than
    ``thumbnail``, height and width in pixels, are reduced by their maximum.
    """
    parts = mosaic_parts(trace, selection, kind, extent=extent, thumbnail=thumbnail)
    return list(parts)[-1]


def mosaic_parts(
    trace: Trace,
    selection: Selection,
    kind: Kind,
    *,
    extent: tuple[int, int],
    thumbnail: tuple[int, int] = UNLIMITED,
) -> Iterator[Mosaic]:
    """Yield the same Mosaic repeatedly while its image is filled.

    Each part takes a few milliseconds, so that long sentences do not block the window.
    """
    layers, heads = trace.layers(kind), trace.heads(kind)
    rows, columns = extent
    factors = _factor(rows, thumbnail[0]), _factor(columns, thumbnail[1])
    height, width = -(-rows // factors[0]), -(-columns // factors[1])
    image: Bytes = np.full((layers, height, heads, width), LOW, np.uint8)
    shown = [len(tokens) for tokens in trace.tokens(kind)]
    filled = -(-shown[0] // factors[0]), -(-shown[1] // factors[1])
    overview = Mosaic(
        title=_("all heads · {kind}", kind=_(KIND_NAMES[kind])),
        image=image.reshape(layers * height, heads * width),
        layers=layers,
        heads=heads,
        height=height,
        width=width,
        shape=extent,
        filled=filled,
        chosen=layer_and_head(trace, selection, kind),
        note=_note(trace, kind, selection.scale, factors),
    )
    first, name = 0, (kind, selection.scale, extent, factors)
    grows = kind != "encoder" and not is_large(trace, kind)
    if grows:  # at each step
        first = _known_rows(trace, name, image, shown[0])
    missing = (shown[0] - first) * shown[1] * heads * layers
    together = layers if missing <= CACHED else 1
    for layer in range(0, layers, together):
        some = range(layer, layer + together)
        room = image[layer : some.stop, : filled[0], :, : filled[1]]
        room, at = room.transpose(0, 2, 1, 3), (kind, some)
        for _part in _fill(room, trace, at, selection.scale, factors, first=first):
            yield overview
    if grows:
        trace.memo.keep(trace.storage, name, (shown[0], image), image.size)
    yield overview


def _known_rows(trace: Trace, name: _Name, image: Bytes, queries: int) -> int:
    """Copy another step's rows [L, h, H, w]; returns the number of queries copied."""
    kept: tuple[int, Bytes] | None = trace.memo.find(trace.storage, name)
    kind, scale, _extent, factors = name
    if kept is None or scale == "head" or not keeps_rows(trace, kind):
        return 0
    rows = min(kept[0], queries) // factors[0]
    image[:, :rows] = kept[1][:, :rows]
    return rows * factors[0]


def is_large(trace: Trace, kind: Kind) -> bool:
    """Whether a kind's overview takes too long for one step."""
    return size(trace, kind) * trace.layers(kind) * trace.heads(kind) > LARGE


def _fill(
    room: Bytes,
    trace: Trace,
    at: tuple[Kind, range],
    scale: Scale,
    factors: tuple[int, int],
    *,
    first: int,
) -> Iterator[None]:
    """Fill the thumbnails [L, H, height, width] of some layers, yielding between parts.

    ``first`` is the first query of a short sentence whose row is missing.
    """
    if not room.size:
        return
    cells, (kind, layers) = size(trace.whole, at[0]), at
    if cells * room.shape[1] <= TOGETHER:
        weights = layers_weights(trace, kind, layers, slice(first, None))
        if weights.size:
            room[:, :, first // factors[0] :] = _thumbnails(weights, scale, factors)
        yield
        return
    for place in np.ndindex(room.shape[:2]):
        layer, head = layers[place[0]], place[1]
        if cells <= WHOLE_HEAD:
            weights = head_weights(trace, kind, layer, head)[None]  # [1, Q, K]
            room[place] = _thumbnails(weights, scale, factors)[0]
            yield
        else:
            yield from _fill_head(
                room[place], trace, (kind, layer, head), scale, factors
            )


def _fill_head(
    room: Bytes,
    trace: Trace,
    at: tuple[Kind, int, int],
    scale: Scale,
    factors: tuple[int, int],
) -> Iterator[None]:
    kind, layer, head = at
    queries, keys = (len(tokens) for tokens in trace.tokens(kind))
    step = max(1, SLICE // keys // factors[0])
    # a head's largest weight is known only after all of its rows
    whole = np.zeros(room.shape, np.float32) if scale == "head" else None
    for first in range(0, len(room), step):
        last = min(queries, (first + step) * factors[0])
        rows = slice(first * factors[0], last)
        weights = row_weights(trace, kind, layer, head, rows)[None]  # [1, rows, K]
        if whole is not None:
            whole[first : first + step] = reduced(weights, factors)[0]
        else:
            room[first : first + step] = _thumbnails(weights, scale, factors)[0]
        yield
    if whole is not None:
        room[:] = codes(shade(whole, scale)[0])


def reduced(values: Floats, factors: tuple[int, int]) -> Floats:
    """Reduce [..., Q, K] by the maximum of blocks of ``factors`` rows and columns.

    A block with a NaN becomes NaN.
    """
    if factors == (1, 1) or not values.size:
        return values
    if values.size <= CACHED:
        return pooled(values, factors)
    # head by head, so that intermediate results stay in the CPU's cache
    return np.stack([pooled(head, factors) for head in values])


def pooled(cells: NDArray[Element], factors: tuple[int, int]) -> NDArray[Element]:
    """Reduce [..., Q, K] by the maximum of blocks of ``factors`` rows and columns."""
    return _pooled(_pooled(cells, factors[0], -2), factors[1], -1)


def _thumbnails(weights: Floats, scale: Scale, factors: tuple[int, int]) -> Bytes:
    """Return the codes of [..., Q, K], reduced; row maxima are over all keys."""
    if scale == "row":
        return codes(reduced(shade(weights, scale)[0], factors))
    return codes(shade(reduced(weights, factors), scale)[0])


def _pooled(values: NDArray[Element], factor: int, axis: int) -> NDArray[Element]:
    """Reduce [..., Q, K] along an axis by the maximum of ``factor`` neighbours."""
    if factor == 1:
        return values
    length = values.shape[axis]
    if length <= factor:
        most: NDArray[Element] = values.max(axis, keepdims=True)
        return most
    whole = length // factor * factor

    def part(first: int, last: int, step: int) -> NDArray[Element]:
        at = slice(first, last, step)
        return values[..., at, :] if axis == -2 else values[..., at]

    # maxima of strided slices: several times faster than reduceat
    pooled = part(0, whole, factor).copy()
    for offset in range(1, factor):
        np.maximum(pooled, part(offset, whole, factor), out=pooled)
    if whole < length:
        rest = part(whole, length, 1).max(axis, keepdims=True)
        pooled = np.concatenate([pooled, rest], axis)
    return pooled


def _factor(length: int, pixels: int) -> int:
    return max(1, -(-length // max(1, pixels)))


def _note(trace: Trace, kind: Kind, scale: Scale, factors: tuple[int, int]) -> str:
    captured = weights_words(trace, kind, range(trace.layers(kind)))
    return clauses((_scale_words(scale, factors), captured))


def _scale_words(scale: Scale, factors: tuple[int, int]) -> str:
    if factors == (1, 1):
        return _(SCALES[scale])
    return _(
        "{scale}; each pixel is the maximum of {rows} × {columns} weights",
        scale=_(SCALES[scale]),
        rows=factors[0],
        columns=factors[1],
    )


def _inside(index: int, count: int) -> int:
    return max(0, min(index, count - 1))
