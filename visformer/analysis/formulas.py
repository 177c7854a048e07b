"""The formulas of a layer on plain arrays: norms, activations, sizes, directions.

Every function works on rows [..., N], float32 in and out.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from visformer.values.arrays import Floats


class Standard(NamedTuple):
    """Numbers with mean 0 and deviation 1, and the mean and deviation they had."""

    values: Floats  # [..., N]
    mean: Floats
    deviation: Floats  # the root of variance + eps, which the numbers are divided by


def layer_standard(x: Floats, eps: float, *, unbiased: bool = False) -> Standard:
    """Standardise every row by its own mean and variance (Ba et al. 2016).

    The variance is over N, or over N - 1 if ``unbiased``; eps is inside the root.
    """
    mean = x.mean(-1, keepdims=True)  # [..., 1]
    with np.errstate(invalid="ignore", divide="ignore"):
        variance = x.var(-1, keepdims=True, ddof=int(unbiased))
        deviation = np.sqrt(variance + np.float32(eps))
        return Standard((x - mean) / deviation, mean, deviation)


def rms_standard(x: Floats, eps: float) -> Standard:
    """Divide every row by its root mean square (Zhang & Sennrich 2019).

    No mean is subtracted; the ``mean`` returned is 0.
    """
    square = np.square(x).mean(-1, keepdims=True)  # [..., 1]
    deviation = np.sqrt(square + np.float32(eps))
    with np.errstate(invalid="ignore", divide="ignore"):
        return Standard(x / deviation, np.zeros_like(deviation), deviation)


def batch_standard(x: Floats, eps: float) -> Standard:
    """Standardise every column of [N, D] over its rows (Ioffe & Szegedy 2015).

    As batch norm does in training: the variance is over the number of rows.
    """
    by_token = layer_standard(np.ascontiguousarray(x.T), eps)  # [D, N]
    return Standard(by_token.values.T, by_token.mean.T, by_token.deviation.T)


def relu(x: Floats) -> Floats:
    """max(0, x)."""
    return np.maximum(x, np.float32(0))


def gelu(x: Floats) -> Floats:
    """Multiply x by its normal distribution function (Hendrycks & Gimpel 2016)."""
    wide = x.astype(np.float64)
    y: Floats = (wide * 0.5 * (1 + _erf(wide / math.sqrt(2)))).astype(np.float32)
    return y


def silu(x: Floats) -> Floats:
    """Multiply x by its logistic function."""
    with np.errstate(over="ignore"):
        y: Floats = x / (1 + np.exp(-x))
        return y


ACTIVATIONS: dict[str, Callable[[Floats], Floats]] = {
    "relu": relu,
    "gelu": gelu,
    "silu": silu,
    "tanh": np.tanh,
}


def size(x: Floats) -> Floats:
    """L2 norm of every row: [..., N] -> [...]."""
    norms: Floats = np.linalg.norm(x, axis=-1)
    return norms


def cosine(x: Floats, y: Floats) -> Floats:
    """Cosine of the angle between rows, in [-1, 1]; NaN where a row is all 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        cosines: Floats = (x * y).sum(-1) / (size(x) * size(y))
        return cosines


def _erf(x: np.ndarray) -> np.ndarray:
    """Error function within 1.5e-7 (Abramowitz & Stegun, formula 7.1.26).

    numpy has none, and Python's takes 20 times as long on an array.
    """
    coefficients = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
    magnitude = np.abs(x)
    t = 1 / (1 + 0.3275911 * magnitude)
    series = np.zeros_like(t)
    for coefficient in coefficients:
        series = (series + coefficient) * t
    result: np.ndarray = np.sign(x) * (1 - series * np.exp(-magnitude * magnitude))
    return result
