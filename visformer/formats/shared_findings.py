"""Findings that several tutorials have in common: where, what, why and the remedy."""

from __future__ import annotations

DROPPED = (
    "Attention",
    "the weights are computed and dropped",
    "so that the original program has nothing to show",
    "nothing to do, Visformer computes them itself",
)
UNSCALED = (
    "Embeddings",
    "they are not multiplied by sqrt(d_model), where the paper does it",
    "embeddings and positions have the sizes that training gave them",
    "keep it as trained",
)
QUERY_ROWS = (
    "Masks",
    "padding is masked on query rows",
    "so that a padded row attends to every key alike, future ones included",
    "mask keys instead: unsqueeze(1).unsqueeze(2)",
)
DROPOUT = (
    "Dropout",
    "a dropout argument is ignored",
    "which shows in training with another rate only",
    "pass it on to the part that drops",
)
