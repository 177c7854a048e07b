"""Whether a window can be opened here; Qt would end the process where it cannot."""

import ctypes
import os
import socket
import sys
from importlib.util import find_spec
from pathlib import Path

from visformer.errors import InputError

X11, WAYLAND = "xcb", "wayland"  # Qt's names of what draws on a screen


def check_screen() -> None:
    """Raise InputError where Qt would find no screen, or not what it needs to use it.

    Windows and macOS always have one.
    """
    if sys.platform in ("win32", "darwin"):
        return
    chosen = os.environ.get("QT_QPA_PLATFORM", "")
    names = [name.partition(":")[0] for name in chosen.split(";") if name]
    known = _platforms()
    if missing := [name for name in names if name not in known]:
        raise InputError(
            "QT_QPA_PLATFORM names “{name}”, but Qt has {known}: correct or unset it.",
            name=missing[0],
            known=", ".join(sorted(known)),
        )
    if any(name != X11 and not name.startswith(WAYLAND) for name in names):
        return  # drawn into memory, or sent elsewhere
    if _answers_wayland() or (os.environ.get("DISPLAY") and _answers_x11()):
        return
    if os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        raise InputError(
            "The screen {name} does not answer. Correct DISPLAY, log in with "
            "“ssh -X”, or use “visformer render”.",
            name=os.environ.get("DISPLAY") or os.environ["WAYLAND_DISPLAY"],
        )
    raise InputError("There is no screen here. Set DISPLAY, or use “visformer render”.")


def _platforms() -> dict[str, Path]:
    """Return what Qt can draw on, by name: the files of its plugins."""
    spec = find_spec("PySide6")
    places = spec.submodule_search_locations if spec else None
    folders = [Path(place, "Qt", "plugins", "platforms") for place in places or ()]
    files = [file for folder in folders for file in folder.glob("libq*.so")]
    known = {file.stem.removeprefix("libq"): file for file in files}
    generic = known.get("wayland-generic") or known.get(WAYLAND)
    return known | ({WAYLAND: generic} if generic else {})


def _answers_wayland() -> bool:
    name, folder = (os.environ.get(n) for n in ("WAYLAND_DISPLAY", "XDG_RUNTIME_DIR"))
    if not name or not (folder or os.path.isabs(name)) or WAYLAND not in _platforms():
        return False
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(os.path.join(folder or "", name))
        except OSError:
            return False
    return True


def _answers_x11() -> bool:
    """Connect as Qt would; InputError where a library that it needs is missing."""
    try:
        xcb = ctypes.CDLL("libxcb.so.1")
        ctypes.CDLL(str(_platforms()[X11]))
    except OSError as error:
        raise InputError(
            "Qt cannot start: {reason}. The README lists the packages to install.",
            reason=error,
        ) from error
    except KeyError:
        return True  # a Qt that is laid out otherwise: it will say it itself
    xcb.xcb_connect.restype = ctypes.c_void_p
    connection = ctypes.c_void_p(xcb.xcb_connect(None, None))
    failed = bool(xcb.xcb_connection_has_error(connection))
    xcb.xcb_disconnect(connection)
    return not failed
