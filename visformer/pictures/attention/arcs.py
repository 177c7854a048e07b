"""Arcs between two columns of tokens: which weights are drawn."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from visformer.analysis.attention_summary import fewest_keys
from visformer.pictures.look import Look
from visformer.pictures.picture import Matrix
from visformer.values.arrays import Floats


class Arcs(NamedTuple):
    """Arcs from queries to keys, the weakest first."""

    rows: NDArray[np.int64]  # [N]
    columns: NDArray[np.int64]  # [N]
    strengths: Floats  # [N], in [0, 1]: shades


def arcs(matrix: Matrix, share: float, rows: range) -> Arcs:
    """Return the arcs of some rows: the fewest keys that carry ``share`` of each."""
    part = slice(rows.start, rows.stop)
    at, columns = np.nonzero(fewest_keys(matrix.values[part], share))
    strengths = matrix.shade[part][at, columns]
    order = np.argsort(strengths, kind="stable")
    return Arcs(at[order] + rows.start, columns[order], strengths[order])


def arc_words(look: Look, matrix: Matrix) -> str:
    """Say which arcs are drawn, and from what weight to what their width runs."""
    low, high = matrix.ends
    share = f"{round(100 * look.mass)} %"
    return f"fewest keys with {share} of each row; width {low} to {high}"
