"""Whether a model stands behind the run on screen, so that it can be run again."""

from __future__ import annotations

from visformer.language import _
from visformer.session.state import State
from visformer.values.facts import KINDS
from visformer.values.layer_weights import same_model


def fixed_words(state: State) -> str:
    """Say why the run on screen cannot be changed; "" where it can be.

    While a model is being opened, it may be that of the recorded run.
    """
    trace = state.trace
    if trace is None or not state.recorded:
        return ""
    if state.opened is None:
        ours = trace.model.known is not None and trace.kinds == KINDS
        if ours and state.opening is not None:
            return ""
    elif same_model(state.opened.model, trace.model):
        if trace.kinds == KINDS:
            return ""
        return _(
            "This run cannot be changed here: only part of the model ran, and the "
            "window always runs all of it."
        )
    return _("This run cannot be changed: the model that made it is not open.")


def other_model_words(state: State) -> str:
    """Say that a new sentence goes to another model than made the run on screen."""
    trace, opened = state.trace, state.opened
    if trace is None or opened is None or not state.recorded:
        return ""
    if same_model(opened.model, trace.model):
        return ""
    return _(
        "Translated by “{opened}”: “{recorded}”, which made the recorded run, is not "
        "open.",
        opened=opened.model.name[:60],
        recorded=trace.model.name[:60],
    )
