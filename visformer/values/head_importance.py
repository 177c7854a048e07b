"""Importance: what heads, layers and source tokens do to a run's log p."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from visformer.values.arrays import Doubles
from visformer.values.facts import Kind, StackName

NOTHING = 0.01  # nats: what is less makes the sentence at most 1 % more or less likely


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Patched:
    """One place after another of the residual stream, taken from another run.

    Both runs read the same target, and sources of one length. Changes are of the sum of
    log p of the target's tokens, in nats, by stack: [layers, tokens].
    """

    other: float  # the sum of log p in the other run
    into_other: Mapping[StackName, Doubles]  # this run's stream there: denoising
    from_other: Mapping[StackName, Doubles]  # the other's stream here: noising


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Importance:
    """How the log p of a run's tokens changes without each of its parts.

    Changes are of the sum over the tokens, in nats: below 0 where the run needs the
    part, above 0 where it is better off without; float64, layers and heads from 0.
    """

    log_p: Doubles  # [T], of each token that the run chose, or of its reference
    heads: Mapping[Kind, Doubles]  # [layers, heads]: a head off, exact
    layers: Mapping[Kind, Doubles]  # [layers]: all heads of a layer off, exact
    source: Doubles | None = None  # [S]: a token hidden from every query; exact
    # first-order estimate of ``heads``, and Michel's measure; {} where unknown
    gradient: Mapping[Kind, Doubles]  # [layers, heads], nats
    sensitivity: Mapping[Kind, Doubles]  # [layers, heads], each layer's length is 1
    patched: Patched | None = None  # where there is a run to take streams from
    reasons: tuple[str, ...] = ()  # why something is not known

    @property
    def total(self) -> float:
        """The sum of log p, in nats."""
        return float(self.log_p.sum())

    def mean(self, kind: Kind) -> Doubles:
        """Return the change of the mean log p without each head, [layers, heads]."""
        changes: Doubles = self.heads[kind] / len(self.log_p)
        return changes

    def agreement(self, kind: Kind) -> float:
        """Return the rank correlation of exact changes and estimates, in [-1, 1].

        Spearman's rho over the heads of a kind; NaN where one of both is constant or
        there is no estimate.
        """
        if kind not in self.gradient:
            return np.nan
        one, other = (_ranks(of[kind].ravel()) for of in (self.heads, self.gradient))
        one, other = one - one.mean(), other - other.mean()
        with np.errstate(invalid="ignore"):
            return float(one @ other / np.sqrt((one @ one) * (other @ other)))


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ImportanceOfPairs:
    """The change of the mean log p of references without each head, over pairs."""

    pairs: int
    mean: Mapping[Kind, Doubles]  # [layers, heads], nats per token
    spread: Mapping[Kind, Doubles]  # standard deviation among these pairs


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ImportanceAsked:
    """What was asked about importance, and what came of it."""

    of: tuple[object, ...]  # what the run's Trace is made of, compared by identity
    pairs: str = ""  # the path of a file; then ``of`` is its model alone
    found: Importance | ImportanceOfPairs | None = None
    reason: str = ""  # why there is none


def _ranks(values: Doubles) -> Doubles:
    """Return the rank of each number, equal ones at the mean of their places."""
    _found, at, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = counts.cumsum()
    ranks: Doubles = (last - (counts - 1) / 2)[at]
    return ranks
