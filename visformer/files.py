"""Untrusted files and names: read whole, with limits, and refused in one sentence."""

import contextlib
import gzip
import json
import os
import re
import secrets
import stat
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TextIO

from visformer.errors import CheckpointError, InputError, VisformerError
from visformer.language import N_, _, ngettext

MAX_JSON = 1 << 20
MOST_LINE = 1 << 20  # characters of a pair of sentences
PAIR_BYTES = 300  # memory of a pair besides its characters
NAMED = 40  # characters of a name that are part of the name while it is written
ABANDONED = 3600  # seconds after which a half-written file is removed
_ARCHIVES = {  # first bytes -> kind of archive
    b"7z\xbc\xaf": "7z",
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"(\xb5/\xfd": "zstd",
    b"Rar!": "rar",
}
_DEVICES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)


def short(text: str, limit: int = 48) -> str:
    """Return an untrusted name, shortened and made printable to suit a sentence."""
    if not text.isprintable():
        known = (c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
        text = "".join(known)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def listed(names: list[str], *, room: int = 110, width: int = 48) -> str:
    """Join names for a sentence: as many as fit, at least one, then "and N more".

    ``room`` is for all of them together, ``width`` for each, in characters.
    """
    shown: list[str] = []
    for name in names[:8]:
        if shown and len(", ".join([*shown, short(name, width)])) > room:
            break
        shown.append(short(name, width))
    text, more = ", ".join(shown), len(names) - len(shown)
    if not more:
        return text
    return ngettext(
        "{names} and {n:,} more", "{names} and {n:,} more", more, names=text
    )


def amount(size: int) -> str:
    """Write a number of bytes for a reader: "37.5 MB"."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:,.1f} {unit}"
    return ngettext("{n} byte", "{n} bytes", size)


# unlike the methods of Path, these are False for what cannot be looked up
exists, is_file, is_folder = os.path.exists, os.path.isfile, os.path.isdir


def read_regular(path: Path, limit: int) -> bytes:
    """Read a regular file of at most ``limit`` bytes; CheckpointError otherwise."""
    name = short(path.name)
    try:
        real_path(path, CheckpointError)
        facts = path.stat()  # before opening, which would block on a pipe
        _check_kind(facts, name, limit)
        with path.open("rb") as file:
            return file.read(facts.st_size)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or _("its name is not valid")
        raise CheckpointError(
            "{file} cannot be read ({reason}). Check the file and its folder.",
            file=name,
            reason=reason.lower(),
        ) from error


def _check_kind(facts: os.stat_result, name: str, limit: int) -> None:
    if not stat.S_ISREG(facts.st_mode):
        raise CheckpointError(no_file_words(facts.st_mode), name=name)
    if facts.st_size == 0:
        raise CheckpointError("{file} is empty. Download or copy it again.", file=name)
    if facts.st_size > limit:
        raise CheckpointError(
            "{file} is too large: it has {size}, and the limit is {limit}.",
            file=name,
            size=amount(facts.st_size),
            limit=amount(limit),
        )
    check_memory(2 * facts.st_size, name)


_NO_FILE = {
    stat.S_IFDIR: N_("{name} is a folder, not a file. Choose a file."),
    stat.S_IFIFO: N_("{name} is a pipe, not a file. Choose a file."),
    stat.S_IFSOCK: N_("{name} is a socket, not a file. Choose a file."),
}


def no_file_words(mode: int) -> str:
    """Return the sentence about what is no regular file; ``{name}`` is to be filled."""
    device = N_("{name} is a device, not a file. Choose a file.")
    return _NO_FILE.get(stat.S_IFMT(mode), device)


def check_regular(path: Path) -> None:
    """Raise InputError for what is no regular file: reading it may never end."""
    real_path(path)
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode):
        raise InputError(no_file_words(mode), name=short(path.name))


def available_memory() -> int:
    """Return how many bytes of memory are available without swapping."""
    try:
        # unlike SC_AVPHYS_PAGES, this counts the file cache, which is freed on demand
        counts = Path("/proc/meminfo").read_text("ascii")
        if match := re.search(r"MemAvailable: +(\d+) kB", counts):
            return int(match[1]) * 1024
    except OSError:
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):  # Windows has no sysconf
        return 1 << 62


def check_memory(needed: int, name: str, free: int | None = None) -> None:
    """Raise CheckpointError unless ``needed`` bytes fit into memory or ``free``."""
    free = available_memory() if free is None else free
    if needed > free:
        raise CheckpointError(
            "{name} needs {needed} of memory, but only {free} is free. Close other "
            "programs or choose a smaller model.",
            name=name,
            needed=amount(needed),
            free=amount(free),
        )


def refuse_foreign(start: bytes, name: str) -> None:
    """Raise CheckpointError if a file starts like another kind of file."""
    text = start.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    page = text.startswith((b"<!doctype", b"<html", b"<head"))
    if page or (text.startswith(b"<?xml") and b"html" in text):
        raise CheckpointError(
            "{file} is a web page, so the download went wrong. Download the file "
            "itself.",
            file=name,
        )
    if text.startswith(b"version https://git-lfs"):
        raise CheckpointError(
            "{file} is a Git LFS pointer, not the file itself. Run “git lfs pull” "
            "in its folder.",
            file=name,
        )
    archive = next((a for magic, a in _ARCHIVES.items() if start.startswith(magic)), "")
    archive = "tar" if start[257:262] == b"ustar" else archive
    if archive:
        raise CheckpointError(
            "{file} is an archive ({kind}). Unpack it and open its content.",
            file=name,
            kind=archive,
        )


class _RefusedJson(ValueError):
    """JSON that Python accepts but we do not."""


def read_json(path: Path, limit: int = MAX_JSON) -> dict[str, Any]:
    """Read one JSON object as ``read_json_value`` does."""
    value = read_json_value(path, limit)
    if not isinstance(value, dict):
        raise CheckpointError(
            "{file} must hold one JSON object, from {{ to }}.", file=short(path.name)
        )
    return value


def read_json_value(path: Path, limit: int = MAX_JSON) -> Any:
    """Read JSON, strictly: no NaN, unique keys, at most ``limit`` bytes.

    Raises CheckpointError if it is not valid.
    """
    data, name = read_regular(path, limit), short(path.name)
    refuse_foreign(data[:512], name)
    try:
        return json.loads(data, parse_constant=_no_constant, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(
            "{file} is not valid JSON: {reason}. Correct it or copy it again.",
            file=name,
            reason=_reason(error),
        ) from error


def _no_constant(text: str) -> float:
    raise _RefusedJson(_("{text} is not a number", text=text))


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    for key, value in pairs:
        if key in entries:
            raise _RefusedJson(_("“{key}” occurs twice", key=short(key)))
        entries[key] = value
    return entries


def _reason(error: Exception) -> str:
    if isinstance(error, _RefusedJson):
        return str(error)
    if isinstance(error, json.JSONDecodeError):
        return _("{fault} in line {n}", fault=error.msg.lower(), n=error.lineno)
    if isinstance(error, UnicodeDecodeError):
        return _("it is not UTF-8")
    deep = isinstance(error, RecursionError)
    return _("it is nested too deeply") if deep else _("a number is too long")


def inside(folder: Path, name: str, *, key: str, of: str = "config.json") -> Path:
    """Return the file that ``key`` names in ``of``; CheckpointError for none."""
    path = folder / name
    if not _is_plain(name):
        raise CheckpointError(
            "{file}: “{key}” is “{name}”, but must be the name of a file inside "
            "the checkpoint's folder.",
            file=of,
            key=key,
            name=short(name),
        )
    if not real_path(path, CheckpointError).is_relative_to(folder.resolve()):
        raise CheckpointError(
            "{file} is a link that leads out of its folder. Copy the file itself "
            "into the folder.",
            file=short(name),
        )
    if not path.exists():
        raise CheckpointError(
            "{file} is missing from {folder}. Copy it into the folder.",
            file=short(name),
            folder=short(folder.resolve().name),
        )
    return path


def _is_plain(name: str) -> bool:
    """Whether a name is valid for a file on every system, and not a device's."""
    odd = set(name) & set('/\\:*?"<>|') or not name.isprintable()
    bare = name.strip(". ")
    return not odd and 0 < len(bare) <= 128 and not _DEVICES.fullmatch(bare)


def real_path(path: Path, error: type[VisformerError] = InputError) -> Path:
    """Return where links lead; ``error`` where they lead back to themselves."""
    with contextlib.suppress(RuntimeError):  # from 3.13 on such a link is left there
        found = path.resolve()
        if not any(map(os.path.islink, (found, *found.parents))):
            return found
    words = N_(
        "{name} is, or is behind, a link that leads back to itself. Choose another "
        "file or folder."
    )
    raise error(words, name=short(path.name))


@contextlib.contextmanager
def saving(path: Path) -> Iterator[Path]:
    """Give the path to write to, links followed; InputError where writing fails."""
    try:
        yield real_path(path)  # a link stays a link
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            "{path} cannot be written ({reason}): choose another folder or name.",
            path=short(str(path), 90),
            reason=short(reason, 90),
        ) from error


