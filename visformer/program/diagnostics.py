"""Diagnostics: what a person who is to help needs to know, as text without sentences.

It is in English in every language: whoever reads it knows the program's code.
"""

import faulthandler
import logging
import platform
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable
from types import TracebackType

from PySide6.QtCore import QCoreApplication, QEvent, QLibraryInfo, QObject, Qt, Signal
from PySide6.QtGui import QGuiApplication

from visformer import paths
from visformer.errors import VisformerError, brief, stack_words
from visformer.language import _
from visformer.program.turns import TURN_ENDS, NextEvent
from visformer.session.state import State

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


STALL_MS = 50  # a longer turn is counted
STACK_MS = 250  # a longer one is noted with its stack
LOOK_SECONDS = 0.1
STACKS = 5  # kept


class Watchdog(QObject):
    """Measures the turns of the loop; a thread looks at those that go on.

    A turn is from an event to when all that it has posted is done. While the loop
    sleeps nothing is measured, and the thread sleeps as well.
    """

    def __init__(
        self, parent: QObject, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Watch the loop of the calling thread; ``clock`` tells seconds."""
        super().__init__(parent)
        self._clock = clock
        self._watched = threading.get_ident()
        self._began: float | None = None  # the turn that goes on
        self._noted = False  # the stack of this turn is
        self.stalls = 0
        self.longest_ms = 0.0
        self.stacks: deque[str] = deque(maxlen=STACKS)
        self._next = NextEvent(self, self.begin)
        self._working, self._ended = threading.Event(), threading.Event()
        self._thread = threading.Thread(
            target=self._watch, name="watchdog", daemon=True
        )

    def start(self) -> None:
        """Begin to watch."""
        self._next.wait()
        self._thread.start()

    def close(self) -> None:
        """Watch no more."""
        self._next.leave()
        self._ended.set()
        self._working.set()
        if self._thread.ident:
            self._thread.join()

    def begin(self) -> None:
        """Note that a turn begins."""
        self._began, self._noted = self._clock(), False
        # handled after whatever the turn posts
        low = Qt.EventPriority.LowEventPriority.value
        QCoreApplication.postEvent(self, QEvent(TURN_ENDS), low)
        if not self._working.is_set():
            self._working.set()

    def customEvent(self, event: QEvent) -> None:
        if not self._ended.is_set():
            self.end()

    def end(self) -> None:
        """Note that the turn has ended; another begins with the next event."""
        assert self._began is not None
        stood = 1e3 * (self._clock() - self._began)
        self._began = None
        if stood > STALL_MS:
            self.stalls += 1
            self.longest_ms = max(self.longest_ms, stood)
        self._next.wait()

    def look(self) -> None:
        """Note where the loop stands, if a turn goes on for long."""
        began = self._began
        stood = 0.0 if began is None else 1e3 * (self._clock() - began)
        if stood > STACK_MS and not self._noted:
            self._noted = True
            stack = _stack_of(self._watched)
            self.stacks.append(stack)
            log.warning("the window has stood still for %.0f ms:\n%s", stood, stack)

    def _watch(self) -> None:
        while self._working.wait() and not self._ended.wait(LOOK_SECONDS):
            self.look()
            self._working.clear()
            if self._began is not None:  # also one that has just begun
                self._working.set()


def _stack_of(thread: int) -> str:
    """Return where a thread is, the newest call first.

    Its frames are not asked for: who holds one keeps what is in it beyond its call, a
    QPainter beyond its paint event, and ends it on the wrong thread.
    """
    with tempfile.TemporaryFile() as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        stacks = file.read().decode("utf-8", "replace").split("\n\n")
    return next((stack for stack in stacks if f"0x{thread:016x}" in stack), "")


log = logging.getLogger(__name__)
LOGGED = 3  # faults of one place that are logged whole; later ones are counted
KEPT = 20  # faults that the diagnostics name
QUIET_SECONDS = 5.0  # in which the same sentence is not told again


class Faults(QObject):
    """What nobody handled since the start: logged, and told on the window's thread.

    The log never holds the user's sentences: a stack has no values, and what an error's
    message quotes is left out.
    """

    told = Signal(str)

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock`` tells seconds."""
        super().__init__()
        self._clock = clock
        self._told: dict[str, float] = {}  # when a sentence was told last
        self.counts: Counter[str] = Counter()  # by place in the program
        self.last: deque[str] = deque(maxlen=KEPT)

    def listen(self, tell: Callable[[str], None]) -> None:
        """Catch from here on, and tell each fault with ``tell``."""
        self._before = sys.excepthook, sys.unraisablehook, threading.excepthook
        # queued: a fault may come amid drawing, and telling it draws
        self.told.connect(tell, Qt.ConnectionType.QueuedConnection)
        sys.excepthook = self.catch
        sys.unraisablehook = lambda args: self.catch(
            args.exc_type, args.exc_value or args.exc_type(), args.exc_traceback
        )
        threading.excepthook = lambda args: self.catch(
            args.exc_type, args.exc_value or args.exc_type(), args.exc_traceback
        )

    def close(self) -> None:
        """Give the hooks back."""
        sys.excepthook, sys.unraisablehook, threading.excepthook = self._before

    def catch(
        self,
        kind: type[BaseException],
        error: BaseException,
        trace: TracebackType | None,
    ) -> None:
        """Log a fault and tell it, unless it is one of many."""
        if isinstance(error, VisformerError):
            now = self._clock()
            if now - self._told.get(str(error), -QUIET_SECONDS) >= QUIET_SECONDS:
                self._told[str(error)] = now
                self.told.emit(str(error))
            return
        place = f"{kind.__name__} at {_place(trace)}"
        self.counts[place] += 1
        if self.counts[place] <= LOGGED:
            log.error("%s", stack_words(error.with_traceback(trace)))
        elif self.counts[place] % 100 == 0:
            log.error("%s times: %s", self.counts[place], place)
        if self.counts[place] > 1:
            return
        self.last.append(f"{time.strftime('%H:%M:%S')} {place}")
        self.told.emit(fault_words(error))


def fault_words(error: BaseException) -> str:
    """Say what nobody handled, in one sentence."""
    if isinstance(error, VisformerError):
        return str(error)
    words = _(
        "Unexpected error, written to the log: {kind}: {error}",
        kind=type(error).__name__,
        error=error,
    )
    return brief(words)


def _place(trace: TracebackType | None) -> str:
    frames = traceback.extract_tb(trace)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "?"
