"""Paint later: much that is drawn anew takes several turns of the event loop."""

from __future__ import annotations

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QWidget


def paint_later(widget: QWidget, turns: int = 1) -> None:
    """Paint a widget once what is changed in it from now on is drawn and laid out.

    What stands in a part that waits already is painted with it, which then waits for
    as many turns as either needs. It is for a part of a window: Qt may never paint a
    window again that was told to wait while it had to be painted.
    """
    if not widget.isVisible():
        return
    if widget.updatesEnabled():
        (_later(widget) or _Later(widget)).wait(turns)
        return
    part: QWidget | None = widget
    while part is not None:
        later = _later(part)
        if later is not None and later.isActive():
            later.wait_for(turns)
            return
        part = part.parentWidget()


def _later(widget: QWidget) -> _Later | None:
    children = Qt.FindChildOption.FindDirectChildrenOnly
    return widget.findChild(_Later, options=children)


class _Later(QTimer):
    """Counts turns of the event loop in which its parent is not painted.

    It fires when what was posted is done; QTimer.singleShot(0) is posted itself.
    """

    def __init__(self, widget: QWidget) -> None:
        super().__init__(widget, singleShot=True, interval=0)
        self._widget, self._left = widget, 0
        self.timeout.connect(self._turn)

    def wait(self, turns: int) -> None:
        self._widget.setUpdatesEnabled(False)
        self._left = turns
        self.start()

    def wait_for(self, turns: int) -> None:
        """Wait for this many frames from now on, if fewer are left."""
        self._left = max(self._left, turns)

    def _turn(self) -> None:
        self._left -= 1
        if self._left:
            self.start()
        else:
            self._widget.setUpdatesEnabled(True)