def save_result(path: Path, data: bytes) -> None:
    """Write the user's file, whole or not at all; InputError where that fails.

    A pipe or a device, such as /dev/stdout, takes the data as it comes.
    """
    with saving(path) as target:
        if target.exists() and not target.is_file():
            target.write_bytes(data)
        else:
            write_whole(target, data)


def check_suffix(path: Path, *suffixes: str) -> None:
    """Raise InputError where a name promises another format than is written."""
    if path.suffix and path.suffix.lower() not in suffixes:
        raise InputError(
            "{name} is not written as {given}, only as {suffix}: choose a name "
            "that ends so.",
            name=short(path.name),
            given=short(path.suffix, 12),
            suffix=", ".join(suffixes),
        )


def write_whole(path: Path, data: bytes | memoryview) -> None:
    """Write a file so that a crash at any moment leaves the old or the new one."""
    with written_whole(path) as file:
        file.write(data)


@contextlib.contextmanager
def written_whole(path: Path, *, private: bool = False) -> Iterator[BinaryIO]:
    """Write a file piece by piece; it takes its place when all of it is on the disk.

    A private one can be read by its user alone, one that takes another's place by those
    who could read that; a link is replaced. A crash at any moment leaves the old file
    or the new one, an error the old one.
    """
    sweep(path)
    mode = None if private else _mode(path)
    partial = path.with_name(f".{path.name[:NAMED]}.{secrets.token_hex(4)}.part")
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    number = os.open(partial, flags, 0o666 if mode is None and not private else 0o600)
    try:
        with os.fdopen(number, "w+b") as file:
            yield file
            file.flush()
            if mode is not None:
                os.chmod(number if os.chmod in os.supports_fd else partial, mode)
            os.fsync(number)
        partial.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise
    if os.name == "posix":  # the new name, too, must survive a power cut
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _mode(path: Path) -> int | None:
    """Return who may read and write a file, as bits; None for none, or a link."""
    try:
        found = path.lstat().st_mode
    except FileNotFoundError:
        return None
    return stat.S_IMODE(found) if stat.S_ISREG(found) else None


