"""A window of its own process, which types by itself and tells what it shows.

``python -m tests.system.watching.driven_window ADDRESS KEY NAME`` takes what
``run_served`` takes, and prints a line of JSON after each thing that it did.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from multiprocessing.connection import Client
from pathlib import Path
from typing import Any

from PySide6.QtCore import QSettings, QTimer

from visformer.app import App
from visformer.session.runs import force

TICK_MS = 20
MOST_MS = 240_000  # then it gives up: nobody else would end it


def shown(app: App) -> dict[str, Any]:
    """Return what is on screen."""
    state = app.window.session.state
    whole = None if state.trace is None else state.trace.whole
    return {
        "source": [] if whole is None else list(whole.source),
        "target": [] if whole is None else [step.token for step in whole.steps],
        "origins": [] if whole is None else [step.origin for step in whole.steps],
        "kinds": [] if whole is None else list(whole.kinds),
        "error": state.error,
        "torch": "torch" in sys.modules,
    }


def script(app: App) -> Iterator[Any]:
    """Do one thing after another; yields what must be so before it goes on."""
    window, session = app.window, app.window.session

    def typed(text: str) -> None:
        window.source.setText(text)
        window.source.submit()

    yield lambda: session.state.model is not None
    typed("5 6 8")
    yield lambda: session.state.trace is not None and not session.state.busy
    yield "typed"
    session.do(force, 11)
    yield lambda: "forced" in shown(app)["origins"] and not session.state.busy
    yield "forced"
    typed("5 9")  # the model raises
    yield lambda: bool(session.state.error)
    yield "raised"
    typed("6 6")
    yield lambda: shown(app)["source"] == ["6", "6"] and not session.state.busy
    yield "went on"
    typed("7 7")  # its process ends
    yield lambda: bool(session.state.error)
    yield "ended"
    typed("8 8")
    yield lambda: not session.state.busy and bool(session.state.error)
    yield "refused"


def main(address: str, key: str, name: str) -> int:
    """Run the window until the script is done."""
    connection = Client(address, authkey=bytes.fromhex(key))
    settings = QSettings(str(Path("window.ini")), QSettings.Format.IniFormat)
    app = App(["visformer"], served=connection, settings=settings)
    app.window.show()
    app.window.open(name, given=())
    steps = script(app)
    waiting: list[Any] = [next(steps)]

    def tick() -> None:
        try:
            while callable(waiting[0]) and waiting[0]():
                waiting[0] = next(steps)
                while isinstance(waiting[0], str):
                    print(json.dumps({"did": waiting[0], **shown(app)}), flush=True)
                    waiting[0] = next(steps)
        except StopIteration:
            app.qt.quit()

    timer = QTimer(app.qt)
    timer.timeout.connect(tick)
    timer.start(TICK_MS)
    QTimer.singleShot(MOST_MS, app.qt.quit)
    code = app.qt.exec()
    app.close()
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
