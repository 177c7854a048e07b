"""Make a bundle that needs no Python: ``python -m tests.bundle [FOLDER]``.

PyInstaller does the work (``pip install pyinstaller``): it is in no extra, since only
who makes a bundle needs it. Nothing is downloaded. What the bundle holds is what is
installed beside PyInstaller; with torch's build for CPUs it has 0.9 GB.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.metadata import (
    Distribution,
    PackageNotFoundError,
    distribution,
    distributions,
    version,
)
from pathlib import Path

ROOT = Path(__file__).parents[1]
NAME = f"visformer-{version('visformer')}-{sys.platform}-{platform.machine()}"
START = """
import multiprocessing

multiprocessing.freeze_support()  # the engine is a process of this program
from visformer.__main__ import main

raise SystemExit(main())
"""
LEFT_OUT = (  # by the bundle: extras, and what only tests need
    *("transformers", "tokenizers", "huggingface_hub", "ctranslate2", "sacrebleu"),
    *("pandas", "matplotlib", "scipy", "sklearn", "IPython", "jupyter", "notebook"),
    *("pytest", "hypothesis", "mypy", "babel", "tkinter", "tensorboard"),
    *("lxml", "psutil", "wcwidth", "google", "OpenGL"),
)
UNUSED = "test", "include", "share", "bin/protoc*", "bin/test_*", "lib/*.a"  # of torch


def main() -> None:
    """Make the folder and the archive."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "dist")
    began, to = time.monotonic(), parser.parse_args().folder.resolve()
    folder = built(to)
    for pattern in UNUSED:
        for path in (folder / "_internal" / "torch").glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    add_licences(folder)
    archive = to / f"{NAME}.tar.zst"
    packed = ["tar", "-C", to, "-I", "zstd -10 -T0", "-cf", archive, folder.name]
    subprocess.run(packed, check=True)
    size = sum(file.lstat().st_size for file in folder.rglob("*") if file.is_file())
    print(f"{folder}: {size / 1e6:,.0f} MB")
    made = [archive, packaged(folder)] if shutil.which("dpkg-deb") else [archive]
    for file in made:
        print(f"{file}: {file.stat().st_size / 1e6:,.0f} MB")
    print(f"{time.monotonic() - began:.0f} s")


def built(to: Path) -> Path:
    """Run PyInstaller; return the folder that it made."""
    work = to / "work"
    work.mkdir(parents=True, exist_ok=True)
    (work / "start.py").write_text(START)
    data = [f"{ROOT / name}:visformer/{name}" for name in ("resources", "checkpoints")]
    options: dict[str, Sequence[object]] = {
        "distpath": [to],
        "workpath": [work],
        "specpath": [work],
        "name": [NAME],
        "paths": [ROOT],
        "add-data": data,
        "collect-submodules": ["visformer"],
        "copy-metadata": ["visformer"],
        "exclude-module": LEFT_OUT,
        "log-level": ["WARN"],
    }
    command = [sys.executable, "-m", "PyInstaller", "--noconfirm"]
    for option, values in options.items():
        command += [f"--{option}={value}" for value in values]
    subprocess.run([*command, work / "start.py"], check=True)
    folder = to / NAME
    (folder / NAME).rename(folder / "visformer")
    shutil.rmtree(work)
    return folder


def add_licences(folder: Path) -> None:
    """Copy the licence of everything inside: packages, Python, libraries of Debian."""
    to = folder / "licences"
    (to / "visformer").mkdir(parents=True)
    shutil.copy(ROOT / "LICENSE", to / "visformer")
    (to / "python").mkdir()
    shutil.copy(Path(os.__file__).with_name("LICENSE.txt"), to / "python")
    inside = {path.name for path in (folder / "_internal").iterdir()}
    needed = _needed("visformer", set())
    for package in distributions():
        tops = {file.parts[0].partition(".")[0] for file in package.files or ()}
        name = package.metadata["Name"]
        if name in needed or inside & tops - {""}:
            _copy_licence(package, to / name)
    common = Path("/usr/share/common-licenses")  # which the others refer to
    if common.exists():
        shutil.copytree(common, to / common.name)
    files = [f"*/{file.name}" for file in (folder / "_internal").glob("lib*.so*")]
    if shutil.which("dpkg-query"):
        found = subprocess.run(
            ["dpkg-query", "-S", *files], capture_output=True, text=True
        )
        for owner in {line.partition(":")[0] for line in found.stdout.splitlines()}:
            said = Path("/usr/share/doc", owner, "copyright")
            if said.exists():
                (to / owner).mkdir(exist_ok=True)
                shutil.copy(said, to / owner)


CONTROL = """Package: visformer
Version: {version}
Architecture: {architecture}
Maintainer: the authors of Visformer
Depends: libc6 (>= {libc}), {libraries}
Recommends: shared-mime-info, desktop-file-utils
Section: science
Priority: optional
Description: makes a Transformer visible while it works
"""


def packaged(folder: Path) -> Path:
    """Make a Debian package of it: in /opt, with launcher, icon and file types."""
    root = folder.with_name("package")
    inside, share = root / "opt" / "visformer", root / "usr" / "share"
    inside.parent.mkdir(parents=True)
    subprocess.run(["cp", "-al", folder, inside], check=True)  # no second copy
    install: list[str | Path] = [inside / "visformer", "desktop", "install"]
    own = {"XDG_DATA_HOME": str(share), "PATH": ""}
    subprocess.run(install, env=own, check=True, stdout=subprocess.DEVNULL)
    launcher = share / "applications" / "visformer.desktop"
    launcher.write_text(launcher.read_text().replace(f"{root}/", "/"))
    (root / "usr" / "bin").mkdir()
    (root / "usr" / "bin" / "visformer").symlink_to("/opt/visformer/visformer")
    (root / "DEBIAN").mkdir()
    ask = ["dpkg", "--print-architecture"]
    words = {
        "version": version("visformer"),
        "architecture": subprocess.check_output(ask, text=True).strip(),
        "libc": platform.libc_ver()[1],
        "libraries": ", ".join(" ".join(listed_packages()).split()),
    }
    (root / "DEBIAN" / "control").write_text(CONTROL.format_map(words))
    to = folder.with_name(f"{NAME}.deb")
    make: list[str | Path] = [
        "dpkg-deb",
        "--root-owner-group",
        "-Zzstd",
        "-z10",
        "--build",
        root,
        to,
    ]
    subprocess.run(make, check=True, stdout=subprocess.DEVNULL)
    shutil.rmtree(root)
    return to


def listed_packages() -> list[str]:
    """Return .ci/run's packages of a bare Linux: without a screen, and with one."""
    script = (ROOT / ".ci" / "run").read_text("utf-8")
    return re.findall(r'^qt_\w+="(.*)"$', script, re.MULTILINE)


def _needed(name: str, known: set[str]) -> set[str]:
    """Return the names of a package and of all that it needs, without extras."""
    try:
        package = distribution(name)
    except PackageNotFoundError:  # for another system
        return known
    if package.metadata["Name"] not in known:
        known.add(package.metadata["Name"])
        for line in package.requires or ():
            if "extra ==" not in line:
                _needed(re.split(r"[^\w.-]", line)[0], known)
    return known


def _copy_licence(package: Distribution, to: Path) -> None:
    """Copy what a package says of itself, and every licence that it brings along."""
    for file in package.files or ():
        name = file.name.lower()
        if ".dist-info" in file.parts[0] and name.startswith(
            ("licen", "copying", "notice", "metadata")
        ):
            place = to.joinpath(*file.parts[1:])
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(str(package.locate_file(file)), place)


if __name__ == "__main__":
    main()
