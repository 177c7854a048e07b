"""All that is known about the open model, to read and to copy."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QApplication,
    QDialog,
    QDialogButtonBox,
    QPlainTextEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from visformer.engine.messages import Opened
from visformer.language import _
from visformer.pictures.about import about_text, count_words, watched_text
from visformer.session.state import State
from visformer.values.trace import Trace

COLUMNS, LINES = 100, 32


class AboutButton(QPushButton):
    """Says how many findings there are, and shows all that is known of the model."""

    def __init__(self, window: QWidget) -> None:
        super().__init__()
        self._window = window
        self.opened: Opened | None = None
        self.watched: Trace | None = None  # of a model that is not open
        self.setToolTip(_("What is known, assumed and unusual about this model"))
        self.clicked.connect(self._show)

    def draw(self, state: State) -> None:
        """Count the findings of the model; hide where there are none."""
        self.opened, trace = state.about, state.trace
        is_watched = trace is not None and trace.certificate is not None
        self.watched = trace if is_watched else None
        if self.watched is not None and self.watched.certificate is not None:
            self.setVisible(True)
            self.setText(count_words(self.watched.certificate.findings))
            return
        self.setVisible(state.about is not None and bool(state.about.findings))
        if state.about is not None:
            self.setText(count_words(state.about.findings))

    def _show(self) -> None:
        if self.watched is not None:
            name = self.watched.model.name
            show_about(self._window, name, watched_text(self.watched))
        elif self.opened is not None:
            name = self.opened.model.name
            show_about(self._window, name, about_text(self.opened))


def show_about(parent: QWidget, name: str, text: str) -> None:
    """Open a dialog on a model's sizes, assumptions and findings."""
    dialog = QDialog(parent)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.setWindowTitle(_("About {model}", model=name))
    page = QPlainTextEdit(text)
    page.setReadOnly(True)
    page.setTabChangesFocus(True)
    page.setAccessibleName(_("What is known about the model"))
    flags = Qt.TextInteractionFlag
    page.setTextInteractionFlags(
        flags.TextSelectableByMouse | flags.TextSelectableByKeyboard
    )
    kinds = QDialogButtonBox.StandardButton
    buttons = QDialogButtonBox(kinds.Close)
    buttons.button(kinds.Close).setText(_("Close"))
    copy = buttons.addButton(_("Copy all"), QDialogButtonBox.ButtonRole.ActionRole)
    copy.clicked.connect(lambda: QApplication.clipboard().setText(text))
    buttons.rejected.connect(dialog.close)
    column = QVBoxLayout(dialog)
    column.addWidget(page)
    column.addWidget(buttons)
    metrics = dialog.fontMetrics()
    dialog.resize(
        min(metrics.averageCharWidth() * COLUMNS, parent.width() * 19 // 20),
        min(metrics.height() * LINES, parent.height() * 19 // 20),
    )
    dialog.open()
