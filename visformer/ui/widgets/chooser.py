"""A box to choose one of several items."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from PySide6.QtWidgets import QComboBox

from visformer.language import _
from visformer.ui.widgets.combo_box import ComboBox


def chooser(
    name: str, items: Mapping[Any, str], *, most: int | None = None
) -> QComboBox:
    """Build a box of titles by their data; ``name`` is its accessible name and tip.

    The titles are those marked for the catalogue. The box is as wide as the longest
    one, or at most ``most`` characters: longer ones may be cut until they are chosen.
    """
    box = ComboBox()
    titles = {data: _(title) for data, title in items.items()}
    for data, title in titles.items():
        box.addItem(title, data)
    box.setAccessibleName(name)
    box.setToolTip(name)
    policy = QComboBox.SizeAdjustPolicy.AdjustToContents
    if most is not None:
        policy = QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
        box.setMinimumContentsLength(min(most, max(map(len, titles.values()))))
    box.setSizeAdjustPolicy(policy)
    return box
