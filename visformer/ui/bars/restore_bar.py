"""What a window that ended badly left behind, offered in a line; it may be ignored."""

from __future__ import annotations

from PySide6.QtCore import Signal, SignalInstance
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QWidget

from visformer.language import _
from visformer.session.kept import KeptWork
from visformer.text import visible
from visformer.ui.widgets.plain_label import plain_label

MOST = 80  # characters of its sentence


class RestoreBar(QWidget):
    """One line, hidden unless there is something to offer."""

    wanted = Signal(object)  # the KeptWork
    unwanted = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.setAutoFillBackground(True)
        self.setBackgroundRole(QPalette.ColorRole.AlternateBase)
        self._work: KeptWork | None = None
        self.words = plain_label("")
        self.words.setWordWrap(True)
        self.open = QPushButton(_("Open it again"))
        self.open.clicked.connect(lambda: self._end(self.wanted))
        self.dismiss = QPushButton(_("Dismiss"))
        self.dismiss.setToolTip(_("It stays in the menu File, Earlier sessions"))
        self.dismiss.clicked.connect(lambda: self._end(self.unwanted))
        row = QHBoxLayout(self)
        row.setContentsMargins(6, 2, 6, 2)
        row.addWidget(self.words, 1)
        row.addWidget(self.open)
        row.addWidget(self.dismiss)
        self.hide()

    @property
    def offered(self) -> KeptWork | None:
        """What is offered and not yet answered."""
        return self._work

    def offer(self, work: KeptWork) -> None:
        """Offer to open a session again."""
        self._work = work
        self.words.setText(
            _(
                "Visformer ended unexpectedly. The session “{sentence}” was kept.",
                sentence=title_of(work),
            )
        )
        self.show()

    def _end(self, signal: SignalInstance) -> None:
        work, self._work = self._work, None
        self.hide()
        if work is not None:
            signal.emit(work)


def title_of(work: KeptWork) -> str:
    """Return what a kept session is called by: its sentence, cut."""
    text = visible(work.recipe.wanted.sentence[: MOST + 1])
    return text if len(text) <= MOST else f"{text[:MOST]}…"
