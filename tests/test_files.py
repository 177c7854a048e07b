"""Files are written whole, by whoever writes them at the same time."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from visformer.files import write_whole, written_whole

WRITER = """
import sys
from pathlib import Path
from visformer.files import write_whole
path, own = Path(sys.argv[1]), int(sys.argv[2])
sys.stdin.readline()
for _turn in range(40):
    write_whole(path, bytes([own]) * (100_000 * own))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="locks of POSIX")
def test_two_programs_write_the_same_file_in_turns(tmp_path: Path) -> None:
    path, bad = tmp_path / "a.vis", 0
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), str(own)], stdin=subprocess.PIPE
        )
        for own in (1, 2)
    ]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write(b"\n")
        writer.stdin.close()
    while any(writer.poll() is None for writer in writers):
        if path.exists():
            data = path.read_bytes()
            bad += data != data[:1] * (100_000 * data[0])
    assert [writer.returncode for writer in writers] == [0, 0]
    assert bad == 0
    assert [*tmp_path.iterdir()] == [path]


def test_what_an_earlier_program_left_half_is_no_part_of_it(tmp_path: Path) -> None:
    path = tmp_path / "a.vis"
    (tmp_path / "a.vis.part").write_bytes(b"half of something longer")
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"
    assert [*tmp_path.iterdir()] == [path]


def test_an_error_leaves_the_old_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.vis"
    path.write_bytes(b"old")

    def full(number: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_whole(path, b"new")

    def amid() -> None:
        with written_whole(path) as file:
            file.write(b"ne")
            raise ValueError("amid")

    with pytest.raises(ValueError, match="amid"):
        amid()
    assert path.read_bytes() == b"old"
    assert [*tmp_path.iterdir()] == [path]
