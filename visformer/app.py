"""The entry point of the window: starts the engine and the window, connects them."""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import itertools
import logging
import logging.handlers
import math
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Client, Connection
from pathlib import Path
from types import FrameType
from typing import NoReturn, ParamSpec

from PySide6.QtCore import (
    QCoreApplication,
    QEvent,
    QObject,
    QSettings,
    QSocketNotifier,
    Qt,
    QTimer,
    QtMsgType,
    Signal,
    qInstallMessageHandler,
)
from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QApplication, QMessageBox

from visformer import paths
from visformer.commands.shared import complain
from visformer.engine.handle import Engine, RemoteEngine
from visformer.engine.messages import Event, Open, Request
from visformer.engine.mirror import Decoded
from visformer.engine.starter import started
from visformer.errors import InputError, VisformerError, stack_words
from visformer.file_kinds import Recognised, recognised
from visformer.files import short
from visformer.language import N_, VARIABLE, _, tag, use
from visformer.own_process import return_memory, return_what_is_freed
from visformer.program.diagnostics import Health, fault_words
from visformer.program.turns import NextEvent
from visformer.screen import check_screen
from visformer.session.lesson import read_lesson
from visformer.session.runs import NO_MODEL
from visformer.trace_file.saved_session import SavedRun, SavedSession
from visformer.trace_file.trace_file import read_session
from visformer.ui.bars.first_steps import show_first_steps
from visformer.ui.window.window import MainWindow
from visformer.values.questions import Overrides

log = logging.getLogger(__name__)
LANGUAGE = "language"  # in the settings: the one that was chosen
GARBAGE_MS = 1000
FULL_EVERY = 60  # collections: the last of these is of all objects
P = ParamSpec("P")


