"""An untrusted file that is read in parts."""

from __future__ import annotations

import os
import stat
import threading
import weakref
from pathlib import Path

from visformer.errors import InputError
from visformer.files import no_file_words, short

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
