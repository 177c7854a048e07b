"""The blocks of a ``.vis`` file: each found by its name, each with its own checksums.

After the magic line and the version (two bytes: major, minor) blocks follow each other:
a head of 22 bytes, the name, the payload. The last block, ``index``, lists the others;
the last 20 bytes of the file say where it begins. Where it is missing or damaged, the
heads of the blocks tell the same, up to the place where the file was cut off.
"""

import os
import stat
import struct
import threading
import weakref
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from visformer.errors import InputError
from visformer.files import no_file_words, real_path, short

_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_NONBLOCK", 0)  # a pipe put in the file's place does not block
)
_seeking = threading.Lock()  # where there is no pread, on Windows


class RegularFile:
    """An open regular file, closed when it is garbage collected.

    It is read in parts and never mapped. It stays the file that was opened, even if
    another file takes its name.
    """

    def __init__(self, path: Path) -> None:
        """Open a file; InputError where it cannot be, or is no regular file."""
        self.name = short(path.name)
        try:
            real_path(path)
            self._check_kind(path.stat())  # first: opening a device may act on it
            self._descriptor = os.open(path, _FLAGS)
            self._close = weakref.finalize(self, os.close, self._descriptor)
            found = os.fstat(self._descriptor)
            self._check_kind(found)
        except (OSError, ValueError) as error:  # ValueError: a NUL in the name
            raise self._unreadable(error) from error
        self.size: int = found.st_size

    def read(self, at: int, size: int) -> bytes:
        """Return ``size`` bytes from a place on; fewer where the file ends earlier.

        Raises InputError where reading fails.
        """
        try:
            return _pread(self._descriptor, size, at)
        except OSError as error:
            raise self._unreadable(error) from error

    def _check_kind(self, found: os.stat_result) -> None:
        if not stat.S_ISREG(found.st_mode):
            raise InputError(no_file_words(found.st_mode), name=self.name)

    def _unreadable(self, error: OSError | ValueError) -> InputError:
        reason = getattr(error, "strerror", None)
        if reason is None:
            return InputError(
                "{file} cannot be read because its name is not valid: rename it.",
                file=self.name,
            )
        return InputError(
            "{file} cannot be read ({reason}): check the file and its folder.",
            file=self.name,
            reason=reason,
        )


class InMemory(RegularFile):
    """The bytes of a file that lies within another one."""

    def __init__(self, name: str, data: bytes) -> None:
        """Name it as the file that it lies in."""
        self.name, self.size, self._data = name, len(data), data

    def read(self, at: int, size: int) -> bytes:
        """Return ``size`` bytes from a place on; fewer where they end earlier."""
        return self._data[at : at + size]


def _pread(descriptor: int, size: int, at: int) -> bytes:
    if hasattr(os, "pread"):
        return os.pread(descriptor, size, at)
    with _seeking:
        os.lseek(descriptor, at, os.SEEK_SET)
        return os.read(descriptor, size)


MAGIC = b"VISFORMER TRACE\n"
VERSION, OLDEST = (4, 0), 3  # written, and the major version that is read
START = len(MAGIC) + 2  # of the first block
INDEX = "index"
# marker, bytes of the name, bytes of the payload, CRC-32 of the payload, CRC-32 of all
# that and the name
HEAD = struct.Struct("<4sHQII")
HEAD_MARK = b"VISB"
MOST_NAME_BYTES = (1 << 16) - 1  # of a block: what a head can say
FOOT = struct.Struct("<8sQI")  # marker, where the index begins, CRC-32 of both
FOOT_MARK = b"VISINDEX"
MAX_JSON = 1 << 26  # bytes of a payload that is JSON
MOST_CACHED = 1 << 24  # bytes of payloads kept: 16 MiB
VERIFIED = (
    1 << 24
)  # bytes of a file up to which it is verified wholly when it is opened

Payload = bytes | memoryview


class BlockPlace(NamedTuple):
    """Where a block lies in its file."""

    at: int  # of its head
    size: int  # of its payload, in bytes


class BlockWriter:
    """Writes blocks one after the other; ``finish`` writes the index."""

    def __init__(self, file: BinaryIO) -> None:
        """Begin at the start of an empty file."""
        self._file, self._at = file, START
        self._places: dict[str, BlockPlace] = {}
        file.write(MAGIC + bytes(VERSION))

    def write(self, name: str, payload: Payload) -> None:
        """Write a block under a name that no other has."""
        data, text = memoryview(payload).cast("B"), name.encode()
        if name in self._places:
            raise ValueError(f"two blocks have the name {name}")
        self._places[name] = BlockPlace(self._at, len(data))
        self._file.write(head(text, data))
        self._file.write(data)
        self._at += HEAD.size + len(text) + len(data)

    def finish(self) -> None:
        """Write the index and where it begins."""
        at, entries = self._at, [(name, *self._places[name]) for name in self._places]
        self.write(INDEX, msgspec.json.encode(entries))
        self._file.write(foot(at))