class App:
    """The running program: QApplication, engine, window."""

    def __init__(
        self,
        argv: list[str],
        *,
        settings: QSettings | None = None,
        crashes: str = "",
        keep: Path | None = None,
        served: Connection | None = None,
    ) -> None:
        """Start the engine first, so that torch loads while the window is built.

        ``crashes``: the file that an engine's crash is written to; ``keep``: the folder
        in which the session is kept, None for nowhere; ``served``: the connection to a
        model that runs in another program.
        """
        gc.disable()  # the window's timer collects
        return_what_is_freed(at_once=True)
        self.settings = settings or QSettings(
            str(paths.settings_file()), QSettings.Format.IniFormat
        )
        self._keep = keep
        chosen = str(self.settings.value(LANGUAGE, ""))
        if chosen and not os.environ.get(VARIABLE):
            use(chosen)  # the engine's process inherits it
        self.bridge: Bridge | None = None
        self.engine: Engine | RemoteEngine
        if served is None:
            self.engine = Engine(self._receive, crashes=crashes)
        else:
            self.engine = RemoteEngine(self._receive, served)
        existing = QApplication.instance()
        self.qt = existing if isinstance(existing, QApplication) else QApplication(argv)
        self.qt.setApplicationName("visformer")
        self.qt.setDesktopFileName("visformer")
        self.qt.setWindowIcon(QIcon(str(paths.resource(paths.ICON))))
        self.bridge = Bridge()
        # what is imported stays: without it all is collected in 3 ms, not in 50
        gc.freeze()
        self.health: Health | None = None
        self._open_window(self.bridge)
        self._collect_garbage()

    def _open_window(self, bridge: Bridge) -> None:
        self.window = MainWindow(self.engine, self.settings, self._keep)
        self.window.speak = self._speak
        bridge.received.connect(self.window.receive)

    def watch(self) -> None:
        """Catch what goes wrong in the window, and note when it stands still."""
        if self.health is not None:
            self.health.close()
        self.health = _watch(self.window)

    def _speak(self, language: str) -> None:
        """Show the same State in a new window, in another language."""
        old, bridge = self.window, self.bridge
        if bridge is None:
            return
        self.settings.setValue(LANGUAGE, language)
        before = tag()
        use(language)
        if tag() == before:
            return
        forget_words()
        self.qt.setQuitOnLastWindowClosed(False)
        old.close()
        bridge.received.disconnect(old.receive)
        self._open_window(bridge)
        self.window.take_over(old)
        if self.health is not None:
            self.watch()
        self.window.show()
        self.window.tabs.load_ahead()
        old.deleteLater()
        self.qt.setQuitOnLastWindowClosed(True)

    def _receive(self, event: object) -> None:
        if self.bridge is not None:
            self.bridge.receive(event)  # type: ignore[arg-type]

    def _collect_garbage(self) -> None:
        """Collect only on the window's thread: other threads must not free widgets.

        Nothing becomes garbage while the loop sleeps, and nothing wakes it then.
        """
        self._collections = itertools.count(1)
        self._timer = QTimer(self.qt, singleShot=True, interval=GARBAGE_MS)
        self._timer.timeout.connect(self._collect)
        self._next = NextEvent(self.qt, self._timer.start)
        self._next.wait()

    def _collect(self) -> None:
        """Collect; what got old before it became garbage, now and then.

        What is free goes back to the system: else up to 28 MB lie in pieces.
        """
        gc.collect(1 if next(self._collections) % FULL_EVERY else 2)
        return_memory()
        self._next.wait()

    def start(
        self,
        path: str | None = None,
        text: str = "",
        overrides: Overrides | None = (),
        *,
        handed: SavedSession | None = None,
    ) -> None:
        """Show the first picture and open the model; None lets it ask questions."""
        window = self.window
        kind, problem = Recognised("model") if path is None else recognised(Path(path))
        if problem:
            path = None
        if handed is not None:
            window.show_file(handed, "")
        elif path is None and not text:
            self._show_recorded()
        if not window.session.state.led:
            # the first run, too, is looked at where it says most
            window.session.set(led=NO_MODEL)
        if path is not None and kind != "model":
            window.open(path)
            with contextlib.suppress(VisformerError):  # which the window will say
                if kind == "lesson" and read_lesson(Path(path)):
                    return  # it opens its model
            path = None  # a model is opened for what is typed next
        if path is None:
            path, overrides = str(paths.checkpoint()), ()
        if text:
            text = window.source.take(text)
        window.open(path, given=overrides, then=text)
        window.session.set(error=problem)

    def attempt(
        self, act: Callable[P, object], *given: P.args, **named: P.kwargs
    ) -> bool:
        """Do what belongs to the start; what it raises is told in the window."""
        try:
            act(*given, **named)
            return True
        except Exception as error:
            sys.excepthook(type(error), error, error.__traceback__)
            return False

    def _show_recorded(self) -> None:
        try:
            session = read_session(paths.resource(paths.FIRST_TRACE))
        except VisformerError:
            log.warning("no recorded first trace")
            return
        self.window.show_telling(session.shown.trace)

    def close(self) -> None:
        """End the engine and the window."""
        if self.health is not None:
            self.health.close()
        self._next.leave()
        self._timer.stop()
        self.engine.close()
        self.window.close()
        self.window.deleteLater()
        # now, while nothing is collected: a collection inside Qt's destructors could
        # wait for a lock that they hold
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
        gc.enable()


def forget_words() -> None:
    """Drop what functions have kept: it has words in the language before."""
    for name, module in list(sys.modules.items()):
        if name.startswith("visformer."):
            for kept in list(vars(module).values()):
                if hasattr(kept, "cache_clear"):
                    kept.cache_clear()


