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
from visformer.pictures.about import about_text, count_words
from visformer.session.state import State

COLUMNS, LINES = 100, 32


class AboutButton(QPushButton):
    """Says how many findings there are, and shows all that is known of the model."""

    def __init__(self, window: QWidget) -> None:
        super().__init__()
        self.opened: Opened | None = None
        self.setToolTip(_("What is known, assumed and unusual about this model"))
        self.clicked.connect(lambda: self.opened and show_about(window, self.opened))

    def draw(self, state: State) -> None:
        """Count the findings of the open model; hide where there are none."""
        self.opened = state.about
        self.setVisible(state.about is not None and bool(state.about.findings))
        if state.about is not None:
            self.setText(count_words(state.about))


def show_about(parent: QWidget, opened: Opened) -> None:
    """Open a dialog on the model's sizes, assumptions and findings."""
    dialog = QDialog(parent)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.setWindowTitle(_("About {model}", model=opened.model.name))
    text = about_text(opened)
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
