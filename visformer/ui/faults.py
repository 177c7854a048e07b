"""The one place that catches: what nobody handled is logged, and told once.

The log never holds the user's sentences: a stack has no values, and what an error's
message quotes is left out.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable
from types import TracebackType

from PySide6.QtCore import QObject, Qt, Signal

from visformer.errors import VisformerError, brief, stack_words
from visformer.language import _

log = logging.getLogger(__name__)
LOGGED = 3  # faults of one place that are logged whole; later ones are counted
KEPT = 20  # faults that the diagnostics name
QUIET_SECONDS = 5.0  # in which the same sentence is not told again


class Faults(QObject):
    """What went wrong since the start; tells each sentence on the window's thread."""

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
        sentence = _(
            "Unexpected error, written to the log: {kind}: {error}",
            kind=kind.__name__,
            error=error,
        )
        self.told.emit(brief(sentence))


def _place(trace: TracebackType | None) -> str:
    frames = traceback.extract_tb(trace)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "?"
