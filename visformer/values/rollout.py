"""Attention rollout: how much of each input token reaches each token of a layer.

Abnar & Zuidema 2020, "Quantifying Attention Flow in Transformers", section 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from visformer.values.arrays import Bools, Floats


def with_residual(weights: Floats) -> Floats:
    """Return 0.5 A + 0.5 I of [Q, Q], rows renormalised: residuals count one half."""
    mixed = (weights + np.eye(len(weights), dtype=np.float32)) / np.float32(2)
    normalised: Floats = mixed / mixed.sum(axis=1, keepdims=True)
    return normalised


def running_rollout(layers: Iterable[Floats]) -> Iterator[Floats]:
    """Yield the product of the layers so far, [Q, Q]; the last is that of all.

    ``layers``: weights averaged over heads, the first layer first. Row q gives the
    share of each token of the first layer's input in row q, if attention and residuals
    count one half each; rows sum to 1.
    """
    product: Floats | None = None
    for weights in layers:
        layer = with_residual(weights)
        product = layer if product is None else through(layer, product)
        yield product


def through(weights: Floats, below: Floats) -> Floats:
    """Return weights [Q, K] @ below [K, S].

    A row is NaN if it is NaN itself or gives weight to a row that is; a plain product
    would make every row NaN.
    """
    unknown: Bools = np.logical_or.reduce(np.isnan(below), axis=1)  # [K]
    reads = np.isnan(weights) | ((weights > 0) & unknown)  # [Q, K]
    lost: Bools = np.logical_or.reduce(reads, axis=1)  # [Q]
    clean = np.where(unknown[:, None], np.float32(0), below)  # [K, S]
    rollout: Floats = np.where(lost[:, None], np.float32(0), weights) @ clean
    rollout[lost] = np.nan
    return rollout
