"""Traces and sessions on disk (``*.vis``): numpy only, so that the window reads them.

Version 3 is described in resources/vis-format.md and read when asked. Readers skip
blocks they do not know and refuse another major version.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from visformer.errors import InputError
from visformer.files import check_suffix, followed, short, written_whole
from visformer.language import _
from visformer.trace_file.file_blocks import MAGIC, START, VERSION, BlockFile
from visformer.trace_file.regular_file import RegularFile
from visformer.trace_file.run_arrays import read_session_file, write_runs
from visformer.trace_file.saved_session import SavedRun, SavedSession
from visformer.values.trace import Trace


def write_trace(trace: Trace, path: Path) -> None:
    """Write a Trace, whole or not at all; InputError where it cannot be written."""
    write_session([SavedRun(trace=trace)], path)


def write_session(
    runs: Sequence[SavedRun],
    path: Path,
    shown: int = 0,
    *,
    work: bytes = b"",
    private: bool = False,
) -> None:
    """Write runs, whole or not at all; ``shown`` is the one that is shown.

    ``work`` is what a window needs to go on. A private file is its user's alone; a link
    stays one. Raises InputError where they cannot be written, or could not be read
    again.
    """
    check_suffix(path, ".vis")
    if not 0 <= shown < len(runs):
        raise InputError(
            _(
                "Run {number} cannot be the one shown: there are {count} runs.",
                number=shown,
                count=len(runs),
            )
        )
    try:
        with written_whole(followed(path), private=private) as file:
            write_runs(file, runs, shown, work)
    except OSError as error:
        raise InputError(
            _(
                "{file} cannot be written ({reason}): choose another folder or name.",
                file=short(path.name),
                reason=error.strerror,
            )
        ) from error
    except (ValueError, RuntimeError) as error:  # a name of no file, links in a circle
        raise InputError(
            _(
                "{file} cannot be written ({reason}).",
                file=short(path.name),
                reason=short(str(error), 90),
            )
        ) from error


def is_trace_file(path: Path) -> bool:
    """Tell whether a file begins as a Visformer trace does, whatever its name."""
    try:
        return RegularFile(path).read(0, len(MAGIC)) == MAGIC
    except InputError:
        return False


def read_trace(path: Path) -> Trace:
    """Read the Trace that was shown; InputError names what is wrong with the file."""
    return read_session(path).shown.trace


def read_session(path: Path) -> SavedSession:
    """Read the runs of a file; InputError names what is wrong with it."""
    file = RegularFile(path)
    start = file.read(0, START)
    if start[: len(MAGIC)] != MAGIC:
        raise InputError(_("{file} is not a Visformer trace (*.vis).", file=file.name))
    version = tuple(start[len(MAGIC) :])
    if len(version) < 2 or not version[0]:
        raise InputError(
            _("{file} is cut off: copy or download it again.", file=file.name)
        )
    major, minor = version
    if major > VERSION[0]:
        raise InputError(
            _(
                "{file} was written by a newer Visformer: update to open it.",
                file=file.name,
            )
        )
    if major < VERSION[0]:
        raise InputError(
            _(
                "{file} was written before Visformer was released, and is no longer "
                "read: run its sentence again.",
                file=file.name,
            )
        )
    return read_session_file(BlockFile(file), (major, minor))