def head(name: bytes, payload: Payload) -> bytes:
    """Return what comes before a block's payload: the head of 22 bytes and the name."""
    begin = HEAD.pack(HEAD_MARK, len(name), len(payload), zlib.crc32(payload), 0)[:-4]
    return begin + struct.pack("<I", zlib.crc32(begin + name)) + name


def foot(at: int) -> bytes:
    """Return the last bytes of a file whose index begins at a place."""
    begin = FOOT.pack(FOOT_MARK, at, 0)[:-4]
    return begin + struct.pack("<I", zlib.crc32(begin))


class BlockFile:
    """The blocks of an open file, read when asked and verified each time.

    A small file is verified wholly when it is opened, and blocks that fail are left
    out. ``complete`` tells whether all that the file once had is there.
    """

    def __init__(self, file: RegularFile) -> None:
        """``file`` begins with the magic line and this version."""
        self.file = file
        self._lock = threading.Lock()
        self._cache: dict[str, memoryview] = {}
        self._cached = 0
        found = self._index()
        self.complete = found is not None
        self.places = dict(self._scan()) if found is None else found
        if file.size <= VERIFIED:
            whole = {
                name: at for name, at in self.places.items() if self._is_whole(name)
            }
            self.complete = self.complete and len(whole) == len(self.places)
            self.places = whole

    @property
    def verified(self) -> bool:
        """Whether every block was verified when the file was opened."""
        return self.file.size <= VERIFIED

    def read(self, name: str) -> memoryview:
        """Return the payload of a block; InputError where it is missing or damaged."""
        with self._lock:
            kept = self._cache.pop(name, None)
            if kept is not None:
                self._cache[name] = kept  # the last one used is the last to go
                return kept
        payload = self._read(name)
        if payload is None:
            raise InputError(
                "{file} is damaged: the block “{block}” fails its checksum. Copy "
                "or download the file again.",
                file=self.file.name,
                block=name,
            )
        self._keep(name, payload)
        return payload

    def _keep(self, name: str, payload: memoryview) -> None:
        with self._lock:
            self._cached += len(payload) - len(self._cache.pop(name, b""))
            self._cache[name] = payload
            while self._cached > MOST_CACHED:
                self._cached -= len(self._cache.pop(next(iter(self._cache))))

    def _is_whole(self, name: str) -> bool:
        payload = self._read(name)
        if payload is not None:
            self._keep(name, payload)
        return payload is not None

    def _read(self, name: str) -> memoryview | None:
        """Return the payload of a block; None where anything about it is wrong."""
        place = self.places.get(name)
        return None if place is None else self._read_at(name.encode(), place)

    def _read_at(self, name: bytes, place: BlockPlace) -> memoryview | None:
        start = HEAD.size + len(name)
        data = memoryview(self.file.read(place.at, start + place.size))
        payload = data[start:]
        if len(payload) < place.size or data[:start] != head(name, payload):
            return None
        return payload

    def _index(self) -> dict[str, BlockPlace] | None:
        """Return the blocks that the index lists; None where it is not sound."""
        end = self.file.size - FOOT.size
        last = self.file.read(max(end, 0), FOOT.size)
        if end < START or len(last) < FOOT.size:
            return None
        _mark, at, _crc = FOOT.unpack(last)
        size = end - at - HEAD.size - len(INDEX)
        if last != foot(at) or at < START or not 0 <= size <= MAX_JSON:
            return None
        payload = self._read_at(INDEX.encode(), BlockPlace(at, size))
        try:
            listed = msgspec.json.decode(
                payload or b"", type=list[tuple[str, int, int]]
            )
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        places = {name: BlockPlace(*place) for name, *place in listed}
        inside = all(
            place.at >= START
            and 0 <= place.size <= at - place.at - HEAD.size
            and len(name.encode("utf-8", "replace")) <= MOST_NAME_BYTES
            for name, place in places.items()
        )
        return places if inside and len(places) == len(listed) else None

    def _scan(self) -> Iterator[tuple[str, BlockPlace]]:
        """Yield the blocks from the front, up to the first head that is not sound."""
        at, seen = START, set()
        while True:
            begin = self.file.read(at, HEAD.size)
            if len(begin) < HEAD.size:
                return
            mark, length, size, _crc, check = HEAD.unpack(begin)
            name = self.file.read(at + HEAD.size, length)
            after = at + HEAD.size + length + size
            sound = mark == HEAD_MARK and zlib.crc32(begin[:-4] + name) == check
            text = name.decode("utf-8", "replace")
            if not sound or after > self.file.size or text in seen:
                return
            seen.add(text)
            if text != INDEX:
                yield text, BlockPlace(at, size)
            at = after
