"""What the sentence on screen is compared with: a reference, or a run before it."""

from __future__ import annotations

from visformer.pictures.choices import has_fed
from visformer.pictures.teacher_forcing import is_taught
from visformer.pictures.translation_text import (
    Against,
    TranslationText,
    translation_text,
)
from visformer.session.state import State


def compared(state: State) -> TranslationText:
    """Return the sentence up to the current step, marked against what it is like."""
    return translation_text(state.shown, *_other(state), whole=state.ahead)


def _other(state: State) -> tuple[str, Against]:
    """Return the text to compare with, and what it is; ("", "") for none."""
    trace, baseline = state.trace, state.baseline
    if trace is None or not trace.steps:
        return "", ""
    taught = is_taught(trace)
    if state.wish.reference and not taught:
        return state.wish.reference, "reference"
    if trace.intervention and baseline is not None:
        return baseline.text, "original"
    before = _before(state)
    # asked last: of a long run in a file it reads all steps
    if before and (taught or has_fed(trace.steps)):
        return before, "before"
    return "", ""


def _before(state: State) -> str:
    """Return the text of the newest run of the sentence that is the model's own."""
    for run in reversed(state.history.undo):
        made = run.made
        if made is None or run.wish.sentence != state.wish.sentence:
            continue
        if made.trace.intervention == state.intervention and not has_fed(
            made.trace.steps
        ):
            return made.trace.text
    return ""