def run(
    path: str | None,
    text: str = "",
    overrides: Overrides = (),
    *,
    handed: SavedSession | None = None,
) -> int:
    """Run the window until it is closed; returns the exit code.

    ``handed`` is shown in place of a file: it is in none.
    """

    def make() -> App:
        crashes = _log_to_file()
        signal.signal(signal.SIGINT, _end_at_once)
        log_qt()
        return App(sys.argv[:1], crashes=crashes, keep=paths.sessions_folder())

    app = _standing(make)
    if app is None:
        return 1
    interrupts, qt = list[Interrupts](), app.qt
    QTimer.singleShot(0, lambda: interrupts.append(Interrupts(qt)))
    if handed is None:
        app.attempt(show_first_steps, app.window)
    if not app.attempt(app.start, path, text, overrides or None, handed=handed):
        app.attempt(app.start)  # as if nothing had been asked for
    app.attempt(app.window.files.offer)
    app.attempt(app.window.tabs.load_ahead)
    code = qt.exec()
    for listening in interrupts:
        listening.close()
    app.close()
    return code


def run_handed(path: str) -> int:
    """Run a window on what another program has written to a file for it.

    The file, and its folder, are removed as soon as it is open; where an open file
    cannot be, that program does it when the window has been closed.
    """
    file = Path(path)
    session = read_session(file)
    with contextlib.suppress(OSError):
        file.unlink()
        file.parent.rmdir()
    return run(None, handed=session)


def run_served(address: str, key: str, name: str) -> int:
    """Run a window on a model that another program serves at ``address``."""

    def make() -> App:
        log_qt()
        connection = Client(address, authkey=bytes.fromhex(key))
        return App(sys.argv[:1], served=connection)

    app = _standing(make)
    if app is None:
        return 1
    app.attempt(app.window.open, name, given=())
    code = app.qt.exec()
    app.close()
    return code


def _standing(make: Callable[[], App]) -> App | None:
    """Show the window; None where it cannot stand, which is told."""
    try:
        app = make()
        app.watch()
        app.window.show()
        return app
    except Exception as error:
        log.error("%s", stack_words(error))
        _tell_alone(fault_words(error))
        return None


def _tell_alone(words: str) -> None:
    """Tell on standard error, and where there is a screen in a box, why nothing comes.

    It returns when the box is closed.
    """
    complain(words)
    with contextlib.suppress(VisformerError):
        check_screen()
        qt = QApplication.instance() or QApplication(sys.argv[:1])
        box = QMessageBox()
        box.setWindowTitle(qt.applicationName())
        box.setTextFormat(Qt.TextFormat.PlainText)
        box.setText(words)
        box.exec()


def _end_at_once(number: int, frame: FrameType | None) -> NoReturn:
    """End the process and its engines: until the loop runs it cannot be left."""
    started()
    complain(_("stopped"))
    os._exit(130)


def _watch(window: MainWindow) -> Health:
    """Catch what goes wrong in a window, and note when it stands still."""
    window.health = Health(window, lambda words: window.session.set(error=words))
    return window.health


def show(run: SavedRun, *, block: bool = True) -> int:
    """Run a window on one run alone, without an engine; see ``visformer.show``."""
    if threading.current_thread() is not threading.main_thread():
        raise InputError("show opens a window: call it from the main thread.")
    qt = QApplication.instance()
    if not isinstance(qt, QApplication):
        check_screen()
        log_qt()
        qt = QApplication(sys.argv[:1])
    settings = QSettings(str(paths.settings_file()), QSettings.Format.IniFormat)
    window = MainWindow(NoEngine(), settings)
    window.show_run(run)
    window.show()
    if not block:
        _shown.append(window)
        qt.processEvents()
        return 0
    health = _watch(window)
    try:
        return qt.exec()
    finally:  # the script's next exception is its own again
        health.close()


_shown: list[MainWindow] = []  # windows of scripts that went on: Qt holds none


NO_ENGINE = N_("This window only shows a trace: start visformer to translate.")


class NoEngine:
    """The engine of a window that only shows a Trace: refuses all requests."""

    def open(self, request: Open) -> int:
        raise VisformerError(
            "This window only shows a trace: start visformer to open more."
        )

    def ask(self, request: Request) -> int:
        raise VisformerError(NO_ENGINE)

    def stop(self) -> None:
        """Do nothing: nothing is computed."""

    def abandon(self) -> None:
        """Do nothing: there is no opening."""


