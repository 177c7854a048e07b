"""Whether a run's numbers are numbers: NaN and infinity, named where they begin."""

import math

import numpy as np

from visformer.language import _
from visformer.values.facts import Kind, StackName
from visformer.values.trace import Trace


def nan_row_words(trace: Trace, kind: Kind, layer: int, head: int, query: int) -> str:
    """Say why one query's weights are NaN."""
    if not trace.mask(kind, layer)[query].any():
        return _("This query may attend to nothing, so that its weights are NaN.")
    read = trace.queries(kind, layer, head)[query], trace.keys(kind, layer, head)
    if not all(np.isfinite(numbers).all() for numbers in read):
        return _(
            "The query or a key is not finite (NaN or infinity), so that the row's "
            "weights are NaN."
        )
    return _("The scores of this query overflow float32: the row's weights are NaN.")


def not_finite_words(trace: Trace) -> str:
    """Say from which layer on the hidden states are not finite; "" where all are.

    Of a run whose steps are numbers nothing is read: it is "" at once.
    """
    if not any(math.isnan(one.probability) and one.computed for one in trace.steps):
        return ""
    stacks: tuple[StackName, ...] = ("encoder", "decoder")
    for stack in stacks:
        facts = trace.model.stacks.get(stack)
        for layer in range(facts.hidden if facts else 0):
            if np.isfinite(trace.hidden(stack, layer)).all():
                continue
            if layer == 0:
                return _(
                    "The {stack}'s input is not finite (NaN or infinity), so that the "
                    "predictions mean nothing: look at the embeddings.",
                    stack=stack,
                )
            return _(
                "The numbers of {stack} layer {layer} and all that follow are not "
                "finite (NaN or infinity), so that the predictions mean nothing.",
                stack=stack,
                layer=layer,
            )
    return _(
        "The logits are not finite (NaN or infinity), so that the predictions mean "
        "nothing: look at the output projection."
    )
