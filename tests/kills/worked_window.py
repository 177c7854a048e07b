"""A window that works by itself until it is killed: ``python -m ... FOLDER SEED``.

``FOLDER`` holds ``model``, a checkpoint of letters, and ``kept``. What is done is
written to ``journal``, a line of JSON each, before it can be kept.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PySide6.QtCore import QSettings, QTimer

from visformer.app import App
from visformer.session import runs
from visformer.session.kept import recipe_of
from visformer.session.recipe import written
from visformer.ui.window.window import MainWindow
from visformer.values.intervention import NO_CHANGES, parse
from visformer.values.step import GREEDY

LIMIT = 20
TURN_MS = 20
CHANGES = (NO_CHANGES, parse(["causal off"]), parse(["hide 1"]), parse(["causal +1"]))


class Worker:
    """Takes one action after the other, each once the last one is done."""

    def __init__(self, app: App, folder: Path, seed: int) -> None:
        self._window, self._random = app.window, random.Random(seed)
        self._journal = os.open(
            folder / "journal", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600
        )
        self._began, self._actions = False, 0
        self._asked: object = None
        self._timer = QTimer(app.window, interval=TURN_MS)
        self._timer.timeout.connect(self._turn)
        self._timer.start()

    def _say(self, what: str) -> None:
        state = self._window.session.state
        recipe = recipe_of(state)
        line: dict[str, Any] = {"what": what, "at": time.monotonic()}
        if recipe is not None:
            line["recipe"] = json.loads(written(recipe))
        os.write(self._journal, f"{json.dumps(line)}\n".encode())

    def _turn(self) -> None:
        window, state = self._window, self._window.session.state
        if window.restore.offered is not None:
            window.restore.open.click()
            self._asked = window.files.earlier
        done = state.opened is not None and not state.busy and not state.error
        if not done or state.awaiting.decoding or state.opening is not None:
            return
        if self._asked is not None and (state.trace is None or state.recorded):
            return  # it is on its way
        if not self._began:
            self._began = True
            self._say("ready")
            if state.wish.limit != LIMIT:
                window.session.do(runs.choose_tokens, GREEDY, LIMIT)
            if state.trace is None or state.recorded:
                self._translate()
            return
        self._say("done")
        self._actions += 1
        if self._random.random() < 0.2:
            return  # now and then a pause
        self._action()()
        self._say("begun")

    def _action(self) -> Callable[[], None]:
        actions = (self._translate, self._force, self._change, self._look, self._look)
        ways = self._window.ways
        return self._random.choice((*actions, ways.undo, ways.redo, ways.back))

    def _translate(self) -> None:
        letters = self._random.choices("abcdefghijklmnopqrstuvwxyz", k=8)
        self._window.translate("".join(letters))

    def _force(self) -> None:
        window, trace = self._window, self._window.session.state.trace
        if trace is not None and len(trace):
            window.session.set(step=self._random.randint(1, len(trace)))
            window.session.do(runs.force, self._random.randint(4, 20))

    def _change(self) -> None:
        self._window.change_run(self._random.choice(CHANGES))

    def _look(self) -> None:
        tab = self._random.choice(("attention", "masks", "output"))
        head, step = self._random.randrange(4), self._random.randrange(LIMIT)
        self._window.session.set(tab=tab, head=head, step=step)


def main(folder: Path, seed: int) -> int:
    ini = QSettings(str(folder / "window.ini"), QSettings.Format.IniFormat)
    app = App(["visformer"], settings=ini, keep=folder / "kept")
    window: MainWindow = app.window
    window.show()
    window.open(str(folder / "model"), given=())
    window.files.offer()
    worker = Worker(app, folder, seed)
    code = app.qt.exec()
    del worker
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
