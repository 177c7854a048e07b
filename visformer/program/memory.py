"""What the window remembers from one start to the next, with types."""

import logging
import re
from pathlib import Path

from PySide6.QtCore import QByteArray, QSettings, QSize
from PySide6.QtWidgets import QWidget

from visformer import paths

log = logging.getLogger(__name__)
RECENT = 10  # checkpoints remembered
SIZE = (1280, 800)  # of a first start


class Memory:
    """QSettings, read back as what was written: an INI file knows only strings."""

    def __init__(self, settings: QSettings) -> None:
        """Keep what was typed from other users of the computer."""
        self._settings = settings
        file = Path(settings.fileName())
        try:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            file.touch(mode=0o600)
            file.chmod(0o600)
        except OSError as error:
            log.warning("settings are not kept: %s", error)

    def text(self, key: str, default: str) -> str:
        return str(self._settings.value(key, default))

    def number(self, key: str, default: int) -> int:
        """Return an integer; the default where the file holds something else."""
        text = self.text(key, str(default))
        return int(text) if re.fullmatch("-?[0-9]{1,9}", text) else default

    def texts(self, key: str) -> list[str]:
        value = self._settings.value(key)
        if isinstance(value, str):  # how a list of one comes back
            return [value]
        return [str(item) for item in value] if isinstance(value, list) else []

    def data(self, key: str) -> QByteArray | None:
        """Return bytes, or None."""
        value = self._settings.value(key)
        return value if isinstance(value, QByteArray) else None

    def keep(self, key: str, value: object) -> None:
        """Remember a value; None forgets it."""
        if value is None:
            self._settings.remove(key)
        else:
            self._settings.setValue(key, value)

    def remember(self, path: str) -> list[str]:
        """Put a checkpoint first among those opened last; return them."""
        recent = [path, *(old for old in self.texts("recent") if old != path)][:RECENT]
        self.keep("recent", recent)
        return recent

    def knows(self, path: str) -> bool:
        """Tell whether a checkpoint is one of ours, or was opened not long ago."""
        ours = map(str, paths.bundled_checkpoints())
        return path in self.texts("recent") or path in ours

    def write(self) -> None:
        """Write everything to disk now."""
        self._settings.sync()


def first_size(window: QWidget) -> QSize:
    """Return the size of a first start, smaller where the screen is smaller."""
    frame = 2 * window.fontMetrics().height()
    return QSize(*SIZE).boundedTo(window.screen().availableSize() - QSize(0, frame))