def sweep(path: Path) -> None:
    """Remove what writers of a file left that were killed, long ago."""
    name = re.compile(rf"\.{re.escape(path.name[:NAMED])}\.[0-9a-f]{{8}}\.part")
    with contextlib.suppress(OSError, ValueError), os.scandir(path.parent) as entries:
        for entry in entries:
            if name.fullmatch(entry.name):
                written = entry.stat(follow_symlinks=False).st_mtime
                if time.time() - written > ABANDONED:
                    os.unlink(entry.path)


# ---- pairs of sentences --------------------------------------------------------------


class Pair(NamedTuple):
    """A sentence and its translation."""

    source: str
    target: str


def read_pairs(path: Path) -> list[Pair]:
    """Read tab-separated UTF-8 pairs (source, target; further columns are ignored).

    Blank lines are skipped. A name ending in ``.gz`` means gzip. Raises InputError,
    naming the faulty line; also for a path that is not a file, and if memory does not
    suffice.
    """
    pairs = []
    for number, pair in pair_lines(path):
        if isinstance(pair, InputError):
            raise pair
        if not pair.target:
            raise not_a_pair(number, path.name)
        pairs.append(pair)
    return pairs


def pair_lines(path: Path) -> Iterator[tuple[int, Pair | InputError]]:
    """Yield number and pair of each line that is not blank, as ``read_pairs`` does.

    A line without a tab is a source alone: its target is "". A line that is no pair is
    the error that says so. “-” is standard input.
    """
    room, name = available_memory() // 2, short(path.name)
    try:
        with _opened_lines(path) as lines:
            for number, line in enumerate(_line_starts(lines), 1):
                if not line.strip():
                    continue
                yield number, _pair(line, number, path.name)
                room -= PAIR_BYTES + 2 * len(line)
                if room < 0:
                    raise InputError(
                        "{file} holds more pairs than memory does: {n:,} were read. "
                        "Use fewer.",
                        file=name,
                        n=number,
                    )
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(
            "{path} cannot be read as UTF-8 text: {reason}.",
            path=short(str(path), 90),
            reason=error,
        ) from error


def _opened_lines(path: Path) -> TextIO:
    given: Path | int = os.dup(0) if str(path) == "-" else path
    if given == path:
        check_regular(path)
    opener: Callable[..., Any] = gzip.open if path.suffix == ".gz" else open
    # what is not UTF-8 is found out line by line
    lines: TextIO = opener(given, "rt", encoding="utf-8-sig", errors="surrogateescape")
    return lines


def _line_starts(file: TextIO) -> Iterator[str]:
    """Yield the lines of a file; of one that is too long, as much as shows it."""
    while line := file.readline(MOST_LINE):
        yield line
        while len(line) == MOST_LINE and not line.endswith("\n"):
            line = file.readline(MOST_LINE)


def _pair(line: str, number: int, file: str) -> Pair | InputError:
    columns = [column.strip() for column in line.rstrip("\n").split("\t")[:2]]
    if len(line) == MOST_LINE or not all(columns):
        return not_a_pair(number, file)
    if any("\udc80" <= character <= "\udcff" for character in line):
        return InputError(
            "Line {n} of {file} cannot be read: it is not UTF-8.", n=number, file=file
        )
    return Pair(*columns, *[""] * (2 - len(columns)))


def not_a_pair(number: int, file: str) -> InputError:
    """Return the error that a line is no pair."""
    return InputError(
        "Line {n} of {file} is not a pair. It needs a source, a tab and a target.",
        n=number,
        file=file,
    )
