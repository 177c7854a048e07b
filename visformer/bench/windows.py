"""Windows that are measured: shown without a screen, with their events processed."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from PySide6.QtCore import QCoreApplication, QEventLoop, QSettings, QTimer
from PySide6.QtWidgets import QApplication

from visformer.app import NoEngine
from visformer.language import _
from visformer.session.runs import show_trace
from visformer.ui.views.attention import AttentionView
from visformer.ui.window import MainWindow
from visformer.values.trace import Trace

WAIT = 120.0  # seconds for an engine


def application() -> QApplication:
    """Return the application, which draws without a screen."""
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    existing = QApplication.instance()
    return existing if isinstance(existing, QApplication) else QApplication([])


@contextmanager
def shown_window(trace: Trace) -> Iterator[MainWindow]:
    """Show a recorded Trace in a new window."""
    application()
    with tempfile.TemporaryDirectory() as folder:
        settings = QSettings(str(Path(folder) / "w.ini"), QSettings.Format.IniFormat)
        window = MainWindow(NoEngine(), settings)
        window.resize(1280, 800)
        window.show()
        window.session.do(show_trace, trace)
        settle()
        yield window
        window.close()
        window.deleteLater()
        settle()


def attention_of(window: MainWindow) -> AttentionView:
    """Return the view of the Attention tab."""
    return cast(AttentionView, window.tabs.view("attention"))


def settle() -> None:
    """Process all pending events."""
    for _turn in range(20):
        QCoreApplication.processEvents()


def wait_until(there: Callable[[], bool]) -> None:
    """Run the event loop until ``there()``; RuntimeError if that takes too long."""
    loop, timer = QEventLoop(), QTimer()
    until = time.perf_counter() + WAIT

    def look() -> None:
        if there() or time.perf_counter() > until:
            loop.quit()

    timer.timeout.connect(look)
    timer.start(1)
    loop.exec()
    timer.stop()
    if not there():
        raise RuntimeError(_("the engine did not answer"))
