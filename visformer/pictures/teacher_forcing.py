"""Teacher forcing: the loss of every token of a reference, and of the whole."""

from __future__ import annotations

import math
from dataclasses import dataclass

from visformer.language import _, ngettext
from visformer.pictures.words.choices import is_best
from visformer.values.step import step_origins
from visformer.values.trace import Trace
from visformer.words import decimals, number

MOST_LOSS = math.log(100)  # nats: the end of the colour scale, which clips


@dataclass(frozen=True, slots=True)
class Score:
    """How well a model predicts a reference under teacher forcing."""

    tokens: int
    agreed: int  # how many of them the model predicted
    total: float  # cross-entropy in nats: the sum of −ln p

    @property
    def mean(self) -> float:
        """The cross-entropy per token, in nats."""
        return self.total / self.tokens

    @property
    def perplexity(self) -> float:
        """The exponential of the mean cross-entropy: 1 is certain; ∞ on overflow."""
        return math.inf if self.mean >= 700 else math.exp(self.mean)


def loss_share(loss: float) -> float:
    """Return a loss as a share of the colour scale, in [0, 1]; 1 for NaN."""
    return min(1.0, max(0.0, loss / MOST_LOSS)) if loss == loss else 1.0


def is_taught(trace: Trace | None) -> bool:
    """Whether every token of a run was fed from a reference.

    The last one may be the model's own, as in a pass over ids.
    """
    steps = () if trace is None else trace.steps
    if not steps or steps[0].origin != "reference":
        return False  # avoids reading the other steps of a long run from its file
    return set(step_origins(steps)[:-1]) <= {"reference"}


def score(trace: Trace) -> Score | None:
    """Return how well the model predicts the reference; None without one."""
    if not is_taught(trace):
        return None
    steps = [
        step
        for step, pad in zip(trace.steps, trace.before_pads, strict=True)
        if step.origin == "reference" and step.computed and not pad
    ]
    if not steps:
        return None
    total = math.fsum(step.loss for step in steps)
    return Score(len(steps), sum(map(is_best, steps)), total)


def score_words(trace: Trace) -> str:
    """Report how well the model predicts the whole reference; "" without one."""
    found = score(trace)
    if found is None:
        return ""
    return ngettext(
        "Cross-entropy {mean} per token ({total} nats), perplexity {perplexity}, "
        "{agreed:,} of {n:,} as the model says",
        "Cross-entropy {mean} per token ({total} nats), perplexity {perplexity}, "
        "{agreed:,} of {n:,} as the model says",
        found.tokens,
        total=decimals(found.total, 2),
        mean=decimals(found.mean, 3),
        perplexity=number(found.perplexity, 3),
        agreed=found.agreed,
    )


def legend_ends() -> tuple[str, str]:
    """Name the ends of the colour scale of losses."""
    return "0", _("≥ {most}", most=decimals(MOST_LOSS, 1))
