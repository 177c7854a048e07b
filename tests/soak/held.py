"""What the window's process and the engine's hold."""

from __future__ import annotations

import gc
import multiprocessing
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from PySide6.QtCore import QEvent, QObject
from PySide6.QtWidgets import QApplication

from tests.bench.time_opening import status
from visformer.app import App
from visformer.engine.handle import Engine
from visformer.session.state import State


class Held(NamedTuple):
    """What the processes hold; memory in bytes."""

    window: int  # resident
    own: int  # of it, what is in no file
    engine: int  # resident
    garbage: int  # objects that the program's own collections have left so far
    objects: int  # of Python, in the window
    widgets: int
    parts: int  # of Qt: widgets, layouts, actions, timers
    states: int  # of the session: those that views have drawn last
    threads: int
    files: int  # open ones
    processes: int  # started by the window's

    def words(self) -> str:
        """Return the columns of a table: memory in MB."""
        sizes = (self.window, self.own, self.engine)
        return "\t".join(
            (*(f"{size / 1e6:.1f}" for size in sizes), *map(str, self[3:]))
        )


def held(app: App) -> Held:
    """Measure, once what Qt is to delete is deleted.

    Memory is measured before garbage is collected: the program must do that itself.
    """
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    assert isinstance(app.engine, Engine)
    engine = app.engine._current.process.pid
    files = Path("/proc/self/fd")
    memory = status("VmRSS"), status("RssAnon")
    garbage = gc.collect()
    objects = gc.get_objects()
    tops = QApplication.topLevelWidgets()
    return Held(
        *memory,
        engine=status("VmRSS", f"/proc/{engine}/status"),
        garbage=garbage,
        objects=len(objects),
        widgets=len(QApplication.allWidgets()),
        parts=sum(len(top.findChildren(QObject)) for top in tops),
        states=sum(type(thing) is State for thing in objects),
        threads=threading.active_count(),
        files=len(list(files.iterdir())) if files.exists() else 0,
        processes=len(multiprocessing.active_children()),
    )


def growth(held: Sequence[Held]) -> dict[str, float]:
    """Return how much has grown from the first to the last, as a fraction."""
    return {
        name: getattr(held[-1], name) / max(1, getattr(held[0], name)) - 1
        for name in Held._fields
    }
