"""Arcs between two columns of tokens: which weights are drawn."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from visformer.analysis.attention_summary import fewest_keys
from visformer.language import N_, _
from visformer.pictures.picture import Matrix
from visformer.pictures.selection import Look
from visformer.values.arrays import Floats

DRAWN = N_("fewest keys with {percent}% of each row; width {low} to {high}")


class Arcs(NamedTuple):
    """Arcs from queries to keys, the weakest first."""

    rows: NDArray[np.int64]  # [N]
    columns: NDArray[np.int64]  # [N]
    strengths: Floats  # [N], in [0, 1]: shades


def arcs(matrix: Matrix, share: float, rows: range) -> Arcs:
    """Return some rows' arcs: to the fewest keys that make up ``share`` of a row."""
    part = slice(rows.start, rows.stop)
    at, columns = np.nonzero(fewest_keys(matrix.values[part], share))
    strengths = matrix.shade[part][at, columns]
    order = np.argsort(strengths, kind="stable")
    return Arcs(at[order] + rows.start, columns[order], strengths[order])


def arc_words(look: Look, matrix: Matrix) -> str:
    """Describe which arcs are drawn, and the weights of the thinnest and widest."""
    low, high = matrix.ends
    return _(DRAWN, percent=round(100 * look.mass), low=low, high=high)
