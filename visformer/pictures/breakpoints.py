"""Breakpoints: at which steps play stops, and why."""

import math
from dataclasses import dataclass

from visformer.analysis.leaks import leaks
from visformer.language import _
from visformer.pictures.token_names import chosen_name
from visformer.pictures.words.choices import is_best, model_says
from visformer.pictures.words.leak_words import leak_sentence
from visformer.values.trace import Trace
from visformer.words import number, probability


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakpoints:
    """What play stops at; by default at nothing."""

    token: str = ""  # as it is shown, or as the vocabulary has it
    below: float = 0.0  # probability of the choice
    above: float = 0.0  # entropy of the distribution, in bits; 0: never
    other: bool = False  # a choice that is not the model's best, as of a reference
    faults: bool = False  # NaN, or a token that is read and must not be

    def reason(self, trace: Trace) -> str:
        """Say in a sentence why play stops at a run's last step; "" if it goes on."""
        if not trace.steps:
            return ""
        chosen, token = trace.steps[-1], chosen_name(trace)
        at = {"n": len(trace), "token": token}
        if self.token and self.token in (token, chosen.token):
            return _("Stopped at step {n}: “{token}” is chosen.", **at)
        if chosen.probability < self.below:
            return _(
                "Stopped at step {n}: “{token}” has probability {p}, below {least}.",
                **at,
                p=probability(chosen.probability),
                least=number(self.below),
            )
        if self.above and chosen.entropy > self.above:
            return _(
                "Stopped at step {n}, “{token}”: the entropy is {bits} bits, above "
                "{most}.",
                **at,
                bits=number(chosen.entropy, 3),
                most=number(self.above),
            )
        if self.other and not is_best(chosen):
            return _(
                "Stopped at step {n}: “{token}” is not the model's best token, {best}.",
                **at,
                best=model_says(trace),
            )
        return _fault(trace) if self.faults else ""


def _fault(trace: Trace) -> str:
    """Say what is wrong with the last row, or who reads it; "" if nothing is found."""
    step, row = trace.steps[-1], len(trace) - 1
    if step.computed and math.isnan(step.probability):
        return _("Stopped at step {n}: all probabilities are NaN.", n=len(trace))
    for leak in leaks(trace):
        rows = (leak.query, leak.key) if leak.kind == "decoder" else (leak.query,)
        if leak.kind != "encoder" and row in rows:
            said = leak_sentence(trace, leak)
            return _("Stopped at step {n}. {leak}", n=len(trace), leak=said)
    return ""
