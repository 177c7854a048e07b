"""What events the parts of a view are sent."""

from __future__ import annotations

from collections import Counter

from PySide6.QtCore import QEvent, QObject
from PySide6.QtWidgets import QWidget


class Seen(QObject):
    """Counts the events of a type that a view's parts of some classes are sent."""

    def __init__(self, view: QWidget, *kinds: type[QWidget]) -> None:
        super().__init__()
        self.of: Counter[tuple[QWidget, QEvent.Type]] = Counter()
        for part in parts(view, *kinds):
            part.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        assert isinstance(watched, QWidget)
        self.of[watched, event.type()] += 1
        return False

    def most(self, kind: QEvent.Type) -> int:
        """Return how many events of a type one part was sent at most."""
        return max((n for (_, type), n in self.of.items() if type == kind), default=0)


def parts(view: QWidget, *kinds: type[QWidget]) -> list[QWidget]:
    return [part for kind in kinds for part in view.findChildren(kind)]
