"""Views: each paints the picture of its name and reports what was picked.

A view has ``draw(state)``, complete and idempotent, and the signals ``picked`` (a dict
of State changes) and ``failed`` (one sentence).
"""

from __future__ import annotations

from visformer.ui.views.architecture import ArchitectureView
from visformer.ui.views.attention import AttentionView
from visformer.ui.views.computation import ComputationView
from visformer.ui.views.masks import MasksView
from visformer.ui.views.output import OutputView
from visformer.ui.views.positions import PositionsView

View = (
    AttentionView
    | ComputationView
    | OutputView
    | MasksView
    | PositionsView
    | ArchitectureView
)
VIEWS: tuple[
    tuple[str, str, type[View]], ...
] = (  # name in the State, title of the tab, class
    ("attention", "Attention", AttentionView),
    ("computation", "Computation", ComputationView),
    ("output", "Output", OutputView),
    ("masks", "Masks", MasksView),
    ("positions", "Positions", PositionsView),
    ("architecture", "Architecture", ArchitectureView),
)
