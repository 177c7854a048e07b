"""Views: each paints the picture of its name.

The tabs stand in the order of the data. Adding one is one entry in ``VIEWS``: a
``View`` with its name and title.
"""

from __future__ import annotations

from visformer.ui.views.architecture import ArchitectureView
from visformer.ui.views.attention import AttentionView
from visformer.ui.views.computation import ComputationView
from visformer.ui.views.masks import MasksView
from visformer.ui.views.output import OutputView
from visformer.ui.views.positions import PositionsView
from visformer.ui.views.view import View

VIEWS: tuple[type[View], ...] = (
    ArchitectureView,
    PositionsView,
    AttentionView,
    ComputationView,
    MasksView,
    OutputView,
)
