"""The logit lens: what each decoder layer would have predicted (numpy only).

Each layer's residual stream, through the model's final norm where there is one,
through the output projection (nostalgebraist, "interpreting GPT: the logit lens",
2020). Letters: ``L`` decoder layers, ``D`` model width, ``k`` best tokens.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from visformer.values.arrays import Floats, Ids
from visformer.values.strategy import Strategy

TOP = 12  # best tokens of each layer that are kept


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LensRow:
    """One decoder row: index n is the stream that leaves layer n, 0 what enters.

    The last one, L, is the model's own prediction. Arrays are read-only.
    """

    ids: Ids  # [L + 1, k], best first
    tokens: tuple[tuple[str, ...], ...]  # L + 1 of k
    logits: Floats  # [L + 1, k], before any softmax of the model's own
    probabilities: Floats  # [L + 1, k]
    log_sums: Floats  # [L + 1]: log of the sum of exp of all logits
    chosen_logits: Floats  # [L + 1], of the token that the step chose
    chosen_probabilities: Floats  # [L + 1]
    chosen_ranks: Ids  # [L + 1], from 1; 0 of a token whose probability is NaN
    tempered_log_sum: float  # of the model's own logits divided by the temperature
    weight: Floats  # [D]: the output projection's column of the chosen token
    bias: float | None  # None where the projection has none


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LensRows:
    """The rows of one Trace that the engine has looked at so far."""

    of: tuple[object, ...]  # what the Trace is made of, compared by identity
    strategy: Strategy  # how tokens are chosen
    rows: Mapping[int, LensRow]
    refused: bool = False  # the engine could not: it is not asked again
