"""``visformer desktop``: what a Linux desktop itself makes of the files."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from PySide6.QtGui import QColor, QImage

from visformer import paths
from visformer.cli import main
from visformer.program.desktop import MARK, SIZES

Said = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="desktops of Linux")
TRACE = "application/x-visformer-trace"
LESSON = "text/x-visformer-lesson"
LESSONS = paths.resource("lessons") / "en"


def needs(*programs: str) -> pytest.MarkDecorator:
    missing = [name for name in programs if shutil.which(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"no {', '.join(missing)}")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: Patch) -> Path:
    """Return an empty data folder; a program lies in a folder of an awkward name."""
    script = tmp_path / 'a "b" $HOME `c` \\d é' / "visformer"
    script.parent.mkdir()
    script.write_text('#!/bin/sh\nprintf "%s\\n" "$#" "$@"\n')
    script.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(script)])
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CURRENT_DESKTOP", "GNOME")  # xdg-mime asks GLib
    return tmp_path / "data"


def asked(*words: str | Path) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def files(home: Path) -> set[str]:
    """Return the files that are ours, the desktop's indexes left out."""
    found = (path for path in home.rglob("*visformer.*") if path.is_file())
    return {path.relative_to(home).as_posix() for path in found}


def test_icons_launcher_and_types_come_and_go(home: Path, capsys: Said) -> None:
    assert main(["desktop", "remove"]) == 0
    assert "nothing was removed" in capsys.readouterr().out
    assert not home.exists()
    for _again in range(2):
        assert main(["desktop", "install"]) == 0
        assert "Visformer is in the menu" in capsys.readouterr().out
    icons = home / "icons" / "hicolor"
    assert len(files(home)) == 3 + len(SIZES)
    for size in SIZES:
        image = QImage(str(icons / f"{size}x{size}" / "apps" / "visformer.png"))
        assert (image.width(), image.height()) == (size, size)
        assert image.pixelColor(0, 0).alpha() == 0
        bright = image.pixelColor(size * 7 // 16, size * 11 // 16)  # where the V ends
        assert bright == QColor("#fdf7b4")
    others = home / "applications" / "other.desktop"
    others.write_text("[Desktop Entry]\n")
    assert main(["desktop", "remove"]) == 0
    assert "out of the menu" in capsys.readouterr().out
    assert files(home) == set()
    assert others.exists()
    assert not icons.exists()


@needs("desktop-file-validate")
def test_the_launcher_is_valid(home: Path) -> None:
    assert main(["desktop", "install"]) == 0
    launcher = home / "applications" / "visformer.desktop"
    assert asked("desktop-file-validate", launcher) == ""


@needs("gio", "xdg-mime", "update-mime-database", "update-desktop-database")
def test_the_desktop_knows_our_files_and_opens_them(home: Path, tmp_path: Path) -> None:
    named, nameless = tmp_path / "my run.vis", tmp_path / "run"
    named.write_text("empty\n")
    shutil.copy(paths.resource(paths.FIRST_TRACE), nameless)
    lesson, page = LESSONS / "lecture.lesson.md", tmp_path / "page.md"
    page.write_text("# A page\n")
    kinds = {named: TRACE, nameless: TRACE, lesson: LESSON, page: "text/markdown"}
    assert main(["desktop", "install"]) == 0
    for path, kind in kinds.items():
        assert asked("xdg-mime", "query", "filetype", path) == kind
    for kind in (TRACE, LESSON):
        assert "visformer.desktop" in asked("gio", "mime", kind).splitlines()[0]
    launcher = home / "applications" / "visformer.desktop"
    assert asked("gio", "launch", launcher, named) == f"1\n{named}"
    assert main(["desktop", "remove"]) == 0
    assert asked("xdg-mime", "query", "filetype", named) == "text/plain"
    assert "visformer.desktop" not in asked("gio", "mime", TRACE)


def test_what_somebody_else_wrote_is_left(home: Path, capsys: Said) -> None:
    launcher = home / "applications" / "visformer.desktop"
    launcher.parent.mkdir(parents=True)
    launcher.write_text("[Desktop Entry]\n")
    assert main(["desktop", "install"]) == 2
    assert "is not Visformer's own" in capsys.readouterr().err
    assert files(home) == {"applications/visformer.desktop"}
    assert main(["desktop", "remove"]) == 0
    assert launcher.read_text() == "[Desktop Entry]\n"
    launcher.write_text(f"# {MARK}\n")
    assert main(["desktop", "install"]) == 0
    assert "Exec=" in launcher.read_text()


@pytest.mark.parametrize("system", ["win32", "darwin"])
def test_other_systems_are_told(system: str, monkeypatch: Patch, capsys: Said) -> None:
    monkeypatch.setattr(sys, "platform", system)
    assert main(["desktop", "install"]) == 2
    said = capsys.readouterr().err
    assert "is for desktops of Linux" in said
    assert said.count("\n") == 1


def test_a_folder_that_cannot_be_written_is_one_sentence(
    home: Path, capsys: Said
) -> None:
    home.write_text("no folder")
    for action in ("install", "remove"):
        expected = 2 if action == "install" else 0
        assert main(["desktop", action]) == expected
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "cannot be written (Not a directory). Set XDG_DATA_HOME" in said


def test_without_an_installed_program_nothing_is_written(
    home: Path, tmp_path: Path, monkeypatch: Patch, capsys: Said
) -> None:
    monkeypatch.setattr(sys, "argv", ["/somewhere/visformer/__main__.py"])
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    assert main(["desktop", "install"]) == 2
    assert "needs an installed Visformer" in capsys.readouterr().err
    assert not home.exists()


def test_a_desktop_without_its_programs_is_told_what_to_install(
    home: Path, monkeypatch: Patch, capsys: Said
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert main(["desktop", "install"]) == 0
    assert "shared-mime-info and desktop-file-utils" in capsys.readouterr().out
    assert len(files(home)) == 3 + len(SIZES)