def _log_to_file() -> str:
    """Log to a file; return the one that crashes are written to, "" for none."""
    try:
        path = paths.log_file()
        handler = logging.handlers.RotatingFileHandler(
            path, maxBytes=1 << 20, backupCount=2
        )
        words = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
        handler.setFormatter(words)
        logging.basicConfig(level=logging.INFO, handlers=[handler])
        crashes = path.with_suffix(".faults")
        faulthandler.enable(crashes.open("a"))
        return str(crashes)
    except OSError as error:
        faulthandler.enable()
        logging.basicConfig(handlers=[logging.NullHandler()])
        said = "{file} cannot be used ({reason})."
        complain(_(said, file=short(str(error.filename), 90), reason=error.strerror))
        return ""


def log_qt() -> None:
    """Send Qt's own messages to the log; only what ends the process to the terminal."""

    def heard(kind: QtMsgType, _context: object, text: str) -> None:
        log.info("Qt: %s", text)
        if kind == QtMsgType.QtFatalMsg and sys.stderr is not None:
            print(f"visformer: Qt: {text}", file=sys.stderr, flush=True)

    qInstallMessageHandler(heard)


INTERRUPTED = 128  # added to the number of the signal: the exit code


class Interrupts(QObject):
    """Ctrl-C in the terminal, and SIGTERM: ends the loop with the code of that signal.

    Python runs a signal's handler only between its own instructions, and an idle Qt
    loop runs none: a byte that the signal writes to a socket wakes it.
    """

    def __init__(self, parent: QObject) -> None:
        """Listen from here on; on the main thread only."""
        super().__init__(parent)
        self._near, self._far = socket.socketpair()
        self._far.setblocking(False)
        self._notifier = QSocketNotifier(
            self._near.fileno(), QSocketNotifier.Type.Read, self
        )
        self._notifier.activated.connect(self._drain)
        signal.set_wakeup_fd(self._far.fileno(), warn_on_full_buffer=False)
        signals = [signal.SIGINT, signal.SIGTERM]
        if sys.platform != "win32":
            signals.append(signal.SIGHUP)
        self._before = {number: signal.signal(number, self._end) for number in signals}

    def close(self) -> None:
        """Listen no more."""
        signal.set_wakeup_fd(-1)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._notifier.setEnabled(False)
        self._near.close()
        self._far.close()

    def _drain(self) -> None:
        self._near.recv(64)

    def _end(self, number: int, frame: FrameType | None) -> None:
        QCoreApplication.exit(INTERRUPTED + number)


FRAME_MS = 16  # milliseconds in which a screen shows at most one picture


class Bridge(QObject):
    """Takes events on any thread, emits them on its own.

    Only the newest Trace of a decode counts: it replaces one that still waits to be
    delivered instead of queueing behind it.
    """

    received = Signal(object)
    _arrived = Signal()

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock`` returns seconds; it never goes back."""
        super().__init__()
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: list[Event] = []
        # a timer lets the event loop run in between: queued signals alone would come
        # one after the other, and the user's input would wait for the last of them
        self._timer, self._last = QTimer(self, singleShot=True), 0.0
        self._timer.timeout.connect(self._deliver)
        self._arrived.connect(self._wait, Qt.ConnectionType.QueuedConnection)

    def receive(self, event: Event) -> None:
        """Take an event; called on the engine's threads."""
        with self._lock:
            replaces = (
                isinstance(event, Decoded)
                and bool(self._waiting)
                and isinstance(self._waiting[-1], Decoded)
            )
            if replaces:
                self._waiting[-1] = event
                return
            self._waiting.append(event)
        self._arrived.emit()

    def _wait(self) -> None:
        """Deliver at the next turn of the event loop, but once per frame at most."""
        if not self._timer.isActive():
            passed = 1e3 * (self._clock() - self._last)
            self._timer.start(max(0, math.ceil(FRAME_MS - passed)))

    def _deliver(self) -> None:
        self._last = self._clock()
        with self._lock:
            events, self._waiting = self._waiting, []
        for event in events:
            self.received.emit(event)
