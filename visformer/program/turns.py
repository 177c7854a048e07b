"""When the event loop has something to do."""

from collections.abc import Callable

from PySide6.QtCore import QCoreApplication, QEvent, QObject

TURN_ENDS = QEvent.Type(QEvent.registerEventType())  # no work: marks where a turn ends


class NextEvent(QObject):
    """Calls a function before the next event of the program is handled, once.

    It costs nothing while none comes. Signals of Qt's dispatcher do not tell: under
    GLib all events come between ``aboutToBlock`` and ``awake``.
    """

    def __init__(self, parent: QObject, act: Callable[[], object]) -> None:
        super().__init__(parent)
        self._act, self._waits = act, False

    def wait(self) -> None:
        """Call the function at the next event."""
        self._waits = True
        app = QCoreApplication.instance()
        if app is not None:
            app.installEventFilter(self)

    def leave(self) -> None:
        """Wait for no event any more."""
        self._waits = False
        app = QCoreApplication.instance()
        if app is not None:
            app.removeEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        # an event that is new to PySide brings another one here before itself
        if self._waits and event.type() != TURN_ENDS:
            self.leave()
            self._act()
        return False
