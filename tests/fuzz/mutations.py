"""Ways to spoil a file: blindly, byte by byte, and knowing how the format is built."""

from __future__ import annotations

import copy
import io
import json
import pickletools
import struct
import warnings
import zipfile
from collections.abc import Callable
from random import Random
from typing import Any

from tests.models.growth import Field, read_fields, write_fields

Mutation = Callable[[bytes, Random], bytes]

ODD_NUMBERS = (0, 1, -1, 2, 3, 255, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**64, 10**30)
ODD_VALUES: tuple[object, ...] = (
    *(*ODD_NUMBERS, 0.5, 1e308, float("nan"), float("-inf"), True, None),
    *("", "x", "x" * 100_000, "../../etc/passwd", "a\0b", "\ud800", "‮gpj", "-1"),
    *([], {}, [[]], [0] * 1000, {"a": {}}, [None], ["x"], {"x": "y"}),
)


def bytes_changed(data: bytes, draw: Random) -> bytes:
    """Change, remove, add, double or cut a few bytes, near the start more often."""
    made = bytearray(data)
    for _round in range(draw.choice((1, 1, 2, 8))):
        reach = min(len(made), draw.choice((64, 600, 1 << 30)))
        at, span = draw.randrange(reach + 1), draw.choice((0, 1, 1, 4, 8, 64))
        fresh = draw.choice(
            (
                draw.randbytes(draw.choice((1, 4, 8))),
                b"\xff" * draw.choice((1, 4, 8)),
                bytes(draw.choice((1, 4, 8))),
                bytes(made[at : at + span]) * 2,
                b"",
            )
        )
        made[at : at + span] = fresh
    return bytes(made)


def cut(data: bytes, draw: Random) -> bytes:
    """End the file early."""
    return data[: draw.randrange(len(data) + 1)]


def json_changed(data: bytes, draw: Random) -> bytes:
    """Give some values of a JSON document other types and sizes, or remove them."""
    root = [json.loads(data)]
    for _round in range(draw.choice((1, 1, 1, 2, 5))):
        places = list(_places(root))
        holder, key = draw.choice(places)
        roll = draw.random()
        if roll < 0.15 and holder is not root:
            del holder[key]
        elif roll < 0.3:
            other, theirs = draw.choice(places)
            holder[key] = copy.deepcopy(other[theirs])
        else:
            holder[key] = copy.deepcopy(draw.choice(ODD_VALUES))
    text = json.dumps(root[0], ensure_ascii=draw.random() < 0.5)
    if draw.random() < 0.05:
        text = "[" * 100_000
    return text.encode("utf-8", "surrogatepass")


def _places(value: Any) -> Any:
    """Yield every container with every key or index of it."""
    items: list[Any] = []
    if isinstance(value, dict):
        items = list(value)
    elif isinstance(value, list):
        items = list(range(len(value)))
    for key in items:
        yield value, key
        yield from _places(value[key])


def safetensors_changed(data: bytes, draw: Random) -> bytes:
    """Change the header, and give it its right length: what is behind is reached."""
    (length,) = struct.unpack("<Q", data[:8])
    header = json_changed(data[8 : 8 + length], draw)
    size = len(header) if draw.random() < 0.9 else draw.choice(ODD_NUMBERS) % 2**64
    return struct.pack("<Q", size) + header + data[8 + length :]


