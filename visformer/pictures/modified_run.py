"""Words about a modified run and its baseline, the run without the change."""

from __future__ import annotations

from visformer.language import _
from visformer.values.intervention import Intervention
from visformer.values.trace import Trace


def modified_words(
    requested: Intervention, trace: Trace | None, baseline: Trace | None
) -> str:
    """Say what is changed and how the text differs; "" for the original run.

    ``trace`` is the whole run on screen; ``baseline`` None while it is not known.
    """
    shown = trace.intervention if trace is not None else None
    if not requested and not shown:
        return ""
    if requested and requested != shown:
        return _("Requested change: {changes}", changes=requested)
    if baseline is None or trace is None:
        return _("Modified run: {changes}", changes=shown)
    if baseline.text == trace.text:
        return _("Modified run: {changes}. The text stays the same.", changes=shown)
    return _(
        "Modified run: {changes}. Original text: “{text}”",
        changes=shown,
        text=baseline.text,
    )
