"""Let a monkey at a window: ``python -m tests.monkey --minutes 30 --seed 1``.

It types, clicks, drags and opens, seeded, offscreen, with a real engine. Faults: an
exception that nobody handled, a warning of Qt's, a run on screen that is not what the
model makes of what was asked for.
"""

from __future__ import annotations

import argparse
import faulthandler
import logging
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random

from PySide6.QtCore import QMessageLogContext, QSettings, QTimer, QtMsgType
from PySide6.QtCore import qInstallMessageHandler as install
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QApplication, QFileDialog

from tests.bench.time_opening import status
from tests.kills.__main__ import difference
from tests.monkey.hand import Hand
from tests.system.formats.folders import write_letters
from tests.tiny_models import tiny_model
from tests.traces import make_trace
from visformer import paths
from visformer.app import App
from visformer.core.checkpoint import Checkpoint
from visformer.errors import VisformerError
from visformer.formats.loading import load
from visformer.program import diagnostics
from visformer.program.diagnostics import Health
from visformer.session.kept import recipe_of
from visformer.session.runs import is_answered

TURN_MS = 5
COMPARED_EVERY = 60  # actions: the run on screen with the model's own
REST_S = 20.0
SENTENCES = ("abcab", "ab cd", "a", "The cat sleeps.", "1 2 3", "dcba" * 9)
QUIET = ("This plugin does not support", "OpenType support missing")


class Monkey:
    """One window, and what it was seen to do wrong."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder, self.faults, self.actions = folder, Counter[str](), 0
        self.compared = 0
        chance = self._chance = Random(seed)
        self._models = {
            str(write_letters(folder / name, tiny_model(seed=at, max_positions=64)))
            for at, name in enumerate(("one", "two"))
        }
        self._checkpoints: dict[str, Checkpoint] = {}
        install(self._qt)
        ini = QSettings(str(folder / "window.ini"), QSettings.Format.IniFormat)
        self.app = App(["visformer"], settings=ini, keep=folder / "kept")
        window = self.app.window
        window.health = self.health = Health(
            window, lambda words: window.session.set(error=words)
        )
        window.show()
        window.open(sorted(self._models)[0], given=())
        self._answer_dialogs(chance)
        self.hand = Hand(window, self._files(), chance)
        self._rest_until = 0.0  # that the engine may come to its end

    def _files(self) -> list[str]:
        damaged, trace = self._folder / "damaged.vis", self._folder / "trace.vis"
        make_trace(source=6, target=5).save(trace)
        data = bytearray(trace.read_bytes())
        data[len(data) // 2 :: 97] = bytes(len(data[len(data) // 2 :: 97]))
        damaged.write_bytes(data)
        bundled = map(str, paths.bundled_checkpoints())
        missing = str(self._folder / "not there")
        return [
            *(4 * sorted(self._models)),
            *bundled,
            str(trace),
            str(damaged),
            missing,
            "/dev/zero",
        ]

    def _answer_dialogs(self, chance: Random) -> None:
        """Answer the system's own dialogs, and let nothing close the window."""
        names = ["a.vis", "a.png", "a.csv", "a", "a.tsv", "no/such/folder.vis", ""]

        def saved(*_given: object) -> tuple[str, str]:
            return str(self._folder / chance.choice(names)), ""

        QFileDialog.getSaveFileName = saved  # type: ignore[assignment, method-assign]
        QFileDialog.getOpenFileName = saved  # type: ignore[assignment, method-assign]
        for action in self.app.window.findChildren(QAction):
            if action.menuRole() == QAction.MenuRole.QuitRole:
                action.setEnabled(False)

    def _qt(self, kind: QtMsgType, _where: QMessageLogContext, words: str) -> None:
        if kind != QtMsgType.QtDebugMsg and not any(quiet in words for quiet in QUIET):
            self._fault(f"Qt: {words}")

    def _fault(self, words: str) -> None:
        self.faults[words] += 1
        if self.faults[words] == 1:
            print(f"fault after {self.actions} actions: {words}", flush=True)
            print(*self.hand.said[-12:], sep="\n  ", flush=True)

    def run(self, minutes: float) -> None:
        """Let it work; print each minute how it is."""
        self._began = self._told = time.monotonic()
        self._until = self._began + 60 * minutes
        self._soon()
        self.app.qt.exec()
        self.health.close()
        self.app.close()

    def _soon(self) -> None:
        # not one timer again and again: it would rest while a menu is open in a turn
        QTimer.singleShot(TURN_MS, self.app.window, self._turn)

    def _turn(self) -> None:
        now = time.monotonic()
        if now >= self._until:
            self._end()
            return
        self._soon()
        if now - self._told >= 60:
            self._told = now
            self.tell()
        state = self.app.window.session.state
        idle = not state.busy and state.opening is None and not state.awaiting.decoding
        if now < self._rest_until and not idle:
            return
        if self._rest_until and idle:
            self._compare()
        self._rest_until = 0.0
        self.hand.act()
        self.actions += 1
        for place, _count in self.health.faults.counts.items():
            if place not in self.faults:
                self._fault(place)
        if not self.app.window.isVisible():
            self.app.window.show()
        if self.actions % COMPARED_EVERY == 0:
            if state.recorded or not is_answered(state) or self._chance.random() < 0.5:
                # in the model and with the changes that there are
                self.app.window.translate(self._chance.choice(SENTENCES))
            self._rest_until = now + REST_S

    def _end(self) -> None:
        menu = QApplication.activePopupWidget()
        if menu is not None:  # its loop is inside the window's
            menu.close()
            self._soon()
        else:
            self.app.qt.quit()

    def _compare(self) -> None:
        """Compare the run on screen with what the model makes of its recipe."""
        state = self.app.window.session.state
        recipe, trace = recipe_of(state), state.trace
        if recipe is None or trace is None or state.recorded or not is_answered(state):
            return
        bundled = map(str, paths.bundled_checkpoints())
        if recipe.path not in (*self._models, *bundled) or recipe.wanted.reference:
            return
        if state.opened is None:
            return
        checkpoint = self._checkpoints.setdefault(recipe.path, load(recipe.path))
        try:
            wrong = difference(trace, recipe.wanted, checkpoint)
        except VisformerError as error:
            wrong = f"{error} for {recipe.wanted}"
        self.compared += 1
        if wrong:
            self._fault(f"a wrong run: {wrong}")

    def tell(self) -> None:
        """Print how far it is."""
        minutes = (time.monotonic() - self._began) / 60
        print(
            f"{minutes:.1f} min: {self.actions:,} actions, {self.compared} runs "
            f"compared, {self.health.watchdog.stalls} stalls, "
            f"{status('VmRSS') / 1e6:.0f} MB, {len(self.faults)} faults",
            flush=True,
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    faulthandler.enable()
    # of all that is logged only where a fault came from; stalls are counted
    logging.basicConfig(handlers=[logging.NullHandler()])
    logging.getLogger(diagnostics.__name__).addHandler(logging.StreamHandler())
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    with tempfile.TemporaryDirectory() as folder:
        monkey = Monkey(Path(folder), options.seed)
        monkey.run(options.minutes)
        monkey.tell()
    return 1 if monkey.faults else 0


if __name__ == "__main__":
    sys.exit(main())
