"""The tree of runs in words: what each was made from, by what, and how far it parts."""

from __future__ import annotations

import math
from dataclasses import dataclass

from visformer.values.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """What is said of a run, also once its numbers are let go."""

    source: str
    text: str  # the translation
    mean: float  # of log p of its tokens, in nats; NaN where it is not known
    model: str  # its name
    digest: str  # and the digest of its weights


def outline(trace: Trace) -> Outline:
    """Return the outline of a run; its mean is NaN where the model's numbers are."""

    def make() -> Outline:
        model = trace.model
        return Outline(
            source=trace.source_text,
            text=trace.text,
            mean=mean_log_p(trace),
            model=model.name,
            digest=model.digest,
        )

    return trace.memo.made((trace.steps,), "outline", make)


def mean_log_p(trace: Trace) -> float:
    """Return the mean of log p of the tokens written, in nats; NaN for none.

    Tokens of a prompt and padding are not counted.
    """
    pairs = [*zip(trace.steps, trace.before_pads.tolist(), strict=False)]
    written = pairs[max(0, trace.prompt - 1) :]
    losses = [step.loss for step, pad in written if step.computed and not pad]
    return -math.fsum(losses) / len(losses) if losses else math.nan
