"""Maps of the baseline run and of the modified one, where there are both."""

from __future__ import annotations

from collections.abc import Sequence

from visformer.language import _
from visformer.pictures.picture import Matrix
from visformer.ui.widgets.heatmap import HeatMap


def attention_maps() -> list[HeatMap]:
    """Return maps of the run on screen and of the baseline."""
    names = _("attention of the run on screen"), _("attention of the original run")
    return [HeatMap(name) for name in names]


def draw_both(maps: Sequence[HeatMap], pictures: Sequence[Matrix]) -> None:
    """Draw as many maps as there are pictures; the first map stays, even if empty."""
    for index, heat_map in enumerate(maps):
        there = index < len(pictures)
        heat_map.setVisible(there or index == 0)
        heat_map.draw(pictures[index] if there else None)
