"""The bundle, used as a stranger would: without Python, and with nothing to find.

``python -m tests.bundle``, then ``pytest -m release``; see also ``tests.bundle``.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from tests.bundle import NAME, ROOT
from tests.traces import make_trace

ARCHIVE = Path(os.environ.get("VISFORMER_BUNDLE", ROOT / "dist" / f"{NAME}.tar.zst"))
SENTENCE = "I have a cat."
FRENCH = "J'ai un chat."
pytestmark = [pytest.mark.release, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpack it under a name with a blank and a letter of another alphabet."""
    assert ARCHIVE.exists(), "run python -m tests.bundle first"
    to = tmp_path_factory.mktemp("ein Bündel 中文")
    subprocess.run(["tar", "-C", to, "-I", "zstd", "-xf", ARCHIVE], check=True)
    (folder,) = to.iterdir()
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def bare(home: Path, **more: str) -> dict[str, str]:
    """Return surroundings in which no program is found."""
    return {"PATH": "/nonexistent", "HOME": str(home), "LANG": "C.UTF-8", **more}


def run(
    bundle: Path, home: Path, *words: str | Path, typed: str = ""
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [bundle / "visformer", *words],
        env=bare(home),
        input=typed,
        capture_output=True,
        text=True,
        timeout=200,
    )


def test_commands(bundle: Path, home: Path, tmp_path: Path) -> None:
    assert run(bundle, home, "--version").stdout.strip() in NAME
    assert run(bundle, home, "translate", typed=SENTENCE).stdout == f"{FRENCH}\n"
    make_trace().save(tmp_path / "run.vis")
    drawn: dict[str, list[str | Path]] = {
        "a.png": ["--text", SENTENCE],
        "b.png": [tmp_path / "run.vis"],
    }
    for name, words in drawn.items():
        done = run(bundle, home, "render", *words, "-o", tmp_path / name)
        assert (done.returncode, done.stderr) == (0, "")
        assert (tmp_path / name).stat().st_size > 20_000
    for name in ("visformer/LICENSE", "python/LICENSE.txt", "platformdirs", "torch"):
        assert (bundle / "licences" / name).exists()


def test_a_folder_of_transformers_is_refused_with_the_way_in(
    bundle: Path, home: Path, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "t5"}))
    save_file({"shared.weight": torch.ones(2, 2)}, tmp_path / "model.safetensors")
    words = ("translate", "--checkpoint", tmp_path)
    done = run(bundle, home, *words, typed=SENTENCE)
    assert done.returncode == 2
    assert done.stderr == (
        "visformer: This folder is opened with the library “transformers”, which the "
        "bundle leaves out. Install Visformer with pip and its extra “hf”, as README "
        "says.\n"
    )


def test_nothing_is_left_of_its_launcher(bundle: Path, home: Path) -> None:
    assert run(bundle, home, "desktop", "install").returncode == 0
    launcher = home / ".local/share/applications/visformer.desktop"
    assert str(bundle / "visformer") in launcher.read_text("utf-8")
    assert run(bundle, home, "desktop", "remove").returncode == 0
    left = [path for path in (home / ".local/share").rglob("*") if path.is_file()]
    assert [path for path in left if "visformer" in path.name] == []


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="needs dpkg-deb")
def test_the_debian_package_is_in_the_menu(tmp_path: Path) -> None:
    deb = ARCHIVE.with_name(f"{NAME}.deb")
    listed = subprocess.run(["dpkg-deb", "-c", deb], capture_output=True, text=True)
    assert "./usr/bin/visformer -> /opt/visformer/visformer\n" in listed.stdout
    assert not [line for line in listed.stdout.splitlines() if "root/root" not in line]
    for name in ("mime/packages/visformer.xml", "icons/hicolor/scalable/apps"):
        assert f"./usr/share/{name}" in listed.stdout
    with subprocess.Popen(
        ["dpkg-deb", "--fsys-tarfile", deb], stdout=subprocess.PIPE
    ) as files:
        launcher = "./usr/share/applications/visformer.desktop"
        command: list[str | Path] = ["tar", "-C", tmp_path, "-xf", "-", launcher]
        subprocess.run(command, stdin=files.stdout, check=True)
    text = (tmp_path / launcher).read_text("utf-8")
    assert 'Exec="/opt/visformer/visformer" %f\n' in text
    assert str(Path.home()) not in text


@pytest.fixture
def display() -> Iterator[str]:
    reader, writer = os.pipe()
    screen = ("-screen", "0", "1280x800x24", "-displayfd", str(writer))
    with subprocess.Popen(("Xvfb", *screen), pass_fds=[writer]) as server:
        os.close(writer)
        with os.fdopen(reader) as told:
            yield ":" + told.readline().strip()
        server.kill()


@pytest.mark.skipif(shutil.which("Xvfb") is None, reason="needs Xvfb")
@pytest.mark.parametrize("what", ["a sentence", "a recorded run"])
def test_the_window_and_its_engine(
    what: str, bundle: Path, home: Path, tmp_path: Path, display: str
) -> None:
    """What the window keeps tells what it did: the engine's run, or its own reading."""
    make_trace().save(tmp_path / "run.vis")
    words = [tmp_path / "run.vis"] if what == "a recorded run" else ["--text", SENTENCE]
    window = subprocess.Popen(
        [bundle / "visformer", *words],
        env=bare(home, DISPLAY=display),
        stderr=subprocess.PIPE,
        text=True,
    )
    kept = home / ".local/state/visformer/sessions"
    until = time.monotonic() + 120
    try:
        while time.monotonic() < until and window.poll() is None:
            if what == "a recorded run" and _engines(window.pid):
                break
            if any(
                FRENCH.split()[-1][:-1].encode() in f.read_bytes()
                for f in kept.rglob("*")
                if f.is_file()
            ):
                break
            time.sleep(0.5)
        assert time.monotonic() < until
        assert _engines(window.pid)
    finally:
        window.send_signal(signal.SIGTERM)
        _out, said = window.communicate(timeout=60)
    assert (window.returncode, said) == (128 + signal.SIGTERM, "")


def _engines(parent: int) -> list[int]:
    """Return the processes that a window has started and that have loaded torch."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            status = (process / "status").read_text()
            mapped = (process / "maps").read_text()
        except OSError:
            continue
        if f"PPid:\t{parent}\n" in status and "libtorch" in mapped:
            found.append(int(process.name))
    return found
