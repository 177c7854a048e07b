"""Findings that several tutorials have in common: where, what, remedy, severity."""

from __future__ import annotations

from visformer.language import N_
from visformer.values.finding import Severity

FindingParts = tuple[str, str, str, Severity]

DROPPED: FindingParts = (
    N_("Attention"),
    N_(
        "The original program computes the attention weights and discards them, so it "
        "has nothing to show."
    ),
    N_("Nothing to do: Visformer computes them itself."),
    "note",
)
UNSCALED: FindingParts = (
    N_("Embeddings"),
    N_(
        "Embeddings are not multiplied by sqrt(d_model) as in the paper, so their size "
        "relative to the positions is whatever training made it."
    ),
    N_("Leave it as trained."),
    "note",
)
QUERY_ROWS: FindingParts = (
    N_("Masks"),
    N_(
        "Padding is masked in the query rows, so a padded row attends equally to every "
        "key, including future ones."
    ),
    N_("Mask the keys instead: unsqueeze(1).unsqueeze(2)."),
    "fault",
)
DROPOUT: FindingParts = (
    N_("Dropout"),
    N_(
        "A dropout argument is ignored, which matters only when training with another "
        "rate."
    ),
    N_("Pass it on to the dropout layer."),
    "note",
)