def archive_changed(data: bytes, draw: Random) -> bytes:
    """Change, remove or double a member of a zip archive, as torch.save writes one."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    at = draw.randrange(len(members))
    name, content = members[at]
    roll = draw.random()
    if name.endswith("data.pkl") and roll < 0.6:
        members[at] = name, pickle_changed(content, draw)
    elif roll < 0.7:
        members[at] = name, bytes_changed(content, draw)
    elif roll < 0.8:
        del members[at]
    elif roll < 0.9:
        members.append((name, content))
    else:
        members[at] = draw.choice(("../x", "/x", "x" * 60_000, " ")), content
    out = io.BytesIO()
    method = zipfile.ZIP_DEFLATED if draw.random() < 0.1 else zipfile.ZIP_STORED
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w", method) as archive:
        warnings.simplefilter("ignore")  # of a name that is there twice: just that
        for name, content in members:
            archive.writestr(name, content)
    return out.getvalue()


CANARY = "/tmp/visformer-fuzz-canary"  # there if code of a mutant ran
_TOUCH = f"(S'touch {CANARY}'\ntR0".encode()
CALLS = (
    b"cbuiltins\neval\n",
    b"cposix\nsystem\n",
    b"ctorch\nload\n",
    b"cposix\nsystem\n" + _TOUCH,
    b"cos\nsystem\n" + _TOUCH,
    b"csubprocess\ngetoutput\n" + _TOUCH,
    b"cshutil\nos.system\n" + _TOUCH,
    b"ctorch.hub\nload\n",
)


def legacy_changed(data: bytes, draw: Random) -> bytes:
    """Change the pickle of the value in a file of torch before 1.6."""
    ends = [0]
    for _part in range(5):
        stream = io.BytesIO(data[ends[-1] :])
        for _operation in pickletools.genops(stream):
            pass
        ends.append(ends[-1] + stream.tell())
    start, end = ends[3], ends[4]
    return data[:start] + pickle_changed(data[start:end], draw) + data[end:]


def pickle_changed(data: bytes, draw: Random) -> bytes:
    """Remove, double, exchange or replace operations of a pickle."""
    starts = [at for _, _, at in pickletools.genops(data) if at is not None]
    parts = [data[a:b] for a, b in zip(starts, [*starts[1:], len(data)], strict=True)]
    for _round in range(draw.choice((1, 1, 2, 4))):
        at, other = draw.randrange(len(parts)), draw.randrange(len(parts))
        choices: tuple[list[bytes], ...]
        choices = ([], [parts[at]] * 2, [parts[other]], [bytes([draw.randrange(256)])])
        calls = [*CALLS, b"R"]
        parts[at : at + 1] = draw.choice((*choices, [draw.choice(calls), parts[at]]))
        if not parts:
            break
    return b"".join(parts)


def protocol_buffer_changed(data: bytes, draw: Random) -> bytes:
    """Change fields of a sentencepiece model: number, type, content, order, count."""
    fields = list(read_fields(data))
    for _round in range(draw.choice((1, 1, 2, 6))):
        # pieces are many, the rest few: draw the kind of field first
        number = draw.choice(sorted({field.number for field in fields}))
        at = draw.choice([i for i, f in enumerate(fields) if f.number == number])
        field, roll = fields[at], draw.random()
        if roll < 0.15 and len(fields) > 1:
            del fields[at]
        elif roll < 0.25:
            fields[at:at] = [field] * draw.choice((1, 1000))
        elif roll < 0.35:
            fields[at] = field._replace(number=draw.choice((1, 2, 3, 4, 5, 200)))
        elif roll < 0.7:
            fields[at] = field._replace(content=_nested(field, draw))
        else:
            fields[at] = field._replace(content=bytes_changed(field.content, draw))
    return write_fields(fields)


def _nested(field: Field, draw: Random) -> bytes:
    """Change a field within a field, where it is a message."""
    try:
        inner = list(read_fields(field.content))
    except (ValueError, IndexError, struct.error):
        inner = []
    if not inner:
        return bytes_changed(field.content, draw)
    at = draw.randrange(len(inner))
    inner[at] = inner[at]._replace(content=bytes_changed(inner[at].content, draw))
    return write_fields(inner)


def lines_changed(data: bytes, draw: Random) -> bytes:
    """Change a table of lines and tabs."""
    lines = data.split(b"\n")
    for _round in range(draw.choice((1, 2, 5))):
        at = draw.randrange(len(lines))
        odd = (b"", b"\t", b"\t\t\t", b"a\tb\tc\td", b"\xff\xfe", b"a", b"\0\t\0")
        long, surrogate = b"x" * 100_000 + b"\ty", b"\xed\xa0\x80\tx"
        lines[at] = draw.choice((*odd, long, surrogate, lines[at] * 2))
    return b"\n".join(lines)
