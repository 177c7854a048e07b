"""Words on a run that was altered, beside the untouched one."""

from __future__ import annotations

from visformer.session.state import State


def altered_words(state: State) -> str:
    """Return what is changed and how the text differs; "" for the model's own run."""
    shown = state.shown.intervention if state.shown is not None else None
    wanted = state.intervention
    if not wanted and not shown:
        return ""
    if wanted and wanted != shown:
        return f"To be changed: {wanted}"
    words = f"Altered run: {shown}"
    if state.plain is None or state.trace is None or state.busy:
        return words
    if state.plain.text == state.trace.text:
        return f"{words}. The text stays the same."
    return f"{words}. Untouched: “{state.plain.text}”"
