"""A QComboBox whose least size follows the font."""

from __future__ import annotations

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QComboBox


class ComboBox(QComboBox):
    """Qt keeps the least size of the font before; the size that it would like is right.

    (QComboBox caches it while the new font is not polished yet.)
    """

    def minimumSizeHint(self) -> QSize:
        """Ask for no more than the box would like."""
        wanted = self.sizeHint()
        policy = QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
        if self.sizeAdjustPolicy() == policy:
            return wanted
        return super().minimumSizeHint().boundedTo(wanted)
