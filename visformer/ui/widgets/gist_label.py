"""What there is to see in a picture, in a few words; the tip says what they mean."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QWidget

from visformer.pictures.attention.gist import Gist
from visformer.ui.widgets.plain_label import PlainLabel
from visformer.ui.widgets.plain_tip import plain_tip


class GistLabel(PlainLabel):
    """The gist of a map, faint; the mouse may rest on it."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setForegroundRole(QPalette.ColorRole.PlaceholderText)

    def draw(self, gist: Gist) -> None:
        """Write it, and say in the tip what its number is."""
        self.setText(gist.words)
        self.setToolTip(plain_tip("\n".join(filter(None, gist))))
