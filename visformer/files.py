"""A stranger's files and names: read whole and bounded, refused in one sentence."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from visformer.errors import CheckpointError

MAX_JSON = 1 << 20
_ARCHIVES = {  # first bytes -> what such a file is called
    b"7z\xbc\xaf": "7z",
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"(\xb5/\xfd": "zstd",
    b"Rar!": "rar",
}
_DEVICES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)


def short(text: str, limit: int = 48) -> str:
    """Return a stranger's name at a length, and in characters, that suit a sentence."""
    if not text.isprintable():
        known = (c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
        text = "".join(known)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def listed(names: list[str], *, room: int = 110, width: int = 48) -> str:
    """Join names for a sentence: as many as fit, at least one, then "and N more".

    ``room`` is for all of them, ``width`` for each, in characters.
    """
    shown: list[str] = []
    for name in names[:8]:
        if shown and len(", ".join([*shown, short(name, width)])) > room:
            break
        shown.append(short(name, width))
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")


def amount(size: int) -> str:
    """Write a number of bytes for a reader: "37.5 MB"."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:,.1f} {unit}"
    return f"{size} bytes"


def exists(path: Path) -> bool:
    """Tell whether a path is there; one that cannot even be looked up is not."""
    return _look_up(path.exists)


def is_file(path: Path) -> bool:
    """Tell whether a path is a file; one that cannot even be looked up is none."""
    return _look_up(path.is_file)


def is_folder(path: Path) -> bool:
    """Tell whether a path is a folder; one that cannot even be looked up is none."""
    return _look_up(path.is_dir)


def _look_up(question: Callable[[], bool]) -> bool:
    try:
        return question()
    except (OSError, ValueError):
        return False


def read_regular(path: Path, limit: int) -> bytes:
    """Read a plain file of at most ``limit`` bytes; CheckpointError otherwise."""
    name = short(path.name)
    try:
        facts = path.stat()  # before opening, which would wait on a pipe
        _check_kind(facts, name, limit)
        with path.open("rb") as file:
            return file.read(facts.st_size)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or "its name is not valid"
        raise CheckpointError(
            f"{name} cannot be read ({reason.lower()}): check the file and its folder."
        ) from error


def _check_kind(facts: os.stat_result, name: str, limit: int) -> None:
    if not stat.S_ISREG(facts.st_mode):
        kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe"}
        kind = kinds.get(stat.S_IFMT(facts.st_mode), "a device")
        raise CheckpointError(
            f"{name} is {kind}, not a file: choose a file that holds a model."
        )
    if facts.st_size == 0:
        raise CheckpointError(f"{name} is empty: download or copy it again.")
    if facts.st_size > limit:
        raise CheckpointError(
            f"{name} is too large: {amount(facts.st_size)}, where at most "
            f"{amount(limit)} are read."
        )
    check_memory(2 * facts.st_size, name)


def available_memory() -> int:
    """Return how many bytes of memory can be had without swapping."""
    try:
        # unlike SC_AVPHYS_PAGES, this counts the file cache, which yields when asked
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
            f"{name} needs {amount(needed)} of memory and {amount(free)} is free: "
            "close other programs or choose a smaller model."
        )


def refuse_foreign(start: bytes, name: str) -> None:
    """Raise CheckpointError where a file begins as another kind of file does."""
    text = start.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if text.startswith((b"<!doctype", b"<html", b"<head", b"<?xml")):
        raise CheckpointError(
            f"{name} is a web page: the download went wrong. Download the file itself."
        )
    if text.startswith(b"version https://git-lfs"):
        raise CheckpointError(
            f"{name} is a Git LFS pointer, not the file itself: run “git lfs pull” "
            "in its folder."
        )
    archive = next((a for magic, a in _ARCHIVES.items() if start.startswith(magic)), "")
    archive = "tar" if start[257:262] == b"ustar" else archive
    if archive:
        raise CheckpointError(
            f"{name} is a {archive} archive: unpack it and open what it holds."
        )


class _RefusedJson(ValueError):
    """JSON that Python accepts and we do not."""


def read_json(path: Path, limit: int = MAX_JSON) -> dict[str, Any]:
    """Read one JSON object, strictly: no NaN, no key twice, at most ``limit`` bytes."""
    data, name = read_regular(path, limit), short(path.name)
    refuse_foreign(data[:512], name)
    try:
        value = json.loads(data, parse_constant=_no_constant, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(
            f"{name} is not valid JSON: {_reason(error)}. Correct it or copy it again."
        ) from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{name} must hold one JSON object, from {{ to }}.")
    return value


def _no_constant(text: str) -> float:
    raise _RefusedJson(f"{text} is not a number")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    for key, value in pairs:
        if key in entries:
            raise _RefusedJson(f"“{short(key)}” stands there twice")
        entries[key] = value
    return entries


def _reason(error: Exception) -> str:
    if isinstance(error, _RefusedJson):
        return str(error)
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg.lower()} in line {error.lineno}"
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8"
    deep = isinstance(error, RecursionError)
    return "it is nested too deeply" if deep else "a number is too long"


def inside(folder: Path, name: str, *, key: str) -> Path:
    """Return the file that ``key`` names; CheckpointError where it leads outside."""
    path = folder / name
    if not _is_plain(name):
        raise CheckpointError(
            f"config.json: “{key}” is “{short(name)}”: it must be the name of a file "
            "inside the checkpoint's folder."
        )
    if not _is_within(path, folder):
        raise CheckpointError(
            f"{short(name)} is a link that leads out of its folder: copy the file "
            "itself into the folder."
        )
    if not path.exists():
        raise CheckpointError(
            f"{short(name)} is missing from {short(folder.resolve().name)}: copy it "
            "into the folder."
        )
    return path


def _is_plain(name: str) -> bool:
    """Whether a name is a file's own on any system, and no device's."""
    odd = set(name) & set('/\\:*?"<>|') or not name.isprintable()
    bare = name.strip(". ")
    return not odd and 0 < len(bare) <= 128 and not _DEVICES.fullmatch(bare)


def _is_within(path: Path, folder: Path) -> bool:
    try:
        return path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):  # a link that leads to itself
        return False


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that a kill at any moment leaves the old one or the new one."""
    partial = path.with_name(path.name + ".part")
    with partial.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    if os.name == "posix":  # the new name, too, must survive a power cut
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
