"""Ahead: what will be looked at is imported and built before, in short pieces."""

import ast
import sys
import time
from codeop import Compile
from collections.abc import Iterator
from importlib.abc import InspectLoader
from importlib.util import find_spec, module_from_spec
from typing import Any

from PySide6.QtCore import QObject, Qt, QTimer, Signal

PAUSE_MS = 50  # between turns of the event loop that work
TURN = 0.005  # seconds of work in one of them, and the piece that it ends with


class Ahead(QObject):
    """Does several jobs while the window waits for its user; one on demand at once.

    A job is an iterator that does a piece of its work per item.
    """

    done = Signal()  # a job that was asked for

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._jobs: dict[str, Iterator[object]] = {}
        self._asked = ""
        self._timer = QTimer(self)
        self._timer.timeout.connect(self._work)

    def add(self, name: str, job: Iterator[object]) -> None:
        """Do a job after those that are to be done, or in place of one of its name."""
        self._jobs[name] = job
        if not self._timer.isActive():
            self._timer.start(PAUSE_MS)

    @property
    def idle(self) -> bool:
        """Whether all jobs are done."""
        return not self._jobs

    def has(self, name: str) -> bool:
        """Tell whether a job is done; one that is not is done in the next turns."""
        if name in self._jobs:
            self._asked = name
            self._timer.start(0)
        return name not in self._jobs

    def _work(self) -> None:
        if self._asked and self._asked not in self._jobs:
            self._asked = ""
            self._rest()
            self.done.emit()
            return
        name = self._asked or next(iter(self._jobs), "")
        until = time.perf_counter() + TURN
        for _piece in self._jobs.get(name, ()):
            if time.perf_counter() > until:
                return
        self._jobs.pop(name, None)
        if not self._asked:
            self._rest()

    def _rest(self) -> None:
        """Leave the event loop to others for a while, or for good."""
        if self._jobs:
            self._timer.start(PAUSE_MS)
        else:
            self._timer.stop()


def later(parent: QObject) -> Ahead:
    """Return what does jobs of this object."""
    children = Qt.FindChildOption.FindDirectChildrenOnly
    return parent.findChild(Ahead, options=children) or Ahead(parent)


def import_in_pieces(name: str) -> Iterator[int]:
    """Import a package, one statement of its own file per piece; yield their lines.

    It is for a package that imports all its modules. Who imports it before the last
    piece is done gets a package that is not complete. Nothing is done, and the usual
    import is to follow, where the package is imported or its source is not there.
    """
    spec = None if name in sys.modules else find_spec(name)
    if spec is None or not isinstance(spec.loader, InspectLoader):
        return
    statements = ast.parse(spec.loader.get_source(name) or "").body
    module = module_from_spec(spec)
    if statements:
        sys.modules[name] = module
    compiled = Compile()  # heeds what an earlier statement imports from __future__
    for statement in statements:
        one: Any = ast.Module([statement], [])  # it takes whatever compile() takes
        code = compiled(one, spec.origin or name, "exec")
        try:
            exec(code, vars(module))
        except BaseException:
            sys.modules.pop(name, None)
            raise
        yield statement.lineno
