"""Diagnostics: what a person who is to help needs to know, as text without sentences.

It is in English in every language: whoever reads it knows the program's code.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable

from PySide6.QtCore import QLibraryInfo, QObject
from PySide6.QtGui import QGuiApplication

from visformer import paths
from visformer.session.state import State
from visformer.ui.faults import Faults
from visformer.ui.watchdog import STALL_MS, Watchdog

PACKAGES = (
    *("visformer", "torch", "numpy", "sentencepiece", "safetensors"),
    *("PySide6-Essentials", "pyqtgraph"),
)


class Health:
    """What goes wrong in a running window, and how often it stands still."""

    def __init__(self, window: QObject, tell: Callable[[str], None]) -> None:
        """Watch from here on; each fault is told with ``tell``."""
        self.faults, self.watchdog = Faults(), Watchdog(window)
        self.faults.listen(tell)
        self.watchdog.start()

    def close(self) -> None:
        """Watch no more."""
        self.watchdog.close()
        self.faults.close()


def diagnostics(state: State, health: Health | None) -> str:
    """Return versions, the device, facts of the model, and the last faults."""
    lines = [
        f"Python {sys.version.split()[0]} on {platform.platform()}",
        ", ".join(f"{name} {version_of(name)}" for name in PACKAGES),
        f"Qt {QLibraryInfo.version().toString()}, {QGuiApplication.platformName()}, "
        + ", ".join(_screens()),
        *_model_lines(state),
        f"busy: {bool(state.busy)}, recorded: {state.recorded}, "
        f"steps: {len(state.trace or ())}, source tokens: "
        f"{len(state.trace.source) if state.trace is not None else 0}",
        f"log: {paths.log_file()}",
    ]
    if health is not None:
        watchdog, faults = health.watchdog, health.faults
        lines.append(
            f"stalls over {STALL_MS} ms: {watchdog.stalls}, the longest "
            f"{watchdog.longest_ms:.0f} ms"
        )
        lines += [f"stood still at:\n{stack}" for stack in watchdog.stacks]
        lines += [f"fault: {line}" for line in faults.last] or ["no faults"]
        lines += [f"{n} times: {place}" for place, n in faults.counts.items() if n > 1]
    return "\n".join(lines) + "\n"


def version_of(name: str) -> str:
    from importlib import metadata  # it imports much, and the start needs none of it

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "(not installed)"


def _screens() -> list[str]:
    return [
        f"{screen.size().width()}x{screen.size().height()} at "
        f"{screen.devicePixelRatio():g}"
        for screen in QGuiApplication.screens()
    ]


def _model_lines(state: State) -> list[str]:
    model, opened = state.model, state.opened
    if model is None:
        return ["no model"]
    sizes = ", ".join(
        f"{stack} {facts.hidden - 1} layers of {facts.d_model}"
        for stack, facts in model.stacks.items()
    )
    findings = opened.findings if opened is not None else ()
    return [
        f"model: layout {model.layout}, {sizes}, {model.parameters:,} parameters on "
        f"{model.device}, digest {model.digest[:12]}",
        *(f"finding: {finding}" for finding in findings),
        *(f"assumed: {line}" for line in (opened.assumed if opened else ())),
    ]
