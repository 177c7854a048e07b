"""Mutants of trace files, shown in the window: every tab, at several places.

``python -m tests.window.window_mutants 10000 0`` shows so many and says what each did.
"""

from __future__ import annotations

import random
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from PySide6.QtCore import QSettings
from PySide6.QtWidgets import QApplication

from tests.unit.values.vis_mutants import Mutant, Outcome, mutants, outcome
from tests.window.windows import FakeEngine
from visformer.pictures.computation.stages import stage_names
from visformer.pictures.selection import AttentionCell
from visformer.trace_file.saved_session import SavedSession
from visformer.trace_file.trace_file import read_session
from visformer.ui.views import VIEWS
from visformer.ui.views.view import Pages
from visformer.ui.window.window import MainWindow


def shown_outcome(window: MainWindow, mutant: Mutant, path: Path) -> Outcome:
    """Open a mutant, and show it in every tab; any exception is let through."""
    did = outcome(mutant, path)
    if did != "error":
        with np.errstate(all="ignore"):
            show_all(window, read_session(path), random.Random(mutant.data))
    return did


def show_all(window: MainWindow, session: SavedSession, draw: random.Random) -> None:
    """Show every run of a session in every tab, at a kind, head, step and page each."""
    faults: list[BaseException] = []
    hook, sys.excepthook = (
        sys.excepthook,
        lambda _kind, error, _trace: faults.append(error),
    )
    try:
        for run in session.runs:
            window.show_run(run)
            for view in VIEWS:
                _look(window, view.name, draw)
                if faults:
                    raise faults[0]
    finally:
        sys.excepthook = hook


def _look(window: MainWindow, tab: str, draw: random.Random) -> None:
    trace = window.session.state.trace
    assert trace is not None
    kind = draw.choice(trace.kinds)
    step = draw.choice([0, 1, len(trace)])
    queries, keys = trace.until(step).tokens(kind)
    cell = None
    if queries and keys:
        places = draw.randrange(len(queries)), draw.randrange(len(keys))
        cell = AttentionCell(kind, *places)
    window.session.set(
        tab=tab,
        kind=kind,
        layer=draw.randrange(trace.layers(kind)),
        head=draw.randrange(trace.heads(kind)),
        step=step,
        locked=cell,
        stage=draw.choice(stage_names()),
    )
    for pages in window.tabs.view(tab).findChildren(Pages):
        pages.turn(draw.choice(pages.names))
    assert window.session.state.error == ""
    assert window.notice.text() in ("", trace.missing), window.notice.text()
    QApplication.processEvents()
    assert not window.grab().isNull()


def new_window(folder: Path) -> MainWindow:
    settings = QSettings(str(folder / "window.ini"), QSettings.Format.IniFormat)
    window = MainWindow(FakeEngine(), settings)
    window.resize(1280, 800)
    window.show()
    return window


def count(tried: Iterable[Mutant], folder: Path) -> Counter[str]:
    """Show mutants, and count what they did; faults are counted with their places."""
    did: Counter[str] = Counter()
    window = new_window(folder)
    path = folder / "a.vis"
    for at, mutant in enumerate(tried):
        try:
            did[shown_outcome(window, mutant, path)] += 1
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            fault = f"{type(error).__name__} {place.filename}:{place.lineno} {error}"
            if not did[fault[:160]]:
                print(at, mutant.how, mutant.of, fault[:160], flush=True)
            did[fault[:160]] += 1
            window.close()
            window = new_window(folder)
    window.close()
    return did


def main(number: int, seed: int) -> None:
    app = QApplication.instance() or QApplication(sys.argv[:1])
    with tempfile.TemporaryDirectory() as folder:
        did = count(mutants(number, seed), Path(folder))
    app.processEvents()
    for what, times in did.most_common():
        print(f"{times:6} {what}")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
