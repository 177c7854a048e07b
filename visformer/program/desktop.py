"""``visformer desktop``: the program in a Linux desktop's menu, its files its own.

Launcher, icons and file types go into the user's data folder (``XDG_DATA_HOME``), as
freedesktop.org specifies desktop entries, icon themes and shared MIME information. Each
file carries ``MARK``; one without it is somebody else's, and is neither replaced nor
removed. The desktop's own indexes of its files stay.
"""

import argparse
import contextlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from functools import partial
from pathlib import Path

from visformer import paths
from visformer.commands.shared import explained_qt, results
from visformer.errors import InputError
from visformer.files import short, write_whole
from visformer.language import _
from visformer.trace_file.file_blocks import MAGIC

MARK = "visformer desktop install"
SIZES = 48, 64, 128, 256, 512  # of the icons, in pixels
HICOLOR = "icons/hicolor"
UPDATES = {"update-mime-database": "mime", "update-desktop-database": "applications"}
LAUNCHER = f"""\
# {MARK}
[Desktop Entry]
Type=Application
Name=Visformer
Comment={{comment}}
Exec="{{quoted}}" %f
TryExec={{path}}
Icon=visformer
Categories=Education;ArtificialIntelligence;
MimeType=application/x-visformer-trace;text/x-visformer-lesson;
StartupWMClass=visformer
"""
TYPES = f"""\
<?xml version="1.0" encoding="UTF-8"?>
<!-- {MARK} -->
<mime-info xmlns="http://www.freedesktop.org/standards/shared-mime-info">
  <mime-type type="application/x-visformer-trace">
    <comment>{{trace}}</comment>
    <icon name="visformer"/>
    <magic><match type="string" offset="0" value="{{magic}}"/></magic>
    <glob pattern="*.vis"/>
  </mime-type>
  <mime-type type="text/x-visformer-lesson">
    <comment>{{lesson}}</comment>
    <icon name="visformer"/>
    <sub-class-of type="text/markdown"/>
    <glob pattern="*.lesson.md"/>
  </mime-type>
</mime-info>
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``visformer desktop``."""
    parser.add_argument(
        "action",
        choices=["install", "remove"],
        help=_("put Visformer and its files into your menu, or take them out of it"),
    )


def run(options: argparse.Namespace) -> int:
    """Install or remove, and say what there is now; returns 0.

    Raises InputError where there is no such desktop, or its folder is not writable.
    """
    if sys.platform in ("win32", "darwin"):
        raise InputError(
            "“visformer desktop” is for desktops of Linux. Here, make a shortcut to "
            "“{path}”.",
            path=short(str(_script()), 90),
        )
    home, installs = paths.data_home(), options.action == "install"
    try:
        change = _install if installs else _remove
        done = change(home)
    except OSError as error:
        raise InputError(
            "{path} cannot be written ({reason}). Set XDG_DATA_HOME to a folder of "
            "your own.",
            path=short(str(error.filename or home), 90),
            reason=error.strerror or type(error).__name__,
        ) from error
    print(done, file=results())
    return 0


def _install(home: Path) -> str:
    made = {home / name: make() for name, make in _files().items()}
    for path in made:
        if path.exists() and not _is_ours(path):
            raise InputError(
                "{path} is not Visformer's own. Move it away, then install again.",
                path=short(str(path), 90),
            )
    for path, data in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, data)
    if _update(home):
        return _(
            "Visformer is in the menu, and a double click opens *.vis and *.lesson.md."
        )
    return _(
        "Visformer is in the menu. For double clicks, install the packages "
        "shared-mime-info and desktop-file-utils, then do this again."
    )


def _remove(home: Path) -> str:
    ours = [path for name in _files() if _is_ours(path := home / name)]
    for path in ours:
        path.unlink()
    _update(home)
    for path in ours:
        with contextlib.suppress(OSError):  # a folder that others use
            os.removedirs(path.parent)
    if not ours:
        return _("Visformer is not in the menu: nothing was removed.")
    return _("Visformer is out of the menu.")


def _files() -> dict[str, Callable[[], bytes]]:
    """Return the place of each file in the data folder, and what makes the file."""
    return {
        "applications/visformer.desktop": _launcher,
        "mime/packages/visformer.xml": _types,
        f"{HICOLOR}/scalable/apps/visformer.svg": paths.resource(paths.ICON).read_bytes,
        **{f"{HICOLOR}/{n}x{n}/apps/visformer.png": partial(_png, n) for n in SIZES},
    }


def _is_ours(path: Path) -> bool:
    return path.is_file() and MARK.encode() in path.read_bytes()


def _launcher() -> bytes:
    path = str(_script()).replace("%", "%%")
    quoted = re.sub(r'(["`$\\])', r"\\\1", path)
    comment = _("Open a window that shows a Transformer while it works.")
    texts = {"quoted": quoted, "path": str(_script()), "comment": comment}
    # every value is a string, in which a backslash is doubled
    return LAUNCHER.format_map(
        {name: text.replace("\\", r"\\") for name, text in texts.items()}
    ).encode()


def _script() -> Path:
    """Return the program that starts Visformer: a bundle, or what pip installed."""
    installed = Path(sysconfig.get_path("scripts"), "visformer").with_suffix(_EXE)
    for path in (Path(sys.executable), Path(sys.argv[0]), installed):
        if path.name == installed.name and path.is_file():
            return path.absolute()
    raise InputError(
        "A launcher needs an installed Visformer: type “pip install .” in its folder."
    )


_EXE = ".exe" if sys.platform == "win32" else ""


def _types() -> bytes:
    return TYPES.format(
        magic=MAGIC.decode().replace("\n", r"\n"),
        trace=_("Visformer trace"),
        lesson=_("Visformer lesson"),
    ).encode()


def _png(size: int) -> bytes:
    with explained_qt():
        from PySide6.QtCore import QBuffer, QIODevice, QSize
        from PySide6.QtGui import QImageReader
    reader = QImageReader(str(paths.resource(paths.ICON)))
    reader.setScaledSize(QSize(size, size))
    image, buffer = reader.read(), QBuffer()
    image.setText(MARK, MARK)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    if not image.save(buffer, "PNG"):  # type: ignore[call-overload]
        raise InputError("Qt has no SVG plugin: install PySide6-Essentials again.")
    return bytes(buffer.data().data())


def _update(home: Path) -> bool:
    """Let the desktop read the files; False where a program for it is missing."""
    if (home / HICOLOR).is_dir():
        os.utime(home / HICOLOR)  # else GTK trusts the cache of icons beside it
    programs = {shutil.which(name): home / part for name, part in UPDATES.items()}
    for program, folder in programs.items():
        if program and folder.is_dir():
            subprocess.run([program, folder], capture_output=True, check=False)
    return None not in programs
