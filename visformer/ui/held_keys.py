"""Keys that come faster than paints: all that they change is drawn once."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject, QTimer
from PySide6.QtWidgets import QWidget

from visformer.session.state import State


class HeldKeys(QObject):
    """Draws a State at once; a key's only if what the last one changed is painted.

    So a held key keeps up however long a drawing takes: it ends where it would, and
    nothing is left to draw when it is let go.
    """

    def __init__(
        self,
        window: QWidget,
        draw: Callable[[State], None],
        follow: Callable[[State], None],
    ) -> None:
        """``follow`` is told at once, too, of a State that is drawn later."""
        super().__init__(window)
        self._draw, self._follow = draw, follow
        self._acting, self._painted = False, True
        self._state: State | None = None  # that is to be drawn
        self._late = QTimer(self, singleShot=True, interval=0)
        self._late.timeout.connect(self._draw_late)
        window.installEventFilter(self)

    def by_key(self, act: Callable[[], object]) -> Callable[[], None]:
        """Return what a key does that may be held."""

        def press() -> None:
            self._acting = True
            try:
                act()
            finally:
                self._acting = False

        return press

    def draw(self, state: State) -> None:
        """Draw a State now, or once the one before it is painted."""
        if self._acting and not self._painted:
            self._state = state
            self._follow(state)
            self._late.start()
            return
        self._late.stop()
        self._painted, self._state = False, None
        self._draw(state)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Note that the window is painted."""
        self._painted |= event.type() == QEvent.Type.UpdateRequest
        return False

    def _draw_late(self) -> None:
        if self._state is not None:
            self.draw(self._state)
