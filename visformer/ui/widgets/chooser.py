"""A box to choose one of several things in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from PySide6.QtWidgets import QComboBox


def chooser(
    name: str, items: Mapping[Any, str], *, most: int | None = None
) -> QComboBox:
    """Build a box of titles by their data; ``name`` is its accessible name and tip.

    It is as wide as its longest title, or at most as ``most`` characters: the longest
    need not be whole while they are not chosen.
    """
    box = QComboBox()
    for data, title in items.items():
        box.addItem(title, data)
    box.setAccessibleName(name)
    box.setToolTip(name)
    policy = QComboBox.SizeAdjustPolicy.AdjustToContents
    if most is not None:
        policy = QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
        box.setMinimumContentsLength(min(most, max(map(len, items.values()))))
    box.setSizeAdjustPolicy(policy)
    return box
