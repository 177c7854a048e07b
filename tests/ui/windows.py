"""A window on a fake engine, for tests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QSettings
from pytestqt.qtbot import QtBot

from tests.traces import make_trace
from visformer.engine.handle import Decoded
from visformer.engine.messages import Decode, Finished, Shuffle
from visformer.ui.window import MainWindow
from visformer.values.arrays import Floats, Ids
from visformer.values.layer_weights import Stack
from visformer.values.questions import Asking, Told
from visformer.values.trace import Trace


class FakeEngine:
    """Remembers what it was asked."""

    def __init__(self) -> None:
        self.opened: list[tuple[str, str]] = []
        self.told: list[tuple[Told, Asking]] = []  # of each opening
        self.abandoned = 0
        self.decodes: list[Decode] = []
        self.shuffles: list[Shuffle] = []
        self.batches: list[tuple[str, ...]] = []
        self.asked: list[tuple[Stack, int]] = []
        self.lenses: list[tuple[Floats, Ids, float]] = []

    def open(
        self, path: str, device: str = "", told: Told = (), ask: Asking = "never"
    ) -> int:
        self.opened.append((path, device))
        self.told.append((told, ask))
        return -len(self.opened)  # never the number of a decode

    def abandon(self) -> None:
        self.abandoned += 1

    def decode(self, request: Decode) -> int:
        self.decodes.append(request)
        return len(self.decodes)

    def shuffle(self, request: Shuffle) -> int:
        self.shuffles.append(request)
        return 0

    def batch(self, sources: tuple[str, ...]) -> int:
        self.batches.append(sources)
        return 0

    def parameters(self, stack: Stack, layer: int) -> None:
        self.asked.append((stack, layer))

    def lens(self, hidden: Floats, chosen: Ids, temperature: float) -> None:
        self.lenses.append((hidden, chosen, temperature))


def make_window(qtbot: QtBot, folder: Path) -> tuple[MainWindow, FakeEngine]:
    """Return a window that is shown, and the engine behind it."""
    engine = FakeEngine()
    settings = QSettings(str(folder / "window.ini"), QSettings.Format.IniFormat)
    window = MainWindow(engine, settings)
    qtbot.addWidget(window)
    window.resize(1280, 800)
    window.show()
    qtbot.waitExposed(window)
    return window, engine


def answer(window: MainWindow, engine: FakeEngine, trace: Trace | None = None) -> Trace:
    """Answer the last decode, whole."""
    made = trace if trace is not None else make_trace(source=6, target=5, layers=3)
    made = replace(made, source_text=engine.decodes[-1].source)
    number = len(engine.decodes)
    window.receive(Decoded(number=number, trace=made, limit=20))
    window.receive(Finished(number=number, step_ms=2.5))
    return made
