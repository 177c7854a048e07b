"""Teacher forcing: the loss of every token of a reference, and of all of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from visformer.language import _, ngettext
from visformer.pictures.words.choices import is_best
from visformer.values.step import step_origins
from visformer.values.trace import Trace
from visformer.words import decimals, number

MOST_LOSS = math.log(100)  # nats: the colour's end; greater losses have it too


@dataclass(frozen=True, slots=True)
class Score:
    """How well a model predicts a reference that it is fed."""

    tokens: int
    agreed: int  # of them, those that the model would have said
    total: float  # cross-entropy in nats: the sum of −ln p

    @property
    def mean(self) -> float:
        """The cross-entropy per token, in nats."""
        return self.total / self.tokens

    @property
    def perplexity(self) -> float:
        """E to the cross-entropy per token: 1 is certain; ∞ where it overflows."""
        return math.inf if self.mean >= 700 else math.exp(self.mean)


def loss_share(loss: float) -> float:
    """Return how far a loss is towards the colour's end, in [0, 1]; of NaN 1."""
    return min(1.0, max(0.0, loss / MOST_LOSS)) if loss == loss else 1.0


def is_taught(trace: Trace | None) -> bool:
    """Tell whether every token of a run was fed from a reference.

    The last one may be the model's own: a pass over ids ends there.
    """
    steps = () if trace is None else trace.steps
    if not steps or steps[0].origin != "reference":
        return False  # of a long run in a file no other step is read
    return set(step_origins(steps)[:-1]) <= {"reference"}


def score(trace: Trace) -> Score | None:
    """Return how well the model predicts the reference; None where none is fed."""
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
    """Say how well the model predicts the whole reference; "" where none is fed."""
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
    """Name the ends of the colours of losses."""
    return "0", _("≥ {most}", most=decimals(MOST_LOSS, 1))
