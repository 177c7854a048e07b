"""The colours of codes: lookup tables that are safe for colour-blind users."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import Qt
from PySide6.QtGui import QBrush, QColor, QImage, QPalette

from visformer.pictures.colours import DARK, DARK_SIGNED, DARKEST, LIGHT, LIGHT_SIGNED
from visformer.pictures.colours import NAN_COLOUR as NAN_COLOUR
from visformer.pictures.picture import HIGH, LOW, MASKED, NAN, Bytes

FEW = 1 << 14  # pixels of a small image


def nan_crosses() -> QBrush:
    """Return the pattern drawn over NaN, which does not rely on its colour."""
    return QBrush(QColor(255, 255, 255, 150), Qt.BrushStyle.DiagCrossPattern)


def colour_table(palette: QPalette, *, signed: bool = False) -> Bytes:
    """Return the colour of every code, uint8 [256, 4], red first.

    ``signed``: from minus to plus, with 0 in the middle.
    """
    base = palette.color(QPalette.ColorRole.Base)
    masked = palette.color(QPalette.ColorRole.AlternateBase)
    return _table(base.lightness() < 128, signed, masked.name())


@lru_cache(maxsize=16)
def _table(dark: bool, signed: bool, masked: str) -> Bytes:
    anchors = {
        (False, False): LIGHT,
        (True, False): DARK,
        (False, True): LIGHT_SIGNED,
        (True, True): DARK_SIGNED,
    }[dark, signed]
    stops = np.array([_rgba(name) for name in anchors])
    at = np.linspace(0, len(anchors) - 1, HIGH - LOW + 1)
    colours = np.empty((256, 4), np.uint8)
    for channel in range(4):
        ramp = np.interp(at, range(len(anchors)), stops[:, channel])
        colours[LOW : HIGH + 1, channel] = ramp.round()
    colours[MASKED], colours[NAN] = _rgba(masked), _rgba(NAN_COLOUR)
    colours.setflags(write=False)
    return colours


def image_of(codes: Bytes, colours: Bytes) -> QImage:
    """Return an image with a pixel for each of the codes [R, C]."""
    if not codes.size:
        return QImage()
    (high, wide), packed = codes.shape, _packed(colours.tobytes())
    form = QImage.Format
    if codes.size <= FEW:  # faster than Qt, which takes its table number by number
        pixels = packed.take(codes)
        return QImage(pixels.data, wide, high, 4 * wide, form.Format_RGB32).copy()
    cells = np.ascontiguousarray(codes)
    image = QImage(cells.data, wide, high, wide, form.Format_Indexed8)
    image.setColorTable(packed.tolist())
    return image.convertToFormat(form.Format_RGB32)


@lru_cache(maxsize=16)
def _packed(colours: bytes) -> NDArray[np.uint32]:
    table = np.frombuffer(colours, np.uint8).reshape(-1, 4)
    return table[:, [2, 1, 0, 3]].copy().view("<u4")[:, 0]


def inks(colours: Bytes, palette: QPalette) -> list[QColor]:
    """Return for every code whichever of text and base stands out on its colour.

    Relative luminance as in WCAG 2.1.
    """
    ends = [
        palette.color(role)
        for role in (QPalette.ColorRole.Text, QPalette.ColorRole.Base)
    ]
    dark, light = sorted(ends, key=QColor.lightness)
    return [light if one < DARKEST else dark for one in _luminance(colours.tobytes())]


@lru_cache(maxsize=16)
def _luminance(colours: bytes) -> tuple[float, ...]:
    shares = np.frombuffer(colours, np.uint8).reshape(-1, 4)[:, :3] / 255
    linear = np.where(
        shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4
    )
    return tuple((linear @ (0.2126, 0.7152, 0.0722)).tolist())


def _rgba(name: str) -> tuple[int, int, int, int]:
    colour = QColor(name)
    return colour.red(), colour.green(), colour.blue(), 255
