"""The program, started again and again, each time with another function that raises.

``python -m tests.window.failing_starts`` prints a line for each function that the start
calls: its name, the exit code, and what was told, in a window or in a box.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, cast

from PySide6.QtWidgets import QApplication, QMessageBox

from tests.window.windows import FakeEngine
from visformer import app, paths
from visformer.app import App
from visformer.engine.handle import Engine
from visformer.program import guard
from visformer.ui.window.window import MainWindow

STARTS = ("visformer.app", "visformer.engine.handle", "visformer.engine.worker")
GUARDS = {cast(Any, one).__code__ for one in (app.run, app._standing, App.attempt)}


class Closed(FakeEngine):
    """An engine that answers nothing, and can be closed."""

    def close(self) -> None:
        """Do nothing."""


def calls(act: Callable[[CodeType], object]) -> None:
    """Call ``act`` with each function of ours that the start calls."""

    def look(frame: FrameType, event: str, _given: object) -> None:
        caller, called = frame.f_back, str(frame.f_globals.get("__name__"))
        ours = called.startswith("visformer.") and called != guard.__name__
        if event != "call" or caller is None or not ours:
            return
        if caller.f_globals.get("__name__") in STARTS and frame.f_code not in GUARDS:
            act(frame.f_code)

    sys.setprofile(look)


def started(path: str | None) -> tuple[int, list[str]]:
    """Run the program up to its first paint -> the exit code, and what it told."""
    told: list[str] = []

    def painted(*_given: object) -> int:
        sys.setprofile(None)
        QApplication.processEvents()
        told.extend(
            window.notice.text()
            for window in QApplication.topLevelWidgets()
            if isinstance(window, MainWindow) and window.isVisible()
        )
        return 0

    def shown(box: QMessageBox) -> int:
        told.append(box.text())
        return 0

    cast(Any, QApplication).exec = painted
    cast(Any, QMessageBox).exec = shown
    before, sys.stderr = sys.stderr, io.StringIO()
    try:
        code = app.run(path)
    finally:
        sys.setprofile(None)
        said, sys.stderr = sys.stderr.getvalue(), before
    return code, [*told, *filter(None, [said])]


def main() -> None:
    """Find what the start calls, and let each of it raise."""
    cast(Any, app).check_screen = lambda: None
    found: dict[CodeType, str | None] = {}
    # a lesson is read again on a thread, whose answer would come at any time
    opens = (lambda *_, **__: None), MainWindow.open
    for path in (None, str(paths.resource("lessons/en/scratch.lesson.md"))):
        cast(Any, MainWindow).open = opens[path is None]

        def find(called: CodeType, path: str | None = path) -> None:
            found.setdefault(called, path)

        calls(find)
        started(path)
    for code, path in found.items():

        def fail(called: CodeType, code: CodeType = code) -> None:
            if called is code:
                raise RuntimeError("boom")

        of_engine = "engine" in code.co_filename
        cast(Any, app).Engine = Engine if of_engine else lambda *_, **__: Closed()
        cast(Any, MainWindow).open = opens[path is None]
        calls(fail)
        print(json.dumps([code.co_qualname, *started(path)]), flush=True)


if __name__ == "__main__":
    main()
