"""Hours of use in minutes: what has grown since, in the window and in its engine.

A real window with its engine, offscreen. ``work``: sentences are translated, steps are
taken in every tab, and the model, the theme, the size of text and window are switched,
all in turns. What the processes hold is measured at first and then ten times, with the
same sentence of the same model in every tab. Growth counts from the first of the ten:
by then all kinds of switch were made, and what is kept for undo is full.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QSettings, QTimer

from tests.soak.held import Held, growth
from tests.soak.user import Plan, User, bundled, soak
from visformer.app import App, log_qt

ROUNDS = 10
GROWTH = 0.05  # of memory, at most


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--sentences", type=int, default=1_000)
    parser.add_argument("--switches", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    plan = Plan(options.steps, options.sentences, options.switches)
    seen: list[Held] = []
    log_qt()
    with tempfile.TemporaryDirectory() as folder:
        ini = QSettings(f"{folder}/window.ini", QSettings.Format.IniFormat)
        app = App(["visformer"], settings=ini, keep=Path(folder) / "kept")
        waking = QTimer(app.qt)  # so that the loop looks again
        waking.start(5)
        app.window.show()
        user = User(app, bundled(), options.seed)
        began = time.monotonic()
        print("round", "seconds", *Held._fields, sep="\t")
        for number, now in enumerate(soak(app, user, plan, ROUNDS)):
            seen.append(now)
            passed = f"{time.monotonic() - began:.0f}"
            print(number, passed, now.words(), sep="\t", flush=True)
        app.close()
    grown = growth(seen[1:])
    told = ", ".join(f"{name} {part:+.1%}" for name, part in grown.items())
    print(f"{plan}: grown since the first round by {told}")
    return int(grown["window"] > GROWTH or grown["engine"] > GROWTH)


if __name__ == "__main__":
    sys.exit(main())
