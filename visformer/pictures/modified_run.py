"""Words on a run that was modified, beside the baseline: the run without the change."""

from __future__ import annotations

from visformer.values.intervention import Intervention
from visformer.values.trace import Trace


def modified_words(
    requested: Intervention, trace: Trace | None, baseline: Trace | None
) -> str:
    """Return what is changed and how the text differs; "" for the model's own run.

    ``trace`` is the whole run on screen; ``baseline`` None while it is not known.
    """
    shown = trace.intervention if trace is not None else None
    if not requested and not shown:
        return ""
    if requested and requested != shown:
        return f"To be changed: {requested}"
    words = f"Altered run: {shown}"
    if baseline is None or trace is None:
        return words
    if baseline.text == trace.text:
        return f"{words}. The text stays the same."
    return f"{words}. Untouched: “{baseline.text}”"
