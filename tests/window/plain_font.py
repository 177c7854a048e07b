"""A font of known widths, so that no test depends on which ones are installed.

A letter is half as wide as it is high, a Chinese character as wide as high; each is a
box. It is an OpenType font of three glyphs, made here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager

from PySide6.QtGui import QFontDatabase

EM, ASCENT, DESCENT = 1000, 800, 200
WIDE = 0x1100  # the first sign that is twice as wide as a letter
NARROW_AGAIN = (0x2000, 0x2E7F)  # punctuation, arrows, mathematics
MISSING, LETTER, SIGN = range(3)
WIDTHS = {MISSING: EM // 2, LETTER: EM // 2, SIGN: EM}


@contextmanager
def plain_font(family: str) -> Iterator[None]:
    """Let a font of this family be there, in place of any other of its name."""
    number = QFontDatabase.addApplicationFontFromData(_font(family))
    assert QFontDatabase.applicationFontFamilies(number) == [family]
    yield
    QFontDatabase.removeApplicationFont(number)


def _font(family: str) -> bytes:
    glyphs = [_box(width) for width in WIDTHS.values()]
    ends = [sum(map(len, glyphs[:at])) for at in range(len(glyphs) + 1)]
    widths = [struct.pack(">HH", width, 0) for width in WIDTHS.values()]
    last = max(WIDTHS)
    tables = {
        b"OS/2": struct.pack(
            ">HhHHH11h10s4I4sHHHhhhHH2I",
            *(3, EM // 2, 400, 5, 0, *[100] * 11, bytes(10), *[0xFFFFFFFF] * 4),
            *(b"none", 0x40, 32, 0xFFFF, ASCENT, -DESCENT, 0, ASCENT, DESCENT, 0, 0),
        )
        + struct.pack(">hhHHH", 500, 700, 0, 32, 0),
        b"cmap": _characters(),
        b"glyf": b"".join(glyphs),
        b"head": struct.pack(
            ">IIIIHHqqhhhhHHhhh",
            *(0x10000, 0x10000, 0, 0x5F0F3CF5, 0, EM, 0, 0),
            *(0, -DESCENT, EM, ASCENT, 0, 8, 2, 1, 0),
        ),
        b"hhea": struct.pack(
            ">IhhhH11hH",
            *(0x10000, ASCENT, -DESCENT, 0, EM, 0, 0, EM, 1, *[0] * 7, last + 1),
        ),
        b"hmtx": b"".join(widths),
        b"loca": struct.pack(f">{len(ends)}I", *ends),
        b"maxp": struct.pack(">I14H", 0x10000, last + 1, 4, 1, *[0] * 2, 1, *[0] * 8),
        b"name": _names(family),
        b"post": struct.pack(">IIhhI4I", 0x30000, 0, -100, 50, 0, 0, 0, 0, 0),
    }
    return _joined(tables)


def _box(width: int) -> bytes:
    """Draw a rectangle that leaves a little room on both sides."""
    left, right, low, high = 50, width - 50, 0, 700
    return struct.pack(
        ">hhhhhHH4B8hxx",
        *(1, left, low, right, high, 3, 0, *[1] * 4),
        *(left, 0, right - left, 0, low, high - low, 0, low - high),
    )


def _characters() -> bytes:
    """Map ranges of characters to one glyph each: format 13."""
    first, last = NARROW_AGAIN
    ranges = [
        (0x20, WIDE - 1, LETTER),
        (WIDE, first - 1, SIGN),
        (first, last, LETTER),
        (last + 1, 0x1FFFF, SIGN),
    ]
    body = b"".join(struct.pack(">III", *one) for one in ranges)
    head = struct.pack(">HHIII", 13, 0, 16 + len(body), 0, len(ranges))
    return struct.pack(">HHHHI", 0, 1, 3, 10, 12) + head + body


def _names(family: str) -> bytes:
    texts = {1: family, 2: "Regular", 4: family, 6: family.replace(" ", "")}
    written = {at: text.encode("utf-16-be") for at, text in texts.items()}
    records, storage = b"", b""
    for at, text in written.items():
        place = 3, 1, 0x409, at, len(text), len(storage)
        records, storage = records + struct.pack(">6H", *place), storage + text
    start = 6 + len(records)
    return struct.pack(">HHH", 0, len(texts), start) + records + storage


def _joined(tables: dict[bytes, bytes]) -> bytes:
    head = struct.pack(">IHHHH", 0x10000, len(tables), 128, 3, len(tables) * 16 - 128)
    at, places, bodies = 12 + 16 * len(tables), b"", b""
    for name, body in sorted(tables.items()):
        padded = body + bytes(-len(body) % 4)
        total = sum(struct.unpack(f">{len(padded) // 4}I", padded)) & 0xFFFFFFFF
        places += struct.pack(">4sIII", name, total, at + len(bodies), len(body))
        bodies += padded
    return head + places + bodies
