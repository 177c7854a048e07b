"""Files are written whole, by whoever writes them at the same time."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import visformer
from tests.traces import make_trace
from visformer.cli import main
from visformer.files import amount, read_pairs, write_whole, written_whole

if sys.platform != "win32":
    import fcntl

BACK = "is, or is behind, a link that leads back to itself"
posix = pytest.mark.skipif(sys.platform == "win32", reason="links and locks of POSIX")

WRITER = """
import sys
from pathlib import Path
from visformer.files import write_whole
path, own = Path(sys.argv[1]), int(sys.argv[2])
sys.stdin.readline()
for _turn in range(40):
    write_whole(path, bytes([own]) * (100_000 * own))
"""


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (1, "1 byte"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (1_000_000, "1.0 MB"),
        (37_540_000, "37.5 MB"),
        (1_234_000_000_000, "1,234.0 GB"),
    ],
)
def test_amounts_have_the_largest_unit_of_which_there_is_one(
    size: int, text: str
) -> None:
    assert amount(size) == text


@posix
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
    """Long ago: what is young may be being written."""
    path = tmp_path / "a.vis"
    left = [tmp_path / f".{name}.0a1b2c3d.part" for name in ("a.vis", "b.vis", "a.vis")]
    left[2] = left[2].with_name(".a.vis.ffffffff.part")
    for file in left:
        file.write_bytes(b"half of something longer")
    os.utime(left[0], (0, 0))
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"
    assert sorted(tmp_path.iterdir()) == sorted([path, *left[1:]])


@posix
@pytest.mark.timeout(20)  # it used to wait for the lock
@pytest.mark.parametrize("planted", ["download", "link", "hard link", "locked"])
def test_a_file_of_somebody_else_is_never_written_to(
    planted: str, tmp_path: Path
) -> None:
    """A browser's running download has such a name; a stranger plants a link there."""
    path, part, victim = (tmp_path / name for name in ("a.vis", "a.vis.part", "victim"))
    victim.write_bytes(b"kept")
    if planted == "link":
        part.symlink_to(victim)
    elif planted == "hard link":
        part.hardlink_to(victim)
    else:
        part.write_bytes(b"kept")
    with part.open("rb") as held:
        if planted == "locked":
            fcntl.flock(held, fcntl.LOCK_EX)
        write_whole(path, b"new")
    assert (part.read_bytes(), victim.read_bytes()) == (b"kept", b"kept")
    assert path.read_bytes() == b"new"
    assert not path.is_symlink()


@posix
def test_who_could_read_a_file_can_read_the_one_that_takes_its_place(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.vis"
    write_whole(path, b"new")
    (tmp_path / "b").touch()
    assert path.stat().st_mode == (tmp_path / "b").stat().st_mode
    for mode in (0o600, 0o640, 0o666):
        path.chmod(mode)
        write_whole(path, b"newer")
        assert stat.S_IMODE(path.stat().st_mode) == mode
    with written_whole(path, private=True) as file:
        file.write(b"private")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@posix
def test_a_trace_that_is_saved_through_a_link_leaves_it_one(tmp_path: Path) -> None:
    real, link = tmp_path / "real.vis", tmp_path / "link.vis"
    real.write_bytes(b"old")
    link.symlink_to(real)
    make_trace().save(link)
    assert link.is_symlink()
    assert visformer.open_trace(real).target == make_trace().target
    link.unlink()
    link.symlink_to(link)
    with pytest.raises(visformer.InputError, match=BACK):
        make_trace().save(link)


LESSON = """---
visformer-lesson: 1
title: a
trace: loop.vis
---
## A
"""


@posix
def test_links_that_lead_to_themselves_have_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names = "ck", "loop.vis", "a.tsv", "b.lesson.md", "out.png", "out.html"
    for name in names:
        os.symlink(name, name)
    Path("a.lesson.md").write_text(LESSON, encoding="utf-8")
    calls: list[Callable[[], object]] = [
        *(partial(visformer.load, path) for path in (*names, "ck/a", Path("ck/a.pt"))),
        partial(visformer.load, ("ck", "ck")),
        partial(visformer.open_trace, "loop.vis"),
        partial(visformer.render, "ck", "a.png", text="a"),
        partial(visformer.render, make_trace(), "out.png"),
        partial(visformer.to_html, make_trace(), "out.html"),
        partial(make_trace().save, "loop.vis"),
        partial(read_pairs, Path("a.tsv")),
    ]
    for call in calls:
        with pytest.raises(visformer.VisformerError, match=BACK):
            call()
    assert BACK in visformer.inspect("ck")["problem"]
    for command in (
        ["ck"],
        ["inspect", "ck"],
        ["scan", "a.tsv"],
        ["compare", "loop.vis", "loop.vis"],
        ["lesson", "check", "a.lesson.md"],
        ["lesson", "check", "b.lesson.md"],
        ["lesson", "print", "a.lesson.md", "-o", "out.html"],
        ["render", "ck", "--text", "a", "-o", "a.png"],
        ["render", "--text", "a", "-o", "out.png"],
        ["train", "a.tsv", "--out", "trained"],
    ):
        assert main(command) == 2
        said = capsys.readouterr().err
        assert BACK in said, (command, said)
        assert len(said.splitlines()) == 1


def test_an_error_leaves_the_old_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.vis"
    path.write_bytes(b"old")

    def amid() -> None:
        with written_whole(path) as file:
            file.write(b"ne")
            raise ValueError("amid")

    with pytest.raises(ValueError, match="amid"):
        amid()
    assert path.read_bytes() == b"old"
    assert [*tmp_path.iterdir()] == [path]
