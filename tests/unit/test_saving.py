"""Saving on a disk that fails, or on a computer that stops, at any moment."""

from __future__ import annotations

import contextlib
import errno
import io
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.traces import make_trace
from visformer.errors import InputError
from visformer.files import save_result
from visformer.trace_file.saved_session import SavedRun
from visformer.trace_file.trace_file import read_trace, write_session
from visformer.training.loop import read_file, replace_file

if sys.platform != "win32":
    import resource

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")

Save = Callable[[Path, int], None]
OLD, NEW = 1, 2


def save_trace(path: Path, seed: int) -> None:
    write_session([SavedRun(trace=make_trace(seed=seed))], path)


def save_picture(path: Path, seed: int) -> None:
    save_result(path, bytes([seed]) * 40_000)


def save_state(path: Path, seed: int) -> None:
    replace_file(path, {"step": seed, "weights": torch.full((50, 50), float(seed))})


SAVES = {"a.vis": save_trace, "a.png": save_picture, "a.pt": save_state}
each_save = pytest.mark.parametrize("name", SAVES)


def saved(folder: Path, name: str) -> tuple[Path, bytes, bytes]:
    """Save the old one and the new one; return where the old one is, and both."""
    new = folder / f"new {name}"
    SAVES[name](new, NEW)
    data = new.read_bytes()
    new.unlink()
    path = folder / name
    SAVES[name](path, OLD)
    return path, path.read_bytes(), data


@pytest.fixture
def room() -> Iterator[Callable[[int], None]]:
    """Let no file become larger than so many bytes: writing more is an error."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda most: resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@each_save
def test_a_disk_that_is_full_at_any_byte_leaves_the_old_file(
    name: str, room: Callable[[int], None], tmp_path: Path
) -> None:
    path, old, new = saved(tmp_path, name)
    for most in [*range(0, len(new), max(1, len(new) // 100)), len(new) - 1]:
        room(most)
        with pytest.raises(InputError, match="cannot be written"):
            SAVES[name](path, NEW)
        assert path.read_bytes() == old
        assert [*tmp_path.iterdir()] == [path]
    room(len(new))
    SAVES[name](path, NEW)
    assert path.read_bytes() == new


class FailsOnce:
    """Stands in for a call of the system, and fails the n-th time."""

    def __init__(self, call: str, number: int, code: int) -> None:
        self.true, self.number, self.code = getattr(os, call), number, code
        self.count = 0

    def __call__(self, *given: Any, **more: Any) -> Any:
        self.count += 1
        if self.count == self.number:
            raise OSError(self.code, os.strerror(self.code))
        return self.true(*given, **more)


@each_save
@pytest.mark.parametrize("call", ["open", "ftruncate", "fsync", "replace"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_any_call_that_fails_leaves_the_old_file_or_the_new_one(
    name: str, call: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last ``fsync`` is of the folder, when the new file stands already."""
    path, old, new = saved(tmp_path, name)
    for number in itertools.count(1):
        fails = FailsOnce(call, number, code)
        with monkeypatch.context() as patch:
            patch.setattr(os, call, fails)
            with contextlib.suppress(InputError):
                SAVES[name](path, NEW)
        assert path.read_bytes() in (old, new)
        assert [*tmp_path.iterdir()] == [path]
        if fails.count < number:
            break  # each of its calls has failed
        path.write_bytes(old)


# ---- a computer that stops ------------------------------------------------------

Operation = tuple[Any, ...]


class Recorder:
    """Notes what a save does to the disk, while it does it."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.operations: list[Operation] = []
        true = {name: getattr(os, name) for name in ("fsync", "replace", "fdopen")}
        recorder = self

        class Raw(io.FileIO):
            def write(self, data: Any) -> int:
                at = self.tell()
                count = super().write(data)
                note = "write", at, bytes(data)[:count]
                recorder.operations.append(note)
                return count

            def truncate(self, size: int | None = None) -> int:
                recorder.operations.append(("cut", size))
                return super().truncate(size)

        def fdopen(number: int, *_mode: object) -> io.BufferedRandom:
            recorder.operations.append(("make",))
            return io.BufferedRandom(Raw(number, "r+b"))

        def fsync(number: int) -> None:
            folder = os.path.isdir(f"/proc/self/fd/{number}")
            self.operations.append(("keep names" if folder else "keep",))
            true["fsync"](number)

        def replace(source: str, target: str) -> None:
            self.operations.append(("rename",))
            true["replace"](source, target)

        for name, stand_in in (("fdopen", fdopen), ("fsync", fsync)):
            patch.setattr(os, name, stand_in)
        patch.setattr(os, "replace", replace)
        patch.setattr(os, "rename", replace)


def left(operations: list[Operation], lost: set[int], old: bytes) -> bytes | None:
    """Return what stands under the name when some operations never reached the disk."""
    part, named = b"", old
    for number, (what, *more) in enumerate(operations):
        if number in lost:
            continue
        if what == "write":
            at, data = more
            part = part.ljust(at, b"\0")[:at] + data + part[at + len(data) :]
        elif what == "cut":
            part = part[: more[0]]
        elif what == "rename":
            named = part
    # a file that was renamed before its bytes were on the disk shows what is there
    renamed = [
        n for n, o in enumerate(operations) if o[0] == "rename" and n not in lost
    ]
    return part if renamed else named


def losses(operations: list[Operation]) -> Iterator[set[int]]:
    """Yield what may be lost when the computer stops after these operations.

    What was written before the file was kept is there; a new name, once the folder was.
    """
    kept = [n for n, (what, *_) in enumerate(operations) if what == "keep"]
    names = [n for n, (what, *_) in enumerate(operations) if what == "keep names"]
    loose = [
        n
        for n, (what, *_) in enumerate(operations)
        if (what in ("write", "cut") and n > max(kept, default=-1))
        or (what == "rename" and n > max(names, default=-1))
    ]
    for count in (0, 1, 2, len(loose) - 1, len(loose)):
        yield from map(set, itertools.combinations(loose, max(0, count)))


@pytest.mark.skipif(sys.platform != "linux", reason="names of open files of Linux")
@each_save
def test_a_computer_that_stops_at_any_moment_has_the_old_file_or_the_new_one(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, old, new = saved(tmp_path, name)
    with monkeypatch.context() as patch:
        recorder = Recorder(patch)
        SAVES[name](path, NEW)
    operations = recorder.operations
    kinds = [what for what, *_ in operations]
    assert {"write", "keep", "rename", "keep names"} <= {*kinds}
    found = {
        left(operations[:moment], lost, old)
        for moment in range(len(operations) + 1)
        for lost in losses(operations[:moment])
    }
    assert found == {old, new}
    # the check can fail: without the file's own fsync there is something in between
    loose = [o for o in operations if o[0] != "keep"]
    assert {left(loose, lost, old) for lost in losses(loose)} - {old, new}


def test_what_was_saved_can_be_read(tmp_path: Path) -> None:
    save_trace(tmp_path / "a.vis", NEW)
    assert read_trace(tmp_path / "a.vis").target == make_trace(seed=NEW).target
    save_state(tmp_path / "a.pt", NEW)
    assert read_file(tmp_path / "a.pt")["step"] == NEW
