"""The only place that knows folders."""

import os
from pathlib import Path

import platformdirs

_PACKAGE = Path(__file__).parent
DEFAULT_CHECKPOINT = "tatoeba-en-fr"
ICON = "visformer.svg"
LESSON = ".lesson.md"  # how the name of a lesson ends
FIRST_TRACE = "first.vis"  # the sample sentence, decoded by the default checkpoint


def _shipped(folder: str) -> Path:
    """Return a folder inside the package (wheel) or beside it (source tree)."""
    inside = _PACKAGE / folder
    return inside if inside.is_dir() else _PACKAGE.parent / folder


def resource(name: str) -> Path:
    """Return the path of a file in ``resources/``."""
    return _shipped("resources") / name


def checkpoint(name: str = DEFAULT_CHECKPOINT) -> Path:
    """Return the folder of a bundled checkpoint."""
    return _shipped("checkpoints") / name


def model(given: str | Path, beside: Path = Path()) -> Path:
    """Return where a model lies that is given by a path, or by a bundled one's name.

    What exists at the path, from the folder ``beside``, comes first. What is neither is
    returned as it is.
    """
    path, bundled = beside / given, _shipped("checkpoints")
    if os.path.exists(path):
        return path
    named = {file.parent for file in bundled.glob("**/config.json")}
    return bundled / given if bundled / given in named else path


def bundled_checkpoints() -> list[Path]:
    """Return the folders of all bundled checkpoints, by name."""
    return sorted(path.parent for path in _shipped("checkpoints").glob("*/config.json"))


def log_file() -> Path:
    """Return the log file; its folder is made."""
    folder = Path(platformdirs.user_log_dir("visformer", appauthor=False))
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "visformer.log"


def settings_file() -> Path:
    """Return the file that keeps the window's state."""
    folder = Path(platformdirs.user_config_dir("visformer", appauthor=False))
    return folder / "window.ini"


def data_home() -> Path:
    """Return the folder in which a Linux desktop looks for the user's programs."""
    return Path(platformdirs.user_data_dir())


def sessions_folder() -> Path:
    """Return the folder in which windows keep what is worked on; it may not exist."""
    folder = Path(platformdirs.user_state_dir("visformer", appauthor=False))
    return folder / "sessions"
